// What a client can ask of the broker (docs/PROTOCOL.md section 6). Each call needs a connection and
// gives the id under which MRT_EVENT_ANSWER comes; `id` may be null. A request whose connection ends
// first gets no answer: ask again.

#ifndef MRT_REQUESTS_H
#define MRT_REQUESTS_H

#include "mrt/client.h"

// Topics that match the filter arrive, with at most this grade.
mrt_status mrt_subscribe(mrt_client *client, mrt_bytes filter, mrt_grade grade, uint64_t *id);
mrt_status mrt_unsubscribe(mrt_client *client, mrt_bytes filter, uint64_t *id);

// The message that the broker sends when this user's connection is lost, after the delay. Its grade
// and number are not looked at: wills are sent once.
mrt_status mrt_set_will(
    mrt_client *client, const mrt_message *message, uint32_t delay_seconds, uint64_t *id);
mrt_status mrt_clear_will(mrt_client *client, uint64_t *id);

// Whether a user is there. The answer: a byte (1 online), a number (since, Unix ms), a number of
// devices, that many strings.
mrt_status mrt_ask_presence(mrt_client *client, mrt_bytes user, uint64_t *id);

#endif
