// How fields, receipts, recalls and updates are spelled. Each function is small, and is left out of
// a firmware that does not call it.

#include "mrt/receipts.h"

#include "wire.h"

enum {
    FIELD_ASKS = 1,

    EXTENSION_ACCEPTS = 4,
    ACCEPTS_FIELDS = 1,
    ACCEPTS_REVISIONS = 2,

    APPLIED = 32,
    REFERENCE_BYTES = 8
};

const uint8_t mrt_accepts[3] = {
    EXTENSION_ACCEPTS, 1, ACCEPTS_FIELDS | ACCEPTS_REVISIONS};

mrt_bytes mrt_asks(uint32_t asks)
{
    static const uint8_t fields[][3] = {{FIELD_ASKS, 1, 0}, {FIELD_ASKS, 1, 1}, {FIELD_ASKS, 1, 2},
        {FIELD_ASKS, 1, 3}, {FIELD_ASKS, 1, 4}, {FIELD_ASKS, 1, 5}, {FIELD_ASKS, 1, 6},
        {FIELD_ASKS, 1, 7}};
    mrt_bytes bytes = {fields[asks & 7u], sizeof fields[0]};
    return bytes;
}

// MARK: Values

static void take_string(mrt_bytes *rest, mrt_bytes *value)
{
    mrt_take(rest, mrt_read_byte(rest), value);
}

uint64_t mrt_field_number(mrt_bytes value)
{
    uint64_t number = 0;
    while (value.count > 0) {
        number = number << 8 | mrt_read_byte(&value);
    }
    return number;
}

// A number of so many bytes; 0 where they are not there.
static uint64_t take_number(mrt_bytes *rest, uint32_t count)
{
    mrt_bytes value = {NULL, 0};
    mrt_take(rest, count, &value);
    return mrt_field_number(value);
}

// Bytes behind a length. A longer one than there is, even beyond 32 bits, takes all.
void mrt_take_value(mrt_bytes *rest, mrt_bytes *value)
{
    uint64_t count = mrt_read_number(rest);
    mrt_take(rest, count < UINT32_MAX ? (uint32_t)count : UINT32_MAX, value);
}

// MARK: Fields

bool mrt_take_fields(mrt_delivery *delivery, mrt_fields *fields)
{
    mrt_bytes rest = delivery->body;
    mrt_bytes block = {NULL, 0};
    uint64_t last = 0;
    memset(fields, 0, sizeof *fields);
    if (!delivery->has_fields) {
        return true;
    }
    mrt_take_value(&rest, &block);
    if (!delivery->is_raw) {
        delivery->type = (uint8_t)mrt_read_byte(&rest);
    }
    delivery->body = rest;
    delivery->has_fields = false;
    // At least one; ids rise, so that none comes twice.
    do {
        mrt_bytes value;
        uint64_t id = mrt_read_number(&block);
        mrt_take_value(&block, &value);
        if (block.bytes == NULL || id <= last) {
            return false;
        }
        last = id;
        if (id < MRT_FIELD_COUNT) {
            fields->values[id] = value;
        }
    } while (block.count > 0);
    return rest.bytes != NULL;
}

mrt_status mrt_tell_applied(
    mrt_client *client, uint64_t reference, uint8_t code, mrt_bytes text, uint64_t *id)
{
    uint8_t head[REFERENCE_BYTES + 1];
    const mrt_bytes head_bytes = {head, sizeof head};
    const mrt_field fields[] = {
        {.form = MRT_FIELD_REST, .as.bytes = &head_bytes},
        {.form = MRT_FIELD_REST, .as.bytes = &text},
    };
    for (uint32_t i = REFERENCE_BYTES; i > 0; reference >>= 8) {
        head[--i] = (uint8_t)reference;
    }
    head[REFERENCE_BYTES] = code;
    return mrt_request_fields(client, APPLIED, fields, 2, id);
}

// MARK: Events

// What receipts and recalls begin with: which message they are about.
static void take_subject(mrt_bytes *rest, uint64_t *reference, mrt_bytes *message_id)
{
    *reference = take_number(rest, REFERENCE_BYTES);
    take_string(rest, message_id);
}

static bool is_whole(const mrt_bytes *rest)
{
    return rest->bytes != NULL && rest->count == 0;
}

bool mrt_read_receipt(const mrt_delivery *delivery, mrt_receipt *receipt)
{
    mrt_bytes rest = delivery->body;
    uint32_t kind = delivery->type;
    memset(receipt, 0, sizeof *receipt);
    receipt->kind = (mrt_receipt_kind)kind;
    take_subject(&rest, &receipt->reference, &receipt->message_id);
    take_string(&rest, &receipt->address);
    if (kind == MRT_RECEIPT_APPLIED) {
        receipt->code = (uint8_t)mrt_read_byte(&rest);
        mrt_take(&rest, rest.count, &receipt->text);
    } else if (kind == MRT_RECEIPT_COUNTS) {
        for (uint32_t i = 0; i < MRT_COUNTS; i++) {
            receipt->counts[i] = (uint32_t)take_number(&rest, 4);
        }
    }
    return delivery->kind == MRT_FROM_RECEIPT && kind - 1 < MRT_RECEIPT_COUNTS && is_whole(&rest);
}

bool mrt_read_recall(const mrt_delivery *delivery, mrt_recall *recall)
{
    mrt_bytes rest = delivery->body;
    memset(recall, 0, sizeof *recall);
    take_string(&rest, &recall->group);
    take_subject(&rest, &recall->reference, &recall->message_id);
    recall->code = (uint8_t)mrt_read_byte(&rest);
    take_string(&rest, &recall->detail);
    if (delivery->kind == MRT_FROM_UPDATE) {
        recall->type = (uint8_t)mrt_read_byte(&rest);
        mrt_take(&rest, rest.count, &recall->body);
    }
    return delivery->kind - (uint32_t)MRT_FROM_RECALL <= MRT_FROM_UPDATE - MRT_FROM_RECALL
        && is_whole(&rest);
}
