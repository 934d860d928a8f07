// How packets from the broker are understood. Every length is compared with what is left of the
// packet before it is used, and every number with its range.

#include "wire.h"

#include <stddef.h>

// What is left of a body is taken from its front. After a fault nothing is left, not even the
// address: values that are still read are 0, and it suffices to ask once, at the end.

// MARK: Values

static void fail(mrt_bytes *rest)
{
    rest->bytes = NULL;
    rest->count = 0;
}

void mrt_take(mrt_bytes *rest, uint32_t count, mrt_bytes *value)
{
    if (count > rest->count) {
        fail(rest);
    }
    if (rest->bytes != NULL) {
        value->bytes = rest->bytes;
        value->count = count;
        rest->bytes += count;
        rest->count -= count;
    }
}

uint32_t mrt_read_byte(mrt_bytes *rest)
{
    if (rest->count == 0) {
        rest->bytes = NULL;
        return 0;
    }
    rest->count--;
    return *rest->bytes++;
}

uint64_t mrt_read_number(mrt_bytes *rest)
{
    uint64_t sum = 0;
    uint32_t byte = 0x80u;
    for (uint32_t shift = 0; byte >= 0x80u; shift += 7) {
        byte = mrt_read_byte(rest);
        sum |= (uint64_t)(byte & 0x7Fu) << shift;
        // Of 63 bits, in the shortest spelling: a last byte of 0 stands alone.
        if ((byte == 0 && shift > 0) || (byte >= 0x80u && shift == 56)) {
            fail(rest);
        }
    }
    return sum;
}

static uint32_t read_short_number(mrt_bytes *rest)
{
    uint64_t value = mrt_read_number(rest);
    if ((value >> 32) != 0) {
        fail(rest);
    }
    return (uint32_t)value;
}

// A string that is not empty: stringv, and string8 where the maximum is below 128, which is spelled
// the same.
static void read_string(mrt_bytes *rest, mrt_bytes *value, uint32_t maximum)
{
    uint32_t count = read_short_number(rest);
    if (count - 1 >= maximum) {
        fail(rest);
    }
    mrt_take(rest, count, value);
}

// A failure that is not known is a failure all the same; an unknown success is malformed.
mrt_reason mrt_read_reason(mrt_bytes *rest)
{
    // The successes of MQTT and of MRT: 0 to 6, 0x10, 0x11, 0x18, 0x19.
    const uint32_t successes = 0x0303007Fu;
    uint32_t code = mrt_read_byte(rest);
    if (code < 0x80u && (code >= 32 || ((successes >> code) & 1u) == 0)) {
        fail(rest);
    }
    return code > 0xA2u ? MRT_UNSPECIFIED_ERROR : (mrt_reason)code;
}

// MARK: Tables

// ID: users, groups and message ids.
enum { END, BYTE, REASON, NUMBER32, NUMBER64, FIXED8, ID, REST };

// One field of a packet, and where it goes.
typedef struct field_row {
    uint8_t form;
    // The field is there where one of these flags is set; 0: always.
    uint8_t flags;
    uint8_t place;
} field_row;

#define PLACE(member) offsetof(mrt_event, member)

static void read_fields(
    mrt_bytes *rest, const field_row *row, uint32_t flags, mrt_event *event)
{
    for (; row->form != END; row++) {
        void *at = (uint8_t *)event + row->place;
        uint64_t number = 0;
        if (row->flags != 0 && (row->flags & flags) == 0) {
            continue;
        }
        switch (row->form) {
        case BYTE:
            *(uint8_t *)at = (uint8_t)mrt_read_byte(rest);
            break;
        case REASON:
            *(mrt_reason *)at = mrt_read_reason(rest);
            break;
        case NUMBER32:
            *(uint32_t *)at = read_short_number(rest);
            break;
        case NUMBER64:
            *(uint64_t *)at = mrt_read_number(rest);
            break;
        case FIXED8:
            for (uint32_t i = 0; i < 8; i++) {
                number = (number << 8) | mrt_read_byte(rest);
            }
            *(uint64_t *)at = number;
            break;
        case ID:
            read_string(rest, at, MRT_ID_MAXIMUM);
            break;
        default:
            mrt_take(rest, rest->count, at);
            break;
        }
    }
}

mrt_reason mrt_read_frame(const uint8_t *bytes, uint32_t count, mrt_frame *frame)
{
    uint32_t length = 0;
    uint32_t byte = 0x80u;
    uint32_t head = 1;
    for (; byte >= 0x80u; head++) {
        frame->needed = head + 1;
        if (head > 4) {
            return MRT_MALFORMED_PACKET;
        }
        if (count <= head) {
            return MRT_UNSPECIFIED_ERROR;
        }
        byte = bytes[head];
        length |= (byte & 0x7Fu) << (7 * (head - 1));
    }
    if (byte == 0 && head > 2) {
        return MRT_MALFORMED_PACKET;
    }
    frame->head_count = head;
    frame->needed = head + length;
    return count < frame->needed ? MRT_UNSPECIFIED_ERROR : MRT_SUCCESS;
}

// MARK: Packets

// MRT_PROTOCOL_ERROR at an extension that insists on being understood.
static mrt_reason read_extensions(mrt_bytes *rest)
{
    do {
        mrt_bytes value;
        uint32_t id = read_short_number(rest);
        mrt_take(rest, read_short_number(rest), &value);
        if (rest->bytes != NULL && (id & 1u) != 0) {
            return MRT_PROTOCOL_ERROR;
        }
    } while (rest->count > 0);
    return MRT_SUCCESS;
}

static mrt_reason read_granted(mrt_bytes *rest, mrt_event *event)
{
    static const field_row fields[] = {
        {FIXED8, 0, PLACE(as.granted.session_epoch)},
        {FIXED8, 0, PLACE(as.granted.cookie)},
        {NUMBER64, 0, PLACE(as.granted.server_time_ms)},
        {NUMBER32, 0, PLACE(as.granted.keep_alive_seconds)},
        {NUMBER32, 0, PLACE(as.granted.session_expiry_seconds)},
        {NUMBER32, 0, PLACE(as.granted.send_window)},
        {NUMBER32, 0, PLACE(as.granted.inbox_window)},
        {NUMBER32, 0, PLACE(as.granted.packet_maximum)},
        {NUMBER32, 0, PLACE(as.granted.message_maximum)},
        {NUMBER32, 0, PLACE(as.granted.payload_maximum)},
        {ID, 0, PLACE(as.granted.user)},
        {END, 0, 0},
    };
    mrt_granted *granted = &event->as.granted;
    uint32_t flags = mrt_read_byte(rest);
    granted->is_session_present = (flags & 0x01u) != 0;
    granted->has_will = (flags & 0x02u) != 0;
    read_fields(rest, fields, 0, event);
    if ((flags & 0x7Cu) != 0 || granted->session_epoch == 0
        || ((granted->keep_alive_seconds | granted->send_window | granted->inbox_window) >> 16) != 0
        || granted->send_window == 0 || granted->inbox_window == 0
        || granted->packet_maximum < MRT_PACKET_MINIMUM) {
        fail(rest);
    }
    return (flags & 0x80u) != 0 ? read_extensions(rest) : MRT_SUCCESS;
}

// Kinds as sets of bits.
enum {
    KIND_TOPIC = 1 << MRT_FROM_TOPIC,
    KINDS = KIND_TOPIC | 1 << MRT_FROM_USER | 1 << MRT_FROM_GROUP | 1 << MRT_FROM_BROADCAST
        | 1 << MRT_FROM_KICK | 1 << MRT_FROM_GROUP_EVENT | 1 << MRT_FROM_PRESENCE
        | 1 << MRT_FROM_RECEIPT | 1 << MRT_FROM_RECALL | 1 << MRT_FROM_UPDATE
        | 1 << MRT_FROM_BROKER,
    KINDS_WITH_ADDRESS = KIND_TOPIC | 1 << MRT_FROM_GROUP | 1 << MRT_FROM_KICK
        | 1 << MRT_FROM_GROUP_EVENT,
    // A recall and an update begin with the group, which may be empty: receipts.c. An event of the
    // broker is JSON.
    KINDS_WITHOUT_TYPE = 1 << MRT_FROM_KICK | 1 << MRT_FROM_RECALL | 1 << MRT_FROM_UPDATE
        | 1 << MRT_FROM_BROKER
};

// What follows the regular beginning of a delivery.
static void read_delivery(mrt_bytes *rest, uint32_t flags, bool is_cut, mrt_event *event)
{
    mrt_delivery *delivery = &event->as.delivery;
    // It stood where the type comes.
    uint32_t kind = delivery->type & 0x7Fu;
    uint32_t kind_bit = (uint32_t)1 << (kind & 0x1Fu);
    delivery->has_fields = delivery->type > 0x7Fu;
    delivery->kind = (mrt_kind)kind;
    delivery->grade = (mrt_grade)(flags & 0x3u);
    delivery->is_possible_duplicate = (flags & 0x4u) != 0;
    delivery->is_raw = (flags & 0x8u) != 0;
    delivery->type = 0;
    // Only topics carry raw payloads.
    uint32_t kinds = delivery->is_raw ? KIND_TOPIC : KINDS;
    if (delivery->grade > MRT_ONCE || kind > 31 || (kind_bit & kinds) == 0) {
        fail(rest);
    }
    const uint8_t *sound = rest->bytes;
    if ((kind_bit & KINDS_WITH_ADDRESS) != 0) {
        read_string(rest, &delivery->address,
            (kind_bit & KIND_TOPIC) != 0 ? UINT16_MAX : MRT_ID_MAXIMUM);
    }
    if ((delivery->is_raw | delivery->has_fields | (kind_bit & KINDS_WITHOUT_TYPE)) == 0) {
        delivery->type = (uint8_t)mrt_read_byte(rest);
    }
    if (is_cut && rest->bytes == NULL) {
        // The end of a long topic may be missing, and then there is no body either.
        rest->bytes = sound;
    }
    if (kind == MRT_FROM_BROKER && rest->count == 0 && !is_cut) {
        fail(rest);
    }
    mrt_take(rest, rest->count, &delivery->body);
}

// What the regular beginning of a packet holds.
enum {
    NUMBER = 0x01,
    // As the flags of RESULT, shifted by one.
    REASONED = 0x02,
    NAMED = 0x04,
    REFUSED = 0x08,
    REFERENCED = 0x10,
    DELIVERED = 0x20,
    CONTENT = 0x40
};

static const field_row regular[] = {
    {NUMBER64, NUMBER, PLACE(number)},
    {REASON, REASONED, PLACE(reason)},
    {ID, NAMED, PLACE(as.result.message_id)},
    {FIXED8, REFERENCED, PLACE(as.result.reference)},
    {NUMBER64, REFUSED, PLACE(as.result.refused_count)},
    {REST, REFUSED, PLACE(as.result.refusals)},
    {BYTE, DELIVERED, PLACE(as.delivery.type)},
    {ID, DELIVERED, PLACE(as.delivery.from)},
    {NUMBER64, DELIVERED, PLACE(as.delivery.time_ms)},
    // The content of an answer stands in the same place.
    {REST, CONTENT, PLACE(as.ended.text)},
    {END, 0, 0},
};

// Reserved types, and those that a broker does not send to a client that is no gateway.
enum { RESERVED = 0x10, OUT_OF_PLACE = 0x20 };

// Of each type: the event it becomes, its fields, and what its flags may be.
static const struct {
    uint8_t kind;
    uint8_t fields;
    uint8_t flags;
} types[16] = {
    {0, 0, RESERVED},
    {0, 0, OUT_OF_PLACE},
    {MRT_EVENT_DISCONNECTED, REASONED, 0},
    {0, 0, OUT_OF_PLACE},
    {MRT_EVENT_RESULT, NUMBER, 0xF},
    {MRT_EVENT_MESSAGE, DELIVERED, 0xF},
    {0, 0, OUT_OF_PLACE},
    {0, 0, OUT_OF_PLACE},
    {MRT_EVENT_ANSWER, NUMBER | REASONED | CONTENT, 0},
    {0, 0, RESERVED},
    {0, 0, OUT_OF_PLACE},
    {0, 0, RESERVED},
    {0, 0, OUT_OF_PLACE},
    {MRT_EVENT_NOTHING, 0, 0},
    {MRT_EVENT_DISCONNECTED, REASONED | CONTENT, 0},
    {MRT_EVENT_AUTHENTICATED, REASONED, 0},
};

mrt_reason mrt_decode(
    uint8_t header, const uint8_t *body, uint32_t count, uint32_t missing, mrt_event *event)
{
    mrt_bytes rest = {body, count};
    uint32_t type = header >> 4;
    uint32_t flags = header & 0x0Fu;
    uint32_t allowed = types[type].flags;
    uint32_t fields = types[type].fields;
    mrt_reason verdict = MRT_SUCCESS;
    memset(event, 0, sizeof *event);
    if (allowed == OUT_OF_PLACE) {
        return MRT_PROTOCOL_ERROR;
    }
    if (allowed == RESERVED || (flags & ~allowed) != 0) {
        return MRT_MALFORMED_PACKET;
    }
    event->kind = (mrt_event_kind)types[type].kind;
    event->missing = missing;
    if (type == MRT_TYPE_RESULT) {
        fields |= flags << 1;
        // That it was sent is not said.
        event->reason = MRT_SENT;
    } else if (type == MRT_TYPE_DELIVER && (flags & 0x3u) != 0) {
        fields |= NUMBER;
    }
    read_fields(&rest, regular, fields, event);
    // Only a refused transient send has none.
    if ((fields & NUMBER) != 0 && type != MRT_TYPE_RESULT && event->number == 0) {
        fail(&rest);
    }
    // Not a switch: its table would be larger.
    if (type == MRT_TYPE_RESULT) {
        if (((flags & 0x1u) != 0 && event->reason == MRT_SENT)
            || ((flags & 0x4u) != 0 && event->as.result.refused_count == 0)) {
            fail(&rest);
        }
    } else if (type == MRT_TYPE_DELIVER) {
        read_delivery(&rest, flags, missing > 0, event);
    } else if (type == MRT_TYPE_CONNACK) {
        if (event->reason == MRT_CONNECTED) {
            event->kind = MRT_EVENT_CONNECTED;
            verdict = read_granted(&rest, event);
        } else {
            if (event->reason < MRT_UNSPECIFIED_ERROR) {
                fail(&rest);
            }
            event->as.ended.retry_ms = read_short_number(&rest);
            mrt_take(&rest, rest.count, &event->as.ended.text);
        }
    }
    if (verdict == MRT_SUCCESS && (rest.bytes == NULL || (rest.count > 0 && missing == 0))) {
        verdict = MRT_MALFORMED_PACKET;
    }
    return verdict;
}
