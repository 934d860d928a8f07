// The serial line: frames as bytes, and a stream between two ends while bytes are lost and flipped
// on the wire. What arrives is always a beginning of what was sent, never anything else.

#include "check.h"
#include "serial.h"

#include <string.h>

enum { WIRE_BYTES = 65536 };

// One direction.
typedef struct direction {
    uint8_t bytes[WIRE_BYTES];
    uint32_t start, end;
    // One byte in so many is lost or flipped; 0 for none.
    uint32_t damage;
} direction;

typedef struct ends {
    direction *out;
    direction *in;
} ends;

static uint32_t random_state = 1;

static uint32_t chance(uint32_t bound)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % bound;
}

static uint32_t wire_write(void *context, const uint8_t *bytes, uint32_t count)
{
    direction *wire = ((ends *)context)->out;
    // A UART with a small buffer takes what it can.
    uint32_t part = count < 5 ? count : 1 + chance(5);
    for (uint32_t i = 0; i < part && wire->end < WIRE_BYTES; i++) {
        uint8_t byte = bytes[i];
        if (wire->damage > 0 && chance(wire->damage) == 0) {
            if (chance(2) == 0) {
                continue;
            }
            byte ^= (uint8_t)(1u << chance(8));
        }
        wire->bytes[wire->end++] = byte;
    }
    return part;
}

static uint32_t wire_read(void *context, uint8_t *bytes, uint32_t count)
{
    direction *wire = ((ends *)context)->in;
    uint32_t left = wire->end - wire->start;
    uint32_t part = left < count ? left : count;
    memcpy(bytes, wire->bytes + wire->start, part);
    wire->start += part;
    if (wire->start == wire->end) {
        wire->start = wire->end = 0;
    }
    return part;
}

static uint32_t now;

static uint32_t wire_milliseconds(void *context)
{
    (void)context;
    return now;
}

static void frames_survive_any_content(void)
{
    uint8_t encoded[MRT_SERIAL_ENCODED];
    uint8_t payload[MRT_SERIAL_PAYLOAD];
    for (uint32_t round = 0; round < 5000; round++) {
        uint32_t count = chance(MRT_SERIAL_PAYLOAD + 1);
        for (uint32_t i = 0; i < count; i++) {
            payload[i] = (uint8_t)(chance(3) == 0 ? 0 : chance(256));
        }
        uint32_t length = mrt_serial_encode((uint8_t)round, 2, payload, count, encoded);
        CHECK(length <= MRT_SERIAL_ENCODED && encoded[length - 1] == 0);
        CHECK(memchr(encoded, 0, length - 1) == NULL);
        CHECK(mrt_serial_decode(encoded, length - 1) == count + 2);
        CHECK(encoded[0] == (uint8_t)round && encoded[1] == 2);
        CHECK(memcmp(encoded + 2, payload, count) == 0);
    }
}

static void damage_is_noticed(void)
{
    uint8_t encoded[MRT_SERIAL_ENCODED];
    const uint8_t payload[] = {0, 1, 2, 0, 0, 0xFF};
    uint32_t length = mrt_serial_encode(7, 2, payload, sizeof payload, encoded);
    for (uint32_t bit = 0; bit < (length - 1) * 8; bit++) {
        uint8_t damaged[MRT_SERIAL_ENCODED];
        memcpy(damaged, encoded, length);
        damaged[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        CHECK(mrt_serial_decode(damaged, length - 1) == 0);
    }
}

// A connection between a client and the far end, until it breaks or `total` bytes have arrived.
static uint32_t run_connection(mrt_serial *client, ends *far, uint32_t total)
{
    uint32_t sent = 0;
    uint32_t arrived = 0;
    uint8_t frame[MRT_SERIAL_ENCODED];
    uint32_t frame_count = 0;
    uint8_t expected = 0;
    bool is_open = false;
    bool is_far_open = false;
    for (uint32_t i = 0; i < 20000 && arrived < total; i++) {
        uint8_t bytes[100];
        if (!is_open && mrt_serial_link(client, true) > 0) {
            is_open = true;
        } else if (is_open) {
            uint32_t count = 1 + chance(sizeof bytes);
            for (uint32_t j = 0; j < count; j++) {
                bytes[j] = (uint8_t)((sent + j) * 7);
            }
            int32_t taken = mrt_serial_send(client, bytes, count);
            if (taken < 0 || mrt_serial_receive(client, bytes, sizeof bytes) < 0) {
                break;
            }
            sent += (uint32_t)taken;
        }
        uint8_t byte = 0;
        for (uint32_t j = 0; j < 40 && wire_read(far, &byte, 1) == 1; j++) {
            if (byte != 0) {
                frame[frame_count] = byte;
                frame_count = frame_count + 1 < sizeof frame ? frame_count + 1 : 0;
                continue;
            }
            uint32_t count = mrt_serial_decode(frame, frame_count);
            frame_count = 0;
            if (count > 0 && frame[1] == MRT_SERIAL_OPEN) {
                uint32_t length = mrt_serial_encode(0, MRT_SERIAL_OPENED, NULL, 0, frame);
                memcpy(far->out->bytes + far->out->end, frame, length);
                far->out->end += length;
                expected = 1;
                is_far_open = true;
            } else if (!is_far_open) {
                // What is left of an earlier connection.
                continue;
            } else if (count == 0 || frame[0] != expected || frame[1] != MRT_SERIAL_DATA) {
                // The far end closes.
                mrt_serial_link(client, false);
                return arrived;
            } else {
                for (uint32_t k = 2; k < count; k++) {
                    CHECK(frame[k] == (uint8_t)(arrived * 7));
                    arrived++;
                }
                expected++;
            }
        }
    }
    mrt_serial_link(client, false);
    return arrived;
}

static void a_stream_crosses_a_clean_line(void)
{
    static direction there, back;
    ends near = {&there, &back};
    ends far = {&back, &there};
    mrt_uart uart = {&near, wire_write, wire_read, wire_milliseconds};
    mrt_serial serial;
    mrt_serial_init(&serial, &uart);
    // More than 256 frames: the counter wraps.
    CHECK(run_connection(&serial, &far, 20000) >= 20000);
}

static void a_bad_line_breaks_but_never_lies(void)
{
    static direction there, back;
    ends near = {&there, &back};
    ends far = {&back, &there};
    mrt_uart uart = {&near, wire_write, wire_read, wire_milliseconds};
    mrt_serial serial;
    uint32_t total = 0;
    mrt_serial_init(&serial, &uart);
    there.damage = 2000;
    back.damage = 2000;
    for (uint32_t connection = 0; connection < 200; connection++) {
        total += run_connection(&serial, &far, 5000);
        there.start = there.end = back.start = back.end = 0;
    }
    printf("    200 connections on a bad line, %u bytes, all of them right\n", total);
    CHECK(total > 50000);
}

// How many whole frames the client has sent; all of them opens.
static uint32_t count_opens(ends *far)
{
    uint8_t frame[MRT_SERIAL_ENCODED];
    uint32_t frame_count = 0;
    uint32_t opens = 0;
    uint8_t byte = 0;
    while (wire_read(far, &byte, 1) == 1) {
        if (byte != 0) {
            CHECK(frame_count < sizeof frame);
            frame[frame_count++] = byte;
        } else {
            CHECK(mrt_serial_decode(frame, frame_count) == 2);
            CHECK(frame[0] == 0 && frame[1] == MRT_SERIAL_OPEN);
            frame_count = 0;
            opens++;
        }
    }
    return opens;
}

static void an_open_that_nobody_heard_is_sent_again(void)
{
    static direction there, back;
    ends near = {&there, &back};
    ends far = {&back, &there};
    mrt_uart uart = {&near, wire_write, wire_read, wire_milliseconds};
    mrt_serial serial;
    uint8_t bytes[8] = {0};
    mrt_serial_init(&serial, &uart);
    // The clock wraps meanwhile: 250, 500, ... 4,000 and 4,000 ms.
    now = UINT32_MAX - 1000;
    for (uint32_t end = now + 15700; now != end; now += 10) {
        CHECK(mrt_serial_link(&serial, true) == 0);
    }
    CHECK(count_opens(&far) == 7);
    // The gateway heard two of them, and answers both.
    for (uint32_t i = 0; i < 2; i++) {
        back.end += mrt_serial_encode(0, MRT_SERIAL_OPENED, NULL, 0, back.bytes + back.end);
    }
    CHECK(mrt_serial_link(&serial, true) == 1);
    CHECK(mrt_serial_receive(&serial, bytes, sizeof bytes) == 0);
    back.end += mrt_serial_encode(1, MRT_SERIAL_DATA, bytes, 5, back.bytes + back.end);
    CHECK(mrt_serial_receive(&serial, bytes, sizeof bytes) == 5);
    // One that comes later is a gap like any other.
    back.end += mrt_serial_encode(0, MRT_SERIAL_OPENED, NULL, 0, back.bytes + back.end);
    CHECK(mrt_serial_receive(&serial, bytes, sizeof bytes) == -1);
    CHECK(count_opens(&far) == 0);
}

int main(void)
{
    RUN(an_open_that_nobody_heard_is_sent_again);
    RUN(frames_survive_any_content);
    RUN(damage_is_noticed);
    RUN(a_stream_crosses_a_clean_line);
    RUN(a_bad_line_breaks_but_never_lies);
    return 0;
}
