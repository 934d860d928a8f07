// History of a conversation (docs/PROTOCOL.md section 6, "History"), a page at a time. A program
// that does not call it does not have it.

#ifndef MRT_HISTORY_H
#define MRT_HISTORY_H

#include "mrt/client.h"

// Asks for kept messages of the conversation with a user (MRT_TO_USER) or of a group
// (MRT_TO_GROUP), the highest number first: those below `before`, 0 for the newest, at most
// `count`, 1 to 100. A page is as long as mrt_config.packet_maximum allows; without one it has up
// to 16,384 bytes.
//
// Errors: MRT_ERROR_INVALID, and those of requests (mrt/requests.h).
mrt_status mrt_ask_history(mrt_client *client, mrt_target party, mrt_bytes name, uint64_t before,
    uint32_t count, uint64_t *id);

// The answer: `next` is `before` of the next page, 0 at the end. A page may be empty and have a
// next one.
bool mrt_read_history(mrt_bytes content, uint64_t *next, mrt_bytes *messages);

typedef struct mrt_kept_message {
    // Its number in the conversation.
    uint64_t number;
    uint64_t time_ms;
    mrt_bytes from;
    uint8_t type;
    mrt_bytes body;
} mrt_kept_message;

// The next message of a page. False at its end, and for a malformed page: `bytes` is NULL then.
bool mrt_next_kept(mrt_bytes *messages, mrt_kept_message *message);

#endif
