// The store-and-forward log: numbered packets that have no result yet, in memory that survives a
// loss of power where it can. It knows no connection, and of a packet only its number and its
// length.

#ifndef MRT_LOG_H
#define MRT_LOG_H

#include "mrt/state.h"
#include "wire.h"

// Numbers that may be open beyond the last one seen: one bit each in mrt_log.answered.
#define MRT_LOG_WINDOW 32u

// Looks for what was stored before; begins a new epoch where nothing is found.
mrt_status mrt_log_open(mrt_log *log, const mrt_storage *storage, uint64_t new_epoch);

// Stores a message under the next number, log->highest + 1.
mrt_status mrt_log_append(mrt_log *log, const mrt_message *message);

// The number is settled: it has a result, or is given up. False where it was not open.
bool mrt_log_settle(mrt_log *log, uint64_t number);

// Makes `seen` durable, so that the broker may be told: what it was told once must not be taken
// back by a loss of power.
mrt_status mrt_log_mark(mrt_log *log);

// A new connection: everything that is not settled goes out again.
void mrt_log_rewind(mrt_log *log);

typedef enum mrt_log_next_kind {
    MRT_LOG_NOTHING,
    // mrt_log_copy gives its bytes: `log->rest`.
    MRT_LOG_PACKET,
    // It does not stand there as it was written.
    MRT_LOG_DAMAGED
} mrt_log_next_kind;

// Begins the next packet, number `log->given`, if that is at most `last`. Those that cannot be sent
// have to be settled by the caller.
mrt_log_next_kind mrt_log_next(mrt_log *log, uint32_t last);

// The next bytes of the packet that was begun and has a rest, at most `count`; 0 where the storage
// does not give them.
uint32_t mrt_log_copy(mrt_log *log, uint8_t *bytes, uint32_t count);

#endif
