// How answers are read. Each function is small, and is left out of a firmware that does not call
// it.

#include "mrt/answers.h"

#include "wire.h"

// MARK: Lists

static void take_string(mrt_bytes *rest, mrt_bytes *value)
{
    mrt_take(rest, mrt_read_byte(rest), value);
}

static void fail_if(mrt_bytes *rest, bool is_wrong)
{
    if (is_wrong) {
        rest->bytes = NULL;
        rest->count = 0;
    }
}

static bool take_flag(mrt_bytes *rest)
{
    uint32_t flag = mrt_read_byte(rest);
    fail_if(rest, flag > 1);
    return flag != 0;
}

static void take_id(mrt_bytes *rest, mrt_bytes *value)
{
    value->count = 0;
    take_string(rest, value);
    fail_if(rest, value->count - 1 >= MRT_ID_MAXIMUM);
}

bool mrt_next_string(mrt_bytes *list, mrt_bytes *value)
{
    if (list->count == 0) {
        return false;
    }
    take_string(list, value);
    return list->bytes != NULL;
}

bool mrt_next_refusal(mrt_bytes *refusals, uint32_t *index, mrt_reason *reason)
{
    uint64_t next = mrt_read_number(refusals);
    *reason = mrt_read_reason(refusals);
    bool is_one = refusals->bytes != NULL && *reason >= MRT_UNSPECIFIED_ERROR
        && next < MRT_LIST_MAXIMUM && (uint32_t)next + 1 > *index + 1;
    *index = (uint32_t)next;
    return is_one;
}

// Whether a list of strings is whole, and how many there are.
static bool is_list(mrt_bytes list, uint64_t *count)
{
    mrt_bytes value = {NULL, 0};
    *count = 0;
    while (mrt_next_string(&list, &value)) {
        ++*count;
    }
    return list.bytes != NULL;
}

// MARK: Answers

bool mrt_read_presence(mrt_bytes content, mrt_presence *presence)
{
    uint64_t found = 0;
    presence->is_online = take_flag(&content);
    presence->since_ms = mrt_read_number(&content);
    uint64_t count = mrt_read_number(&content);
    presence->devices = content;
    return content.bytes != NULL && is_list(content, &found) && found == count;
}

bool mrt_next_group(mrt_bytes *groups, mrt_listed_group *group)
{
    if (groups->count == 0) {
        return false;
    }
    take_id(groups, &group->group);
    take_string(groups, &group->title);
    group->is_own = take_flag(groups);
    return groups->bytes != NULL;
}

bool mrt_read_groups(mrt_bytes content, bool *more, mrt_bytes *groups)
{
    mrt_listed_group group;
    *more = take_flag(&content);
    *groups = content;
    // Where more follow there is one to follow.
    bool is_whole = content.bytes != NULL && (!*more || content.count > 0);
    while (mrt_next_group(&content, &group)) {
    }
    return is_whole && content.bytes != NULL;
}

bool mrt_read_description(mrt_bytes content, mrt_group_description *description)
{
    uint64_t found = 0;
    uint32_t flags = mrt_read_byte(&content);
    description->has_allow_list = (flags & 0x1u) != 0;
    description->is_own = (flags & 0x2u) != 0;
    description->has_more = (flags & 0x4u) != 0;
    take_id(&content, &description->owner);
    take_string(&content, &description->title);
    description->member_count = mrt_read_number(&content);
    uint64_t meta_count = mrt_read_number(&content);
    fail_if(&content, meta_count > content.count);
    mrt_take(&content, (uint32_t)meta_count, &description->meta);
    description->members = content;
    return flags < 0x8u && content.bytes != NULL && is_list(content, &found)
        && (!description->has_more || found > 0);
}

bool mrt_read_group_event(const mrt_delivery *delivery, mrt_group_event *event)
{
    uint64_t found = 0;
    mrt_bytes rest = delivery->body;
    event->content = rest;
    event->is_open = false;
    event->users = rest;
    if (delivery->type == MRT_GROUP_META) {
        return true;
    }
    if (delivery->type == MRT_GROUP_ALLOW_LIST) {
        event->is_open = !take_flag(&rest);
        event->users = rest;
        return rest.bytes != NULL && is_list(rest, &found) && !(event->is_open && found > 0);
    }
    return delivery->type - 1u < MRT_GROUP_KICKED && rest.count - 1 < MRT_ID_MAXIMUM;
}
