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
    const mrt_storage *storage;
    // The sender's numbering: docs/PROTOCOL.md section 8, "The outbox".
    uint64_t epoch;
    // Every number up to this one is settled...
    uint64_t seen;
    // ...and up to this one also after a loss of power.
    uint64_t marked;
    // The highest number that was given, and that was transmitted.
    uint64_t highest;
    uint64_t transmitted;
    // Bit i: the result of number seen + 1 + i has come.
    uint32_t answered;
    // The oldest record that is needed, and the bytes from there: in use, and transmitted.
    uint32_t tail;
    uint32_t used;
    uint32_t cursor;
    // Of the packet that is being copied out: where it goes on (from the tail), and how much.
    uint32_t rest_offset;
    uint32_t rest;
    // Counts the sectors that were begun; it wraps.
    uint16_t lap;
} mrt_log;

typedef struct mrt_client {
    const struct mrt_config *config;
    mrt_log log;
    mrt_record inbox;
    // The highest number that the program was given, and that arrived on this connection.
    uint64_t delivered;
    uint64_t arrived;
    // Results seen, as the broker was told on this connection.
    uint64_t announced;
    uint64_t cookie;
    uint32_t now;
    // Since when the phase lasts, and when it ends by itself.
    uint32_t phase_since;
    uint32_t phase_ms;
    uint32_t last_sent;
    uint32_t last_received;
    uint32_t ping_since;
    uint32_t random;
    uint32_t packet_maximum;
    // Bytes of a packet that does not fit, still to be passed over.
    uint32_t skip;
    uint32_t request_id;
    uint32_t leave_expiry;
    uint32_t send_window;
    uint32_t inbox_window;
    uint32_t keep_alive_ms;
    // Deliveries since the last acknowledgement.
    uint32_t unacknowledged;
    // Bytes in the receive buffer, and in the transmit buffer.
    uint32_t received;
    uint32_t waiting;
    uint8_t phase;
    uint8_t failures;
    uint8_t leave_reason;
    uint8_t stop_reason;
    bool has_cookie;
    bool has_logged_in;
    bool is_automatic;
    bool is_ack_due;
    bool is_ping_open;
    bool is_leave_due;
    bool is_held;
} mrt_client;

#endif
