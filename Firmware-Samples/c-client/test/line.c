// The other side of the client's tests: line, program and broker, all played by the test.

#include "line.h"

// MARK: The line

line wire;

static int32_t line_link(void *context, bool wanted)
{
    line *line = context;
    line->is_up = wanted && line->state > 0;
    if (!wanted) {
        line->in_start = line->in_end = line->out_count = 0;
        line->is_dead = false;
    }
    return line->state;
}

static int32_t line_send(void *context, const uint8_t *bytes, uint32_t count)
{
    line *line = context;
    CHECK(line->is_up && count > 0);
    uint32_t part = count < line->piece ? count : line->piece;
    if (line->is_dead) {
        return -1;
    }
    CHECK(line->out_count + part <= LINE_BYTES);
    memcpy(line->out + line->out_count, bytes, part);
    line->out_count += part;
    return (int32_t)part;
}

static int32_t line_receive(void *context, uint8_t *bytes, uint32_t count)
{
    line *line = context;
    CHECK(line->is_up && count > 0);
    uint32_t left = line->in_end - line->in_start;
    uint32_t part = left < count ? left : count;
    part = part < line->piece ? part : line->piece;
    if (line->is_dead) {
        return -1;
    }
    memcpy(bytes, line->in + line->in_start, part);
    line->in_start += part;
    return (int32_t)part;
}

static const mrt_transport transport = {&wire, line_link, line_send, line_receive};

// MARK: The program

seen events[EVENTS];
unsigned event_count;
mrt_client client;
static mrt_storage storage;
uint8_t ram[RAM_BYTES];
uint8_t receive[RECEIVE_BYTES];
static uint8_t transmit[160];
uint32_t now;

static void copy(char *to, size_t size, mrt_bytes bytes)
{
    snprintf(to, size, "%.*s", (int)bytes.count, (const char *)bytes.bytes);
}

static void happened(void *context, const mrt_event *event)
{
    (void)context;
    CHECK(event_count < EVENTS);
    seen *seen = &events[event_count++];
    seen->event = *event;
    seen->from[0] = seen->body[0] = '\0';
    if (event->kind == MRT_EVENT_MESSAGE || event->kind == MRT_EVENT_OVERSIZE) {
        copy(seen->from, sizeof seen->from, event->as.delivery.from);
        copy(seen->body, sizeof seen->body, event->as.delivery.body);
    }
}

mrt_config config = {
    .transport = &transport,
    .storage = &storage,
    .happened = happened,
    .receive = receive,
    .receive_size = sizeof receive,
    .transmit = transmit,
    .transmit_size = sizeof transmit,
    .inbox_window = 16,
    .keep_alive_seconds = 300,
    .session_expiry_seconds = MRT_EXPIRY_DEFAULT,
};

static const uint8_t entropy[8] = {0xFF};

// MARK: The broker

void broker_says(const char *hex)
{
    for (; *hex != '\0'; hex += 2) {
        char pair[3] = {hex[0], hex[1], '\0'};
        CHECK(wire.in_end < LINE_BYTES);
        wire.in[wire.in_end++] = (uint8_t)strtoul(pair, NULL, 16);
    }
}

void settle_down(void)
{
    // Bounded: a client that never comes to rest fails.
    for (int i = 0; i < 100000; i++) {
        if (mrt_poll(&client, now) <= 0) {
            return;
        }
    }
    CHECK(!"the client comes to rest");
}

void expect_sent(const char *hex)
{
    static char found[2 * LINE_BYTES + 1];
    for (uint32_t i = 0; i < wire.out_count; i++) {
        snprintf(found + 2 * i, 3, "%02x", wire.out[i]);
    }
    found[2 * wire.out_count] = '\0';
    wire.out_count = 0;
    if (strcmp(found, hex) != 0) {
        fprintf(stderr, "sent %s\ninstead of %s\n", found, hex);
        exit(1);
    }
}

const mrt_event *last_event(mrt_event_kind kind)
{
    CHECK(event_count > 0);
    CHECK(events[event_count - 1].event.kind == kind);
    return &events[event_count - 1].event;
}

void init(uint64_t epoch, uint64_t number)
{
    mrt_record record = {epoch, number};
    memset(&wire, 0, sizeof wire);
    wire.state = 1;
    wire.piece = LINE_BYTES;
    event_count = 0;
    storage = mrt_ram_storage(ram, sizeof ram);
    CHECK(mrt_init(&client, &config, &record, entropy) == MRT_IDLE);
}

void log_in(void)
{
    mrt_start(&client);
    settle_down();
    broker_says(CONNACK);
    settle_down();
    CHECK(mrt_is_connected(&client));
    wire.out_count = 0;
}

mrt_message hello(void)
{
    mrt_message message = {
        .grade = MRT_DURABLE, .address = mrt_text("bob"), .body = mrt_text("hello")};
    return message;
}

uint64_t send_hello(void)
{
    mrt_message message = hello();
    uint64_t number = 0;
    CHECK(mrt_send(&client, &message, &number) == MRT_IDLE);
    return number;
}
