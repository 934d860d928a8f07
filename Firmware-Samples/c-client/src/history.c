// How a page of history is asked for and read.

#include "mrt/history.h"

#include "wire.h"

enum { HISTORY = 25, COUNT_MAXIMUM = 100 };

mrt_status mrt_ask_history(mrt_client *client, mrt_target party, mrt_bytes name, uint64_t before,
    uint32_t count, uint64_t *id)
{
    const mrt_field fields[] = {
        {.form = MRT_FIELD_NUMBER, .number = party},
        {.form = MRT_FIELD_STRINGS, .number = 1, .as.bytes = &name},
        {.form = MRT_FIELD_NUMBER, .number = (uint32_t)before},
        {.form = MRT_FIELD_NUMBER, .number = count},
    };
    if ((party != MRT_TO_USER && party != MRT_TO_GROUP) || name.count - 1 >= MRT_ID_MAXIMUM
        || count - 1 >= COUNT_MAXIMUM || before > UINT32_MAX) {
        return MRT_ERROR_INVALID;
    }
    return mrt_request_fields(client, HISTORY, fields, 4, id);
}

bool mrt_next_kept(mrt_bytes *messages, mrt_kept_message *message)
{
    mrt_bytes payload = {NULL, 0};
    if (messages->count == 0) {
        return false;
    }
    message->number = mrt_read_number(messages);
    mrt_take_value(messages, &message->from);
    message->time_ms = mrt_read_number(messages);
    mrt_take_value(messages, &payload);
    message->type = (uint8_t)mrt_read_byte(&payload);
    message->body = payload;
    if (message->number == 0 || payload.bytes == NULL) {
        messages->bytes = NULL;
        messages->count = 0;
    }
    return messages->bytes != NULL;
}

bool mrt_read_history(mrt_bytes content, uint64_t *next, mrt_bytes *messages)
{
    mrt_kept_message message;
    *next = mrt_read_number(&content);
    *messages = content;
    while (mrt_next_kept(&content, &message)) {
    }
    return content.bytes != NULL;
}
