// The board's network, as far as a sleeping node needs it: datagrams to one port of its address.

#ifndef BOARD_DATAGRAMS_H
#define BOARD_DATAGRAMS_H

#include <stdint.h>

// Starts the network card. The address is 10.0.2.15, which QEMU's user network gives its guest.
void board_datagrams_start(uint16_t port);

// The bytes of the next datagram, as far as there is room; 0 if none has arrived. Never blocks.
uint32_t board_datagram_read(uint8_t *bytes, uint32_t room);

// Stops the tick of the clock and the line, and sleeps until the network card has a frame. Returns
// how many times the processor woke.
uint32_t board_sleep_until_frame(void);

#endif
