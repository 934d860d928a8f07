// Decodes the broker's answers to requests, and group events (docs/PROTOCOL.md sections 5 and 6).
// All returned bytes are in the answer and valid during the callback.
//
// Every function that removes an element from the front of a list returns false at its end, and for
// a malformed list: `bytes` of the rest is NULL then.

#ifndef MRT_ANSWERS_H
#define MRT_ANSWERS_H

#include "mrt/message.h"

// The next refused receiver of mrt_result.refusals: its position in the list, from 0. `index` is
// UINT32_MAX before the first.
bool mrt_next_refusal(mrt_bytes *refusals, uint32_t *index, mrt_reason *reason);

// The answer to mrt_ask_presence.
typedef struct mrt_presence {
    bool is_online;
    // Unix milliseconds; 0 if it is unknown.
    uint64_t since_ms;
    // For mrt_next_string.
    mrt_bytes devices;
} mrt_presence;

bool mrt_read_presence(mrt_bytes content, mrt_presence *presence);

// The next string of a list: a device, a member, a user.
bool mrt_next_string(mrt_bytes *list, mrt_bytes *value);

// The answer to mrt_list_groups: a page, and its groups.
typedef struct mrt_listed_group {
    mrt_bytes group;
    mrt_bytes title;
    // Whether the user of this client owns it.
    bool is_own;
} mrt_listed_group;

// `more`: another page follows after the last group of this one.
bool mrt_read_groups(mrt_bytes content, bool *more, mrt_bytes *groups);
bool mrt_next_group(mrt_bytes *groups, mrt_listed_group *group);

// The answer to mrt_describe_group.
typedef struct mrt_group_description {
    bool has_allow_list;
    bool is_own;
    // Another page of members follows after the last of this one.
    bool has_more;
    mrt_bytes owner;
    mrt_bytes title;
    // The number of all members.
    uint64_t member_count;
    mrt_bytes meta;
    // For mrt_next_string.
    mrt_bytes members;
} mrt_group_description;

bool mrt_read_description(mrt_bytes content, mrt_group_description *description);

// A group event: the delivery's `type`, and its body.
enum {
    MRT_GROUP_JOINED = 1,
    MRT_GROUP_LEFT = 2,
    MRT_GROUP_KICKED = 3,
    MRT_GROUP_ALLOW_LIST = 4,
    MRT_GROUP_META = 5
};

typedef struct mrt_group_event {
    // The user who joined, left or was kicked; or the new meta.
    mrt_bytes content;
    // Of a new allow list: whether everybody may join, or only these, for mrt_next_string.
    bool is_open;
    mrt_bytes users;
} mrt_group_event;

// False also for an event that this client does not know: ignore and acknowledge it.
bool mrt_read_group_event(const mrt_delivery *delivery, mrt_group_event *event);

#endif
