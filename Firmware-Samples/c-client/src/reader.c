// How packets from the broker are understood. Every length is compared with what is left of the
// packet before it is used, and every number with its range.

#include "wire.h"

// What is left of a body. After a fault the fields that are still read are worthless, and no reader
// goes beyond the end: it suffices to ask once, at the end.
typedef struct body_reader {
    mrt_bytes rest;
    bool has_failed;
} body_reader;

static void fail_if(body_reader *reader, bool is_wrong)
{
    if (is_wrong) {
        reader->has_failed = true;
    }
}

// MARK: Fields

static bool take(mrt_bytes *rest, uint32_t count, mrt_bytes *value)
{
    if (count > rest->count) {
        return false;
    }
    value->bytes = rest->bytes;
    value->count = count;
    rest->bytes += count;
    rest->count -= count;
    return true;
}

bool mrt_take_byte(mrt_bytes *rest, uint8_t *value)
{
    mrt_bytes byte;
    if (!take(rest, 1, &byte)) {
        return false;
    }
    *value = byte.bytes[0];
    return true;
}

bool mrt_take_number(mrt_bytes *rest, uint64_t *value)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 9 && i < rest->count; i++) {
        uint32_t byte = rest->bytes[i];
        sum |= (uint64_t)(byte & 0x7Fu) << (7 * i);
        if (byte < 0x80u) {
            mrt_bytes taken;
            *value = sum;
            // The shortest spelling only: a last byte of 0 stands alone.
            return (byte != 0 || i == 0) && take(rest, i + 1, &taken);
        }
    }
    return false;
}

bool mrt_take_string(mrt_bytes *rest, mrt_bytes *value)
{
    mrt_bytes after = *rest;
    uint8_t count = 0;
    if (!mrt_take_byte(&after, &count) || !take(&after, count, value)) {
        return false;
    }
    *rest = after;
    return true;
}

static uint32_t read_byte(body_reader *reader)
{
    uint8_t value = 0;
    fail_if(reader, !mrt_take_byte(&reader->rest, &value));
    return value;
}

static uint64_t read_number(body_reader *reader)
{
    uint64_t value = 0;
    fail_if(reader, !mrt_take_number(&reader->rest, &value));
    return value;
}

static uint32_t read_short_number(body_reader *reader)
{
    uint64_t value = read_number(reader);
    fail_if(reader, (value >> 32) != 0);
    return (uint32_t)value;
}

static uint64_t read_fixed8(body_reader *reader)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < 8; i++) {
        value = (value << 8) | read_byte(reader);
    }
    return value;
}

// A string whose length was read; it is not empty.
static void read_string(body_reader *reader, mrt_bytes *value, uint32_t count, uint32_t maximum)
{
    fail_if(reader, count - 1 >= maximum || !take(&reader->rest, count, value));
}

// Users, groups and message ids.
static void read_id(body_reader *reader, mrt_bytes *value)
{
    read_string(reader, value, read_byte(reader), MRT_ID_MAXIMUM);
}

static void read_rest(body_reader *reader, mrt_bytes *value)
{
    take(&reader->rest, reader->rest.count, value);
}

// A failure that is not known is a failure all the same; an unknown success is malformed.
static mrt_reason read_reason(body_reader *reader)
{
    // The successes of MQTT and of MRT: 0 to 6, 0x10, 0x11, 0x18, 0x19.
    const uint32_t successes = 0x0303007Fu;
    uint32_t code = read_byte(reader);
    if (code > 0xA2u) {
        return MRT_UNSPECIFIED_ERROR;
    }
    fail_if(reader, code < 0x80u && (code >= 32 || ((successes >> code) & 1u) == 0));
    return (mrt_reason)code;
}

mrt_reason mrt_read_frame(const uint8_t *bytes, uint32_t count, mrt_frame *frame, uint32_t *needed)
{
    uint32_t length = 0;
    for (uint32_t i = 1; i <= 4; i++) {
        *needed = i + 1;
        if (count <= i) {
            return MRT_UNSPECIFIED_ERROR;
        }
        uint32_t byte = bytes[i];
        length |= (byte & 0x7Fu) << (7 * (i - 1));
        if (byte < 0x80u) {
            frame->header = bytes[0];
            frame->head_count = (uint8_t)(i + 1);
            frame->body_count = length;
            *needed += length;
            if (byte == 0 && i > 1) {
                break;
            }
            return count < *needed ? MRT_UNSPECIFIED_ERROR : MRT_SUCCESS;
        }
    }
    return MRT_MALFORMED_PACKET;
}

// MARK: Packets

// MRT_PROTOCOL_ERROR at an extension that insists on being understood.
static mrt_reason read_extensions(body_reader *reader)
{
    uint64_t lowest = 0;
    do {
        mrt_bytes value;
        uint64_t id = read_number(reader);
        if (id < lowest || !take(&reader->rest, read_short_number(reader), &value)) {
            reader->has_failed = true;
        } else if ((id & 1u) != 0) {
            return MRT_PROTOCOL_ERROR;
        }
        lowest = id + 1;
    } while (reader->rest.count > 0 && !reader->has_failed);
    return MRT_SUCCESS;
}

static mrt_reason read_granted(body_reader *reader, mrt_granted *granted)
{
    uint32_t numbers[7];
    uint32_t flags = read_byte(reader);
    granted->is_session_present = (flags & 0x01u) != 0;
    granted->has_will = (flags & 0x02u) != 0;
    granted->session_epoch = read_fixed8(reader);
    granted->cookie = read_fixed8(reader);
    granted->server_time_ms = read_number(reader);
    for (uint32_t i = 0; i < 7; i++) {
        numbers[i] = read_short_number(reader);
    }
    granted->keep_alive_seconds = numbers[0];
    granted->session_expiry_seconds = numbers[1];
    granted->send_window = numbers[2];
    granted->inbox_window = numbers[3];
    granted->packet_maximum = numbers[4];
    granted->message_maximum = numbers[5];
    granted->payload_maximum = numbers[6];
    read_id(reader, &granted->user);
    fail_if(reader,
        (flags & 0x7Cu) != 0 || granted->session_epoch == 0 || numbers[0] > UINT16_MAX
            || numbers[2] - 1 >= UINT16_MAX || numbers[3] - 1 >= UINT16_MAX
            || numbers[4] < MRT_PACKET_MINIMUM);
    return (flags & 0x80u) != 0 ? read_extensions(reader) : MRT_SUCCESS;
}

static mrt_reason read_connack(body_reader *reader, mrt_event *event)
{
    if (event->reason == MRT_CONNECTED) {
        event->kind = MRT_EVENT_CONNECTED;
        return read_granted(reader, &event->as.granted);
    }
    event->kind = MRT_EVENT_DISCONNECTED;
    fail_if(reader, event->reason < MRT_UNSPECIFIED_ERROR);
    event->as.ended.retry_ms = read_short_number(reader);
    read_rest(reader, &event->as.ended.text);
    return MRT_SUCCESS;
}

bool mrt_next_refusal(mrt_bytes *refusals, uint32_t *index, mrt_reason *reason)
{
    body_reader reader = {*refusals, false};
    *index = read_short_number(&reader);
    *reason = read_reason(&reader);
    *refusals = reader.rest;
    return !reader.has_failed && *reason >= MRT_UNSPECIFIED_ERROR && *index < MRT_LIST_MAXIMUM;
}

// The named refusals fill the rest of the packet: indices rise, and there are at most `left`.
static void check_refusals(body_reader *reader, uint64_t left)
{
    uint32_t lowest = 0;
    uint32_t index = 0;
    mrt_reason reason;
    while (reader->rest.count > 0 && !reader->has_failed) {
        reader->has_failed =
            left == 0 || !mrt_next_refusal(&reader->rest, &index, &reason) || index < lowest;
        lowest = index + 1;
        left--;
    }
}

static void read_result(body_reader *reader, uint32_t flags, bool is_cut, mrt_event *event)
{
    mrt_result *result = &event->as.result;
    event->kind = MRT_EVENT_RESULT;
    event->number = read_number(reader);
    event->reason = MRT_SENT;
    if ((flags & 0x1u) != 0) {
        event->reason = read_reason(reader);
        fail_if(reader, event->reason == MRT_SENT);
    }
    if ((flags & 0x2u) != 0) {
        read_id(reader, &result->message_id);
    }
    if ((flags & 0x4u) != 0) {
        result->refused_count = read_number(reader);
        result->refusals = reader->rest;
        fail_if(reader, result->refused_count == 0);
        if (!is_cut) {
            check_refusals(reader, result->refused_count);
        }
    }
}

// Kinds as sets of bits.
enum {
    KINDS = 1 << MRT_FROM_TOPIC | 1 << MRT_FROM_USER | 1 << MRT_FROM_GROUP | 1 << MRT_FROM_BROADCAST
        | 1 << MRT_FROM_KICK | 1 << MRT_FROM_GROUP_EVENT | 1 << MRT_FROM_PRESENCE,
    KINDS_WITH_GROUP = 1 << MRT_FROM_GROUP | 1 << MRT_FROM_KICK | 1 << MRT_FROM_GROUP_EVENT
};

static void read_delivery(body_reader *reader, uint32_t flags, bool is_cut, mrt_event *event)
{
    mrt_delivery *delivery = &event->as.delivery;
    uint32_t grade = flags & 0x3u;
    event->kind = MRT_EVENT_MESSAGE;
    delivery->grade = (mrt_grade)grade;
    delivery->is_possible_duplicate = (flags & 0x4u) != 0;
    delivery->is_raw = (flags & 0x8u) != 0;
    if (grade != MRT_TRANSIENT) {
        event->number = read_number(reader);
        fail_if(reader, event->number == 0 || grade > MRT_ONCE);
    }
    uint32_t kind = read_byte(reader);
    uint32_t kind_bit = kind < 32 ? (uint32_t)1 << kind : 0;
    event->reason = (mrt_reason)kind;
    delivery->kind = (mrt_kind)kind;
    read_id(reader, &delivery->from);
    delivery->time_ms = read_number(reader);
    fail_if(reader, (kind_bit & KINDS) == 0 || (delivery->is_raw && kind != MRT_FROM_TOPIC));
    bool is_sound = !reader->has_failed;
    if (kind == MRT_FROM_TOPIC) {
        read_string(reader, &delivery->address, read_short_number(reader), UINT16_MAX);
    } else if ((kind_bit & KINDS_WITH_GROUP) != 0) {
        read_id(reader, &delivery->address);
    }
    if (!delivery->is_raw && kind != MRT_FROM_KICK) {
        delivery->type = (uint8_t)read_byte(reader);
    }
    if (is_cut && is_sound) {
        // The end of a long topic may be missing, and then there is no body either.
        reader->rest.count = reader->has_failed ? 0 : reader->rest.count;
        reader->has_failed = false;
    }
    read_rest(reader, &delivery->body);
}

// What the flags of each type may be; reserved types, and those that a broker does not send to a
// client that is no gateway.
enum { RESERVED = 0x10, OUT_OF_PLACE = 0x20 };
static const uint8_t allowed_flags[16] = {RESERVED, OUT_OF_PLACE, 0, OUT_OF_PLACE, 0x7, 0xF,
    OUT_OF_PLACE, OUT_OF_PLACE, 0, RESERVED, OUT_OF_PLACE, RESERVED, OUT_OF_PLACE, 0, 0, 0};

mrt_reason mrt_decode(
    uint8_t header, const uint8_t *body, uint32_t count, bool is_cut, mrt_event *event)
{
    body_reader reader = {{body, count}, false};
    uint32_t type = header >> 4;
    uint32_t flags = header & 0x0Fu;
    uint32_t allowed = allowed_flags[type];
    mrt_reason verdict = MRT_SUCCESS;
    memset(event, 0, sizeof *event);
    if (allowed == OUT_OF_PLACE) {
        return MRT_PROTOCOL_ERROR;
    }
    if (allowed == RESERVED || (flags & ~allowed) != 0) {
        return MRT_MALFORMED_PACKET;
    }
    if (type == MRT_TYPE_RESULT) {
        read_result(&reader, flags, is_cut, event);
    } else if (type == MRT_TYPE_DELIVER) {
        read_delivery(&reader, flags, is_cut, event);
    } else if (type != MRT_TYPE_PINGRESP) {
        if (type == MRT_TYPE_RESPONSE) {
            event->number = read_number(&reader);
            fail_if(&reader, event->number == 0);
        }
        event->reason = read_reason(&reader);
        if (type == MRT_TYPE_CONNACK) {
            verdict = read_connack(&reader, event);
        } else if (type == MRT_TYPE_RESPONSE) {
            event->kind = MRT_EVENT_ANSWER;
            read_rest(&reader, &event->as.content);
        } else if (type == MRT_TYPE_DISCONNECT) {
            event->kind = MRT_EVENT_DISCONNECTED;
            read_rest(&reader, &event->as.ended.text);
        } else {
            event->kind = MRT_EVENT_AUTHENTICATED;
        }
    }
    if (verdict == MRT_SUCCESS && (reader.has_failed || (reader.rest.count > 0 && !is_cut))) {
        verdict = MRT_MALFORMED_PACKET;
    }
    return verdict;
}
