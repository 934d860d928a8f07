// What the tests of the client see of its other side (line.c).

#ifndef MRT_TEST_LINE_H
#define MRT_TEST_LINE_H

#include "check.h"
#include "mrt/requests.h"
#include "wire.h"

enum { LINE_BYTES = 16384, EVENTS = 64, RAM_BYTES = 600, RECEIVE_BYTES = 160 };

typedef struct line {
    // -1 refuses, 0 is on the way, 1 is up.
    int32_t state;
    bool is_up;
    // From the broker, and to it.
    uint8_t in[LINE_BYTES];
    uint32_t in_start, in_end;
    uint8_t out[LINE_BYTES];
    uint32_t out_count;
    // Bytes that one call takes or gives; 0 is a line that is stuck.
    uint32_t piece;
    bool is_dead;
} line;

extern line wire;

// Events as the test looks at them: what they point to is gone when the callback returns.
typedef struct seen {
    mrt_event event;
    char from[65];
    char body[200];
} seen;

extern seen events[EVENTS];
extern unsigned event_count;

extern mrt_client client;
extern mrt_config config;
// The clock, moved by hand.
extern uint32_t now;

// Epoch 0123456789abcdef, send window 2, inbox window 4, keep-alive 300 s, packets up to 128.
#define CONNACK "202405000123456789abcdeffedcba987654321080d8c1a28c34ac0200020480018008000161"

// A client that holds this record, and nothing else of an earlier life.
void init(uint64_t epoch, uint64_t number);
void log_in(void);
mrt_message hello(void);
uint64_t send_hello(void);

// Bytes that will arrive, in hexadecimal.
void broker_says(const char *hex);
// Polls until there is nothing to do.
void settle_down(void);
// What was sent since the last time, exactly.
void expect_sent(const char *hex);
// The last event, which is of this kind.
const mrt_event *last_event(mrt_event_kind kind);

#endif
