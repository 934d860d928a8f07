// The state of a client between calls. It is public so that the caller can own it, as a static
// variable; the program must not use its members.

#ifndef MRT_STATE_H
#define MRT_STATE_H

#include "mrt/storage.h"

// The resume record: the only data that a program must store, 16 bytes, in the same atomic write as
// the effect of a message.
typedef struct mrt_record {
    // The session of the number; 0 for none.
    uint64_t epoch;
    // The last processed message.
    uint64_t number;
} mrt_record;

// The numbered messages without a result (src/log.c).
typedef struct mrt_log {
    // Of the packet that is being copied out: the remaining bytes, and their position.
    uint32_t rest;
    uint32_t rest_place;
    // Every number up to this one has its result...
    uint32_t seen;
    // ...and every number up to this one also after a loss of power.
    uint32_t marked;
    // The highest number that was assigned, that was transmitted, and that was looked for on this
    // connection.
    uint32_t highest;
    uint32_t transmitted;
    uint32_t given;
    // Bit i: the result of number seen + 1 + i has arrived.
    uint32_t answered;
    const mrt_storage *storage;
    // Size of a sector; of the whole storage if it has none.
    uint32_t sector;
    // The oldest record that is needed, and the bytes from there: used, and examined.
    uint32_t tail;
    uint32_t used;
    uint32_t cursor;
    // Counts the sectors that were begun.
    uint32_t lap;
    // The outbox epoch and numbers: docs/PROTOCOL.md section 8, "The outbox". Numbers of 32 bits
    // last for 136 years with one message per second.
    uint64_t epoch;
} mrt_log;

// Small members first: a Cortex-M addresses the first 32 bytes, and the first 128 as words, with
// short instructions.
typedef struct mrt_client {
    uint8_t phase;
    uint8_t failures;
    uint8_t leave_reason;
    uint8_t stop_reason;
    // The flags of the next CONNECT.
    uint8_t connect_flags;
    bool is_ack_due;
    bool is_ping_open;
    bool is_leave_due;
    bool is_held;
    const struct mrt_config *config;
    uint32_t now;
    // The begin of the phase, and its deadline.
    uint32_t phase_since;
    uint32_t phase_ms;
    uint32_t last_sent;
    uint32_t last_received;
    uint32_t ping_since;
    uint32_t keep_alive_ms;
    // Bytes in the receive buffer, and in the transmit buffer.
    uint32_t received;
    uint32_t waiting;
    // Bytes of a packet that is too large, still to be skipped.
    uint32_t skip;
    uint32_t packet_maximum;
    uint32_t send_window;
    uint32_t inbox_window;
    // Deliveries since the last acknowledgement.
    uint32_t unacknowledged;
    // The confirmed results, as sent to the broker on this connection.
    uint32_t announced;
    uint32_t request_id;
    uint32_t leave_expiry;
    uint32_t random;
    mrt_log log;
    mrt_record inbox;
    // The highest number that the program was given, and that arrived on this connection.
    uint64_t delivered;
    uint64_t arrived;
    uint64_t cookie;
} mrt_client;

#endif
