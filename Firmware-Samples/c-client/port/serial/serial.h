// A line to the broker over a UART, through a gateway that carries its bytes to a connection:
// frames on the wire, a stream of bytes for the client. It knows no UART and no packet.
//
//     frame   COBS( counter, kind, payload, CRC-32 of all before, little-endian ) 00
//     kind    0 open, 1 opened, 2 data, 3 close
//
// Nobody says that an open was heard but the opened that answers it, so it is sent again, after a
// quarter of a second and then after twice as long each time: the gateway may be plugged in later
// than the device. Each one that is heard is answered.
//
// The counter counts the frames of one direction from 0 at open, modulo 256. A frame that fails its
// CRC, or a gap in the counter, is a lost connection: both sides close, the client connects anew
// and resumes. Nothing is sent again on this layer and the gateway acknowledges nothing on its own:
// what makes messages safe are the client's and the broker's numbers, end to end. A frame that is
// lost is noticed by the gap before the next one, and where none follows, by keep-alive.
//
// COBS (Cheshire and Baker 1999) makes 00 occur only at the end of a frame.

#ifndef MRT_SERIAL_H
#define MRT_SERIAL_H

#include "mrt/transport.h"

enum {
    // Bytes of a frame's payload at most, so that both buffers stay small.
    MRT_SERIAL_PAYLOAD = 64,
    // Counter, kind, payload, CRC.
    MRT_SERIAL_FRAME = 2 + MRT_SERIAL_PAYLOAD + 4,
    // One byte of COBS per 254, and the 00.
    MRT_SERIAL_ENCODED = MRT_SERIAL_FRAME + 2
};

// The UART: read and write return how many bytes they moved, 0 for none now; they never wait and
// never fail.
typedef struct mrt_uart {
    void *context;
    uint32_t (*write)(void *context, const uint8_t *bytes, uint32_t count);
    uint32_t (*read)(void *context, uint8_t *bytes, uint32_t count);
    // Milliseconds of any clock; it may wrap.
    uint32_t (*milliseconds)(void *context);
} mrt_uart;

typedef struct mrt_serial {
    const mrt_uart *uart;
    // The frame that is arriving, still encoded; then its payload, as far as it was not read.
    uint8_t in[MRT_SERIAL_ENCODED];
    uint8_t in_count;
    uint8_t payload_start;
    uint8_t payload_end;
    // The frame that is leaving.
    uint8_t out[MRT_SERIAL_ENCODED];
    uint8_t out_start;
    uint8_t out_count;
    uint8_t in_counter;
    uint8_t out_counter;
    // When the last open was sent, and how long an answer to it is waited for.
    uint32_t opened_at;
    uint32_t patience_ms;
    bool is_opening;
    bool is_open;
    bool is_broken;
    // What is between the two until the next 00 belongs to a frame whose beginning was missed.
    bool is_lost;
} mrt_serial;

void mrt_serial_init(mrt_serial *serial, const mrt_uart *uart);

// The three functions of mrt/transport.h, with a mrt_serial as context.
int32_t mrt_serial_link(void *context, bool wanted);
int32_t mrt_serial_send(void *context, const uint8_t *bytes, uint32_t count);
int32_t mrt_serial_receive(void *context, uint8_t *bytes, uint32_t count);

// Kinds of frames.
enum { MRT_SERIAL_OPEN = 0, MRT_SERIAL_OPENED = 1, MRT_SERIAL_DATA = 2, MRT_SERIAL_CLOSE = 3 };

// For the other end of the line, and tests. Encodes one frame, at most MRT_SERIAL_PAYLOAD bytes of
// payload, with its closing 00; gives its bytes.
uint32_t mrt_serial_encode(uint8_t counter, uint8_t kind, const uint8_t *payload, uint32_t count,
    uint8_t encoded[MRT_SERIAL_ENCODED]);

// Decodes a frame in place, without its 00: counter, kind and payload stand at the front then.
// Gives the bytes of these, or 0 where the frame is damaged.
uint32_t mrt_serial_decode(uint8_t *bytes, uint32_t count);

#endif
