// How a stream of bytes crosses a line that may lose and flip them.

#include "serial.h"

#include "crc32.h"

#include <string.h>

enum { HEAD_BYTES = 2, CHECK_BYTES = 4 };

// The answer crosses the line in a few milliseconds where somebody listens; a line that nobody
// listens to for hours costs a frame of 8 bytes every few seconds.
enum { PATIENCE_MS = 250, PATIENCE_MAXIMUM_MS = 4000 };

// MARK: Frames

uint32_t mrt_serial_encode(uint8_t counter, uint8_t kind, const uint8_t *payload, uint32_t count,
    uint8_t encoded[MRT_SERIAL_ENCODED])
{
    uint8_t frame[MRT_SERIAL_FRAME] = {counter, kind};
    if (count > 0) {
        memcpy(frame + HEAD_BYTES, payload, count);
    }
    count += HEAD_BYTES;
    uint32_t check = mrt_crc32(0, frame, count);
    for (uint32_t i = 0; i < CHECK_BYTES; i++) {
        frame[count++] = (uint8_t)(check >> (8 * i));
    }
    // A frame is shorter than 254 bytes: each block ends with a 00 that is taken out, or with the
    // frame.
    uint32_t block = 0;
    uint32_t end = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (frame[i] == 0) {
            encoded[block] = (uint8_t)(end - block);
            block = end;
        } else {
            encoded[end] = frame[i];
        }
        end++;
    }
    encoded[block] = (uint8_t)(end - block);
    encoded[end] = 0;
    return end + 1;
}

uint32_t mrt_serial_decode(uint8_t *bytes, uint32_t count)
{
    uint32_t next = 0;
    uint32_t end = 0;
    while (next < count) {
        uint32_t length = bytes[next];
        if (length == 0 || next + length > count) {
            return 0;
        }
        for (uint32_t i = 1; i < length; i++) {
            bytes[end++] = bytes[next + i];
        }
        next += length;
        if (next < count) {
            bytes[end++] = 0;
        }
    }
    if (end < HEAD_BYTES + CHECK_BYTES) {
        return 0;
    }
    end -= CHECK_BYTES;
    uint32_t check = mrt_crc32(0, bytes, end);
    for (uint32_t i = 0; i < CHECK_BYTES; i++) {
        if (bytes[end + i] != (uint8_t)(check >> (8 * i))) {
            return 0;
        }
    }
    return end;
}

// MARK: The line

void mrt_serial_init(mrt_serial *serial, const mrt_uart *uart)
{
    memset(serial, 0, sizeof *serial);
    serial->uart = uart;
}

static void flush(mrt_serial *serial)
{
    if (serial->out_start < serial->out_count) {
        serial->out_start = (uint8_t)(serial->out_start
            + serial->uart->write(serial->uart->context, serial->out + serial->out_start,
                (uint32_t)serial->out_count - serial->out_start));
    }
}

// Begins a frame, if the last one is out.
static bool put(mrt_serial *serial, uint8_t kind, const uint8_t *payload, uint32_t count)
{
    flush(serial);
    if (serial->out_start < serial->out_count) {
        return false;
    }
    serial->out_start = 0;
    serial->out_count = (uint8_t)mrt_serial_encode(
        serial->out_counter, kind, payload, count, serial->out);
    serial->out_counter++;
    flush(serial);
    return true;
}

// Looks at a frame that is whole. Frames of an earlier connection that still arrive while this one
// is being opened are passed over.
static void understand(mrt_serial *serial)
{
    uint32_t count = mrt_serial_decode(serial->in, serial->in_count);
    serial->in_count = 0;
    bool is_opened =
        count == HEAD_BYTES && serial->in[0] == 0 && serial->in[1] == MRT_SERIAL_OPENED;
    if (serial->is_opening) {
        if (is_opened) {
            serial->is_opening = false;
            serial->is_open = true;
            serial->in_counter = 1;
        }
        return;
    }
    if (is_opened && serial->in_counter == 1) {
        // The answer to an open that was sent again.
        return;
    }
    if (count == 0 || serial->in[0] != serial->in_counter || serial->in[1] != MRT_SERIAL_DATA) {
        serial->is_broken = true;
        return;
    }
    serial->in_counter++;
    serial->payload_start = HEAD_BYTES;
    serial->payload_end = (uint8_t)count;
}

// Reads up to the end of one frame.
static void read_frame(mrt_serial *serial)
{
    uint8_t byte = 0;
    while (serial->payload_start == serial->payload_end && !serial->is_broken
        && serial->uart->read(serial->uart->context, &byte, 1) == 1) {
        if (byte != 0) {
            // Longer than any frame: the 00 between two was lost.
            serial->is_lost |= serial->in_count == MRT_SERIAL_ENCODED;
            if (!serial->is_lost) {
                serial->in[serial->in_count++] = byte;
            }
        } else if (serial->is_lost) {
            serial->is_lost = false;
            serial->in_count = 0;
            serial->is_broken = serial->is_open;
        } else if (serial->in_count > 0) {
            understand(serial);
        }
    }
}

// Asks for a connection, again where nobody has answered.
static void ask(mrt_serial *serial)
{
    uint32_t now = serial->uart->milliseconds(serial->uart->context);
    if (!serial->is_opening) {
        serial->is_broken = false;
        serial->payload_start = serial->payload_end = 0;
        serial->patience_ms = PATIENCE_MS / 2;
    } else if (now - serial->opened_at < serial->patience_ms) {
        return;
    }
    serial->out_counter = 0;
    if (put(serial, MRT_SERIAL_OPEN, NULL, 0)) {
        serial->is_opening = true;
        serial->opened_at = now;
        serial->patience_ms *= serial->patience_ms < PATIENCE_MAXIMUM_MS ? 2 : 1;
    }
}

int32_t mrt_serial_link(void *context, bool wanted)
{
    mrt_serial *serial = context;
    if (!wanted) {
        // The rest of a frame goes first, so that the other end sees where this one begins.
        put(serial, MRT_SERIAL_CLOSE, NULL, 0);
        serial->is_open = false;
        serial->is_opening = false;
        return 0;
    }
    if (!serial->is_open) {
        ask(serial);
    }
    flush(serial);
    read_frame(serial);
    return serial->is_open ? 1 : 0;
}

int32_t mrt_serial_send(void *context, const uint8_t *bytes, uint32_t count)
{
    mrt_serial *serial = context;
    uint32_t part = count < MRT_SERIAL_PAYLOAD ? count : (uint32_t)MRT_SERIAL_PAYLOAD;
    if (serial->is_broken) {
        return -1;
    }
    return put(serial, MRT_SERIAL_DATA, bytes, part) ? (int32_t)part : 0;
}

int32_t mrt_serial_receive(void *context, uint8_t *bytes, uint32_t count)
{
    mrt_serial *serial = context;
    flush(serial);
    read_frame(serial);
    if (serial->is_broken) {
        return -1;
    }
    uint32_t left = (uint32_t)serial->payload_end - serial->payload_start;
    uint32_t part = left < count ? left : count;
    memcpy(bytes, serial->in + serial->payload_start, part);
    serial->payload_start = (uint8_t)(serial->payload_start + part);
    return (int32_t)part;
}
