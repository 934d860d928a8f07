// The requests of a client (docs/PROTOCOL.md section 6). Each call needs a connection and returns
// the id of its MRT_EVENT_ANSWER; `id` may be null. A request whose connection ends before the
// answer gets none: repeat it.

#ifndef MRT_REQUESTS_H
#define MRT_REQUESTS_H

#include "mrt/answers.h"
#include "mrt/client.h"

// Subscribes to topics that match the filter, with at most this grade.
mrt_status mrt_subscribe(mrt_client *client, mrt_bytes filter, mrt_grade grade, uint64_t *id);
mrt_status mrt_unsubscribe(mrt_client *client, mrt_bytes filter, uint64_t *id);

// Sets the message that the broker sends when this user's connection is lost, after the delay. Its
// grade and number are ignored: wills are sent with grade once.
mrt_status mrt_set_will(
    mrt_client *client, const mrt_message *message, uint32_t delay_seconds, uint64_t *id);
mrt_status mrt_clear_will(mrt_client *client, uint64_t *id);

// Asks for the presence of a user: mrt_read_presence.
mrt_status mrt_ask_presence(mrt_client *client, mrt_bytes user, uint64_t *id);

// Groups (section 6, "Groups"). Lists of users have at most 1,000 entries; a null list with a count
// of 0 is an empty list, with which only the owner may join. With `is_open` everybody may join, and
// the list is ignored.
typedef struct mrt_allow_list {
    bool is_open;
    const mrt_bytes *users;
    uint32_t count;
} mrt_allow_list;

// The answer is the new group's id. `key` is random and must be kept until the answer: for a
// repetition with the same key, the broker answers with the existing group. The title has at most
// 128 bytes, meta 5,120.
mrt_status mrt_create_group(mrt_client *client, const uint8_t key[8], mrt_bytes title,
    mrt_bytes meta, const mrt_allow_list *allowed, uint64_t *id);
mrt_status mrt_join_group(mrt_client *client, mrt_bytes group, uint64_t *id);
mrt_status mrt_leave_group(mrt_client *client, mrt_bytes group, uint64_t *id);
// The answer's reason is MRT_KICKED_OUT.
mrt_status mrt_kick(mrt_client *client, mrt_bytes group, mrt_bytes user, uint64_t *id);
mrt_status mrt_ban(mrt_client *client, mrt_bytes group, mrt_bytes user, uint64_t *id);
// In pages, each beginning after `after`; empty requests the first. mrt_read_groups,
// mrt_read_description.
mrt_status mrt_list_groups(mrt_client *client, mrt_bytes after, uint64_t *id);
mrt_status mrt_describe_group(
    mrt_client *client, mrt_bytes group, mrt_bytes after, uint64_t *id);
mrt_status mrt_set_group_meta(mrt_client *client, mrt_bytes group, mrt_bytes meta, uint64_t *id);
mrt_status mrt_set_group_allow_list(
    mrt_client *client, mrt_bytes group, const mrt_allow_list *allowed, uint64_t *id);

// Authenticates again before the token expires. Later logins use the token of the configuration.
// The answer is MRT_EVENT_AUTHENTICATED.
mrt_status mrt_authenticate(mrt_client *client, mrt_bytes token);

#endif
