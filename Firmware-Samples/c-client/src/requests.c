// How the requests of section 6 are spelled. Each function is small, and is left out of a firmware
// that does not call it.

#include "mrt/requests.h"

#include "wire.h"

// Section 6.
enum {
    SUBSCRIBE = 1,
    UNSUBSCRIBE = 2,
    SET_WILL = 3,
    CLEAR_WILL = 4,
    PRESENCE = 5,
    CREATE_GROUP = 16,
    JOIN_GROUP = 17,
    LEAVE_GROUP = 18,
    KICK = 19,
    BAN = 20,
    LIST_GROUPS = 21,
    DESCRIBE_GROUP = 22,
    SET_META = 23,
    SET_ALLOW_LIST = 24
};

uint32_t mrt_body_request(mrt_writer *writer, const void *value)
{
    const mrt_request *request = value;
    mrt_write_varint(writer, request->id);
    mrt_write_byte(writer, request->operation);
    for (uint32_t i = 0; i < request->field_count; i++) {
        const mrt_field *field = &request->fields[i];
        switch (field->form) {
        case MRT_FIELD_NUMBER:
            mrt_write_varint(writer, field->number);
            break;
        case MRT_FIELD_REST:
            mrt_write_bytes(writer, field->as.bytes);
            break;
        case MRT_FIELD_STRINGS:
            for (uint32_t j = 0; j < field->number; j++) {
                mrt_write_byte(writer, field->as.bytes[j].count);
                mrt_write_bytes(writer, &field->as.bytes[j]);
            }
            break;
        case MRT_FIELD_MESSAGE:
            mrt_write_target(writer, field->as.message);
            break;
        }
    }
    return MRT_TYPE_REQUEST << 4;
}

mrt_status mrt_request_fields(mrt_client *client, uint8_t operation, const mrt_field *fields,
    uint8_t field_count, uint64_t *id)
{
    const mrt_request request = {
        client->request_id + 1, operation, field_count, fields};
    mrt_status status = mrt_put_direct(client, mrt_body_request, &request);
    if (status == MRT_IDLE) {
        client->request_id++;
        if (id != NULL) {
            *id = request.id;
        }
    }
    return status;
}

static mrt_field string(const mrt_bytes *bytes)
{
    mrt_field field = {.form = MRT_FIELD_STRINGS, .number = 1, .as.bytes = bytes};
    return field;
}

mrt_status mrt_subscribe(mrt_client *client, mrt_bytes filter, mrt_grade grade, uint64_t *id)
{
    const mrt_field fields[] = {
        {.form = MRT_FIELD_NUMBER, .number = grade},
        {.form = MRT_FIELD_REST, .as.bytes = &filter},
    };
    return filter.count == 0 ? MRT_ERROR_INVALID
                             : mrt_request_fields(client, SUBSCRIBE, fields, 2, id);
}

mrt_status mrt_unsubscribe(mrt_client *client, mrt_bytes filter, uint64_t *id)
{
    const mrt_field field = {.form = MRT_FIELD_REST, .as.bytes = &filter};
    return filter.count == 0 ? MRT_ERROR_INVALID
                             : mrt_request_fields(client, UNSUBSCRIBE, &field, 1, id);
}

mrt_status mrt_set_will(
    mrt_client *client, const mrt_message *message, uint32_t delay_seconds, uint64_t *id)
{
    const mrt_field fields[] = {
        {.form = MRT_FIELD_NUMBER, .number = delay_seconds},
        {.form = MRT_FIELD_NUMBER, .number = message->is_raw ? 1 : 0},
        {.form = MRT_FIELD_MESSAGE, .as.message = message},
    };
    return !mrt_is_message_valid(message) ? MRT_ERROR_INVALID
                                          : mrt_request_fields(client, SET_WILL, fields, 3, id);
}

mrt_status mrt_clear_will(mrt_client *client, uint64_t *id)
{
    return mrt_request_fields(client, CLEAR_WILL, NULL, 0, id);
}

mrt_status mrt_ask_presence(mrt_client *client, mrt_bytes user, uint64_t *id)
{
    const mrt_field field = string(&user);
    return user.count == 0 || user.count > MRT_ID_MAXIMUM
        ? MRT_ERROR_INVALID
        : mrt_request_fields(client, PRESENCE, &field, 1, id);
}

mrt_status mrt_authenticate(mrt_client *client, mrt_bytes token)
{
    const mrt_config proof = {.token = token};
    return token.count == 0
        ? MRT_ERROR_INVALID
        : mrt_put_direct(client, mrt_body_auth, &proof);
}

// MARK: Groups

// One or two strings, of which the first is an id.
static mrt_status ask_strings(mrt_client *client, uint8_t operation, const mrt_bytes *first,
    const mrt_bytes *second, uint64_t *id)
{
    const mrt_field fields[] = {
        string(first),
        string(second),
    };
    if (first->count > MRT_ID_MAXIMUM || (second != NULL && second->count > MRT_ID_MAXIMUM)) {
        return MRT_ERROR_INVALID;
    }
    return mrt_request_fields(client, operation, fields, second != NULL ? 2 : 1, id);
}

static mrt_field allow_flag(const mrt_allow_list *allowed)
{
    mrt_field field = {.form = MRT_FIELD_NUMBER, .number = allowed->is_open ? 0 : 1};
    return field;
}

static mrt_field allow_run(const mrt_allow_list *allowed)
{
    mrt_field field = {.form = MRT_FIELD_STRINGS,
        .number = allowed->is_open ? 0 : allowed->count,
        .as.bytes = allowed->users};
    return field;
}

mrt_status mrt_create_group(mrt_client *client, const uint8_t key[8], mrt_bytes title,
    mrt_bytes meta, const mrt_allow_list *allowed, uint64_t *id)
{
    const mrt_bytes key_bytes = {key, 8};
    const mrt_field fields[] = {
        {.form = MRT_FIELD_REST, .as.bytes = &key_bytes},
        string(&title),
        {.form = MRT_FIELD_NUMBER, .number = meta.count},
        {.form = MRT_FIELD_REST, .as.bytes = &meta},
        allow_flag(allowed),
        allow_run(allowed),
    };
    return title.count > UINT8_MAX ? MRT_ERROR_INVALID
                                   : mrt_request_fields(client, CREATE_GROUP, fields, 6, id);
}

mrt_status mrt_join_group(mrt_client *client, mrt_bytes group, uint64_t *id)
{
    return ask_strings(client, JOIN_GROUP, &group, NULL, id);
}

mrt_status mrt_leave_group(mrt_client *client, mrt_bytes group, uint64_t *id)
{
    return ask_strings(client, LEAVE_GROUP, &group, NULL, id);
}

mrt_status mrt_kick(mrt_client *client, mrt_bytes group, mrt_bytes user, uint64_t *id)
{
    return ask_strings(client, KICK, &group, &user, id);
}

mrt_status mrt_ban(mrt_client *client, mrt_bytes group, mrt_bytes user, uint64_t *id)
{
    return ask_strings(client, BAN, &group, &user, id);
}

mrt_status mrt_list_groups(mrt_client *client, mrt_bytes after, uint64_t *id)
{
    return ask_strings(client, LIST_GROUPS, &after, NULL, id);
}

mrt_status mrt_describe_group(mrt_client *client, mrt_bytes group, mrt_bytes after, uint64_t *id)
{
    return ask_strings(client, DESCRIBE_GROUP, &group, &after, id);
}

mrt_status mrt_set_group_meta(mrt_client *client, mrt_bytes group, mrt_bytes meta, uint64_t *id)
{
    const mrt_field fields[] = {
        string(&group),
        {.form = MRT_FIELD_REST, .as.bytes = &meta},
    };
    return group.count > MRT_ID_MAXIMUM ? MRT_ERROR_INVALID
                                        : mrt_request_fields(client, SET_META, fields, 2, id);
}

mrt_status mrt_set_group_allow_list(
    mrt_client *client, mrt_bytes group, const mrt_allow_list *allowed, uint64_t *id)
{
    const mrt_field fields[] = {
        string(&group),
        allow_flag(allowed),
        allow_run(allowed),
    };
    return group.count > MRT_ID_MAXIMUM
        ? MRT_ERROR_INVALID
        : mrt_request_fields(client, SET_ALLOW_LIST, fields, 3, id);
}
