// The functions of a board that the samples need: a UART, a second one for the log, a clock, sleep,
// and flash with the rules of flash. This board is QEMU's mps2-an386 (a Cortex-M4); another board
// has the same functions.

#ifndef BOARD_H
#define BOARD_H

#include <stdbool.h>
#include <stdint.h>

// Starts clock and UARTs.
void board_start(void);

// Milliseconds since the start; wraps.
uint32_t board_milliseconds(void);

// Sleeps until bytes arrive, or the next tick of the clock: 5 ms at most.
void board_sleep(void);

// The line to the gateway. Both return the number of bytes that they moved and never block.
uint32_t board_write(const uint8_t *bytes, uint32_t count);
uint32_t board_read(uint8_t *bytes, uint32_t count);

// Text for people, on the other UART. Blocks until it is sent.
void board_log(const uint8_t *text, uint32_t count);

// Flash: sectors are erased to FF as a whole, units are programmed once between erasures. A
// violation of these rules stops the board. A loss of power may leave either operation incomplete.
enum { BOARD_FLASH_SECTOR = 4096, BOARD_FLASH_UNIT = 8, BOARD_FLASH_SECTORS = 16 };

void board_flash_read(uint32_t offset, uint8_t *bytes, uint32_t count);
void board_flash_erase(uint32_t offset);
void board_flash_program(uint32_t offset, const uint8_t *bytes, uint32_t count);

// The factory's data in sector 0: random bytes that differ between devices.
uint64_t board_factory_seed(void);

#endif
