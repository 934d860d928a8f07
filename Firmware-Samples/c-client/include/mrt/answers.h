// Reads what the broker answers to requests, and what it tells of groups (docs/PROTOCOL.md sections
// 5 and 6). All bytes that are given stand in the answer, for the time of the callback.
//
// Every function that takes something off the front of a list says false at its end, and where it
// cannot be read: `bytes` of what is left is NULL then.

#ifndef MRT_ANSWERS_H
#define MRT_ANSWERS_H

#include "mrt/message.h"

// The next receiver that was refused, of mrt_result.refusals: its place in the list, from 0.
// `index` is UINT32_MAX before the first.
bool mrt_next_refusal(mrt_bytes *refusals, uint32_t *index, mrt_reason *reason);

// Of mrt_ask_presence.
typedef struct mrt_presence {
    bool is_online;
    // Unix milliseconds; 0 where it is not known.
    uint64_t since_ms;
    // For mrt_next_string.
    mrt_bytes devices;
} mrt_presence;

bool mrt_read_presence(mrt_bytes content, mrt_presence *presence);

// The next string of a list: a device, a member, a user.
bool mrt_next_string(mrt_bytes *list, mrt_bytes *value);

// Of mrt_list_groups: a page, and then its groups.
typedef struct mrt_listed_group {
    mrt_bytes group;
    mrt_bytes title;
    // The asking user owns it.
    bool is_own;
} mrt_listed_group;

// `more`: another page follows behind the last group of this one.
bool mrt_read_groups(mrt_bytes content, bool *more, mrt_bytes *groups);
bool mrt_next_group(mrt_bytes *groups, mrt_listed_group *group);

// Of mrt_describe_group.
typedef struct mrt_group_description {
    bool has_allow_list;
    bool is_own;
    // Another page of members follows behind the last of this one.
    bool has_more;
    mrt_bytes owner;
    mrt_bytes title;
    // In all.
    uint64_t member_count;
    mrt_bytes meta;
    // For mrt_next_string.
    mrt_bytes members;
} mrt_group_description;

bool mrt_read_description(mrt_bytes content, mrt_group_description *description);

// What happened in a group: the delivery's `type`, and its body.
enum {
    MRT_GROUP_JOINED = 1,
    MRT_GROUP_LEFT = 2,
    MRT_GROUP_KICKED = 3,
    MRT_GROUP_ALLOW_LIST = 4,
    MRT_GROUP_META = 5
};

typedef struct mrt_group_event {
    // Who joined, left or was kicked; or the new meta.
    mrt_bytes content;
    // Of a new allow list: everybody may join, or only these, for mrt_next_string.
    bool is_open;
    mrt_bytes users;
} mrt_group_event;

// False also for an event that this client does not know: to be passed over, and acknowledged.
bool mrt_read_group_event(const mrt_delivery *delivery, mrt_group_event *event);

#endif
