// What a client keeps between calls. It is public so that the caller can own it, as a static
// variable; its members are the client's own business.

#ifndef MRT_STATE_H
#define MRT_STATE_H

#include "mrt/storage.h"

// The resume record: the only thing a program has to store, 16 bytes, in the same atomic write as
// the effect of a message.
typedef struct mrt_record {
    // Which session the number belongs to; 0 for none.
    uint64_t epoch;
    // The last message that was processed.
    uint64_t number;
} mrt_record;

// The numbered messages that have no result yet (src/log.c).
typedef struct mrt_log {
    // Of the packet that is being copied out: how much is left, and where it goes on.
    uint32_t rest;
    uint32_t rest_place;
    // Every number up to this one is settled...
    uint32_t seen;
    // ...and up to this one also after a loss of power.
    uint32_t marked;
    // The highest number that was given, that was transmitted, and that was looked for on this
    // connection.
    uint32_t highest;
    uint32_t transmitted;
    uint32_t given;
    // Bit i: the result of number seen + 1 + i has come.
    uint32_t answered;
    const mrt_storage *storage;
    // Bytes of a sector; of the whole storage where it has none.
    uint32_t sector;
    // The oldest record that is needed, and the bytes from there: in use, and looked at.
    uint32_t tail;
    uint32_t used;
    uint32_t cursor;
    // Counts the sectors that were begun.
    uint32_t lap;
    // The sender's numbering: docs/PROTOCOL.md section 8, "The outbox". Numbers of 32 bits last for
    // 136 years of a message each second.
    uint64_t epoch;
} mrt_log;

// Small members first: a Cortex-M reaches the first 32 bytes, and the first 128 by words, with
// short instructions.
typedef struct mrt_client {
    uint8_t phase;
    uint8_t failures;
    uint8_t leave_reason;
    uint8_t stop_reason;
    // What the next CONNECT has to say, as its flags.
    uint8_t connect_flags;
    bool is_ack_due;
    bool is_ping_open;
    bool is_leave_due;
    bool is_held;
    const struct mrt_config *config;
    uint32_t now;
    // Since when the phase lasts, and when it ends by itself.
    uint32_t phase_since;
    uint32_t phase_ms;
    uint32_t last_sent;
    uint32_t last_received;
    uint32_t ping_since;
    uint32_t keep_alive_ms;
    // Bytes in the receive buffer, and in the transmit buffer.
    uint32_t received;
    uint32_t waiting;
    // Bytes of a packet that does not fit, still to be passed over.
    uint32_t skip;
    uint32_t packet_maximum;
    uint32_t send_window;
    uint32_t inbox_window;
    // Deliveries since the last acknowledgement.
    uint32_t unacknowledged;
    // Results seen, as the broker was told on this connection.
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
