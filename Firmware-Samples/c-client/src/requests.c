// How the requests of section 6 are spelled. Each function is small, and is left out of a firmware that
// does not call it.

#include "mrt/requests.h"

#include "wire.h"

// Section 6. Groups follow from 16 on.
enum { SUBSCRIBE = 1, UNSUBSCRIBE = 2, SET_WILL = 3, CLEAR_WILL = 4, PRESENCE = 5 };

mrt_status mrt_subscribe(mrt_client *client, mrt_bytes filter, mrt_grade grade, uint64_t *id)
{
    const mrt_field fields[] = {
        {.form = MRT_FIELD_BYTE, .number = grade},
        {.form = MRT_FIELD_REST, .bytes = filter},
    };
    return filter.count == 0 ? MRT_ERROR_INVALID
                             : mrt_request_fields(client, SUBSCRIBE, fields, 2, id);
}

mrt_status mrt_unsubscribe(mrt_client *client, mrt_bytes filter, uint64_t *id)
{
    const mrt_field field = {.form = MRT_FIELD_REST, .bytes = filter};
    return filter.count == 0 ? MRT_ERROR_INVALID
                             : mrt_request_fields(client, UNSUBSCRIBE, &field, 1, id);
}

mrt_status mrt_set_will(
    mrt_client *client, const mrt_message *message, uint32_t delay_seconds, uint64_t *id)
{
    const mrt_field fields[] = {
        {.form = MRT_FIELD_NUMBER, .number = delay_seconds},
        {.form = MRT_FIELD_MESSAGE, .pointer = message},
    };
    return !mrt_is_message_valid(message) ? MRT_ERROR_INVALID
                                          : mrt_request_fields(client, SET_WILL, fields, 2, id);
}

mrt_status mrt_clear_will(mrt_client *client, uint64_t *id)
{
    return mrt_request_fields(client, CLEAR_WILL, NULL, 0, id);
}

mrt_status mrt_ask_presence(mrt_client *client, mrt_bytes user, uint64_t *id)
{
    const mrt_field field = {.form = MRT_FIELD_STRING8, .bytes = user};
    return user.count == 0 || user.count > MRT_ID_MAXIMUM
        ? MRT_ERROR_INVALID
        : mrt_request_fields(client, PRESENCE, &field, 1, id);
}
