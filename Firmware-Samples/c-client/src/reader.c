// How packets from the broker are understood. Every length is compared with what is left of the packet
// before it is used, and every number with its range.

#include "wire.h"

typedef struct body_reader {
    mrt_bytes rest;
    bool has_failed;
} body_reader;

bool mrt_take_byte(mrt_bytes *rest, uint8_t *value)
{
    if (rest->count == 0) {
        return false;
    }
    *value = rest->bytes[0];
    rest->bytes++;
    rest->count--;
    return true;
}

bool mrt_take_number(mrt_bytes *rest, uint64_t *value)
{
    uint64_t sum = 0;
    for (uint8_t i = 0; i < 9 && i < rest->count; i++) {
        uint8_t byte = rest->bytes[i];
        sum |= (uint64_t)(byte & 0x7Fu) << (7 * i);
        if (byte < 0x80u) {
            // The shortest spelling only: a last byte of 0 stands alone.
            if (byte == 0 && i > 0) {
                return false;
            }
            *value = sum;
            rest->bytes += i + 1;
            rest->count = (uint16_t)(rest->count - i - 1);
            return true;
        }
    }
    return false;
}

static bool take(mrt_bytes *rest, uint64_t count, mrt_bytes *value)
{
    if (count > rest->count) {
        return false;
    }
    value->bytes = rest->bytes;
    value->count = (uint16_t)count;
    rest->bytes += value->count;
    rest->count = (uint16_t)(rest->count - value->count);
    return true;
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

static uint8_t read_byte(body_reader *reader)
{
    uint8_t value = 0;
    reader->has_failed |= !mrt_take_byte(&reader->rest, &value);
    return value;
}

static uint64_t read_varint(body_reader *reader, uint64_t minimum, uint64_t maximum)
{
    uint64_t value = 0;
    if (!mrt_take_number(&reader->rest, &value) || value < minimum || value > maximum) {
        reader->has_failed = true;
        return minimum;
    }
    return value;
}

static uint64_t read_fixed8(body_reader *reader)
{
    uint64_t value = 0;
    for (uint8_t i = 0; i < 8; i++) {
        value = (value << 8) | read_byte(reader);
    }
    return value;
}

// A string of 1 to `maximum` bytes, with a length of one byte or a varint.
static mrt_bytes read_string(body_reader *reader, bool is_long, uint32_t maximum)
{
    mrt_bytes value = {0};
    uint64_t count = is_long ? read_varint(reader, 1, maximum) : read_byte(reader);
    if (reader->has_failed || count < 1 || count > maximum
        || !take(&reader->rest, count, &value)) {
        reader->has_failed = true;
    }
    return value;
}

static mrt_bytes read_rest(body_reader *reader)
{
    mrt_bytes value = reader->rest;
    reader->rest.count = 0;
    return value;
}

// A failure that is not known is a failure all the same; an unknown success is malformed.
static mrt_reason read_reason(body_reader *reader)
{
    uint8_t code = read_byte(reader);
    if (code > 0xA2u) {
        return MRT_UNSPECIFIED_ERROR;
    }
    if (code < 0x80u && code > MRT_KICKED_OUT && code != 0x10u && code != 0x11u && code != 0x18u
        && code != 0x19u) {
        reader->has_failed = true;
    }
    return (mrt_reason)code;
}

mrt_reason mrt_read_frame(const uint8_t *bytes, uint32_t count, mrt_frame *frame, uint32_t *needed)
{
    uint32_t length = 0;
    *needed = 2;
    for (uint8_t i = 1; i <= 4; i++) {
        if (count <= i) {
            *needed = (uint32_t)i + 1;
            return MRT_UNSPECIFIED_ERROR;
        }
        length |= (uint32_t)(bytes[i] & 0x7Fu) << (7 * (i - 1));
        if (bytes[i] < 0x80u) {
            if (bytes[i] == 0 && i > 1) {
                return MRT_MALFORMED_PACKET;
            }
            frame->header = bytes[0];
            frame->head_count = (uint8_t)(i + 1);
            frame->body_count = length;
            *needed = frame->head_count + length;
            return count < *needed ? MRT_UNSPECIFIED_ERROR : MRT_SUCCESS;
        }
    }
    return MRT_MALFORMED_PACKET;
}

// MARK: Packets

// MRT_PROTOCOL_ERROR at an extension that insists on being understood.
static mrt_reason read_extensions(body_reader *reader)
{
    int64_t previous = -1;
    do {
        uint64_t id = read_varint(reader, 0, MRT_VARINT_MAXIMUM);
        mrt_bytes value;
        if ((int64_t)id <= previous
            || !take(&reader->rest, read_varint(reader, 0, UINT16_MAX), &value)) {
            reader->has_failed = true;
        }
        if (!reader->has_failed && (id & 1u) != 0) {
            return MRT_PROTOCOL_ERROR;
        }
        previous = (int64_t)id;
    } while (reader->rest.count > 0 && !reader->has_failed);
    return MRT_SUCCESS;
}

static mrt_reason read_granted(body_reader *reader, mrt_granted *granted)
{
    uint8_t flags = read_byte(reader);
    reader->has_failed |= (flags & 0x7Cu) != 0;
    granted->is_session_present = (flags & 0x01u) != 0;
    granted->has_will = (flags & 0x02u) != 0;
    granted->session_epoch = read_fixed8(reader);
    reader->has_failed |= granted->session_epoch == 0;
    granted->cookie = read_fixed8(reader);
    granted->server_time_ms = read_varint(reader, 0, MRT_VARINT_MAXIMUM);
    granted->keep_alive_seconds = (uint16_t)read_varint(reader, 0, UINT16_MAX);
    granted->session_expiry_seconds = (uint32_t)read_varint(reader, 0, UINT32_MAX);
    granted->send_window = (uint16_t)read_varint(reader, 1, UINT16_MAX);
    granted->inbox_window = (uint16_t)read_varint(reader, 1, UINT16_MAX);
    granted->packet_maximum = (uint32_t)read_varint(reader, MRT_PACKET_MINIMUM, UINT32_MAX);
    granted->message_maximum = (uint32_t)read_varint(reader, 0, UINT32_MAX);
    granted->payload_maximum = (uint32_t)read_varint(reader, 0, UINT32_MAX);
    granted->user = read_string(reader, false, MRT_ID_MAXIMUM);
    return (flags & 0x80u) != 0 ? read_extensions(reader) : MRT_SUCCESS;
}

static mrt_reason read_connack(body_reader *reader, mrt_packet *packet)
{
    packet->reason = read_reason(reader);
    if (packet->reason == MRT_CONNECTED) {
        return read_granted(reader, &packet->as.granted);
    }
    reader->has_failed |= packet->reason < MRT_UNSPECIFIED_ERROR;
    packet->as.refused.retry_after_seconds = (uint32_t)read_varint(reader, 0, UINT32_MAX);
    packet->as.refused.text = read_rest(reader);
    return MRT_SUCCESS;
}

bool mrt_next_refusal(mrt_bytes *refusals, uint16_t *index, mrt_reason *reason)
{
    body_reader reader = {*refusals, false};
    uint64_t place = read_varint(&reader, 0, MRT_LIST_MAXIMUM - 1u);
    mrt_reason why = read_reason(&reader);
    if (reader.has_failed || why < MRT_UNSPECIFIED_ERROR) {
        return false;
    }
    *index = (uint16_t)place;
    *reason = why;
    *refusals = reader.rest;
    return true;
}

// The named refusals fill the rest of the packet: indices rise, and there are at most
// `refused_count`.
static void read_refusals(body_reader *reader, mrt_result *result)
{
    uint64_t left = result->refused_count;
    int32_t previous = -1;
    uint16_t index = 0;
    mrt_reason reason = MRT_SUCCESS;
    result->refusals = reader->rest;
    while (reader->rest.count > 0 && !reader->has_failed) {
        if (left == 0 || !mrt_next_refusal(&reader->rest, &index, &reason) || index <= previous) {
            reader->has_failed = true;
        }
        previous = index;
        left--;
    }
}

static void read_result(body_reader *reader, uint8_t flags, bool is_cut, mrt_packet *packet)
{
    mrt_result *result = &packet->as.result;
    packet->number = read_varint(reader, 0, MRT_VARINT_MAXIMUM);
    packet->reason = MRT_SENT;
    if ((flags & 0x1u) != 0) {
        packet->reason = read_reason(reader);
        reader->has_failed |= packet->reason == MRT_SENT;
    }
    if ((flags & 0x2u) != 0) {
        result->message_id = read_string(reader, false, MRT_ID_MAXIMUM);
    }
    if ((flags & 0x4u) != 0) {
        result->refused_count = read_varint(reader, 1, MRT_VARINT_MAXIMUM);
        if (is_cut) {
            result->refusals = read_rest(reader);
        } else {
            read_refusals(reader, result);
        }
    }
}

static void read_delivery(body_reader *reader, uint8_t flags, bool is_cut, mrt_packet *packet)
{
    mrt_delivery *delivery = &packet->as.delivery;
    delivery->grade = (mrt_grade)(flags & 0x3u);
    delivery->is_possible_duplicate = (flags & 0x4u) != 0;
    delivery->is_raw = (flags & 0x8u) != 0;
    reader->has_failed |= (flags & 0x3u) == 3;
    if (delivery->grade != MRT_TRANSIENT) {
        delivery->number = read_varint(reader, 1, MRT_VARINT_MAXIMUM);
    }
    packet->number = delivery->number;
    uint8_t kind = read_byte(reader);
    delivery->kind = (mrt_kind)kind;
    reader->has_failed |= kind > MRT_FROM_PRESENCE || kind == 1 || kind == 5
        || (delivery->is_raw && kind != MRT_FROM_TOPIC);
    if (reader->has_failed) {
        return;
    }
    delivery->from = read_string(reader, false, MRT_ID_MAXIMUM);
    delivery->time_ms = read_varint(reader, 0, MRT_VARINT_MAXIMUM);
    if (kind == MRT_FROM_TOPIC) {
        delivery->address = read_string(reader, true, UINT16_MAX);
    } else if (kind == MRT_FROM_GROUP || kind == MRT_FROM_KICK || kind == MRT_FROM_GROUP_EVENT) {
        delivery->address = read_string(reader, false, MRT_ID_MAXIMUM);
    }
    // Of a long topic the end may be missing; then there is no body either.
    if (!(is_cut && reader->has_failed)) {
        if (!delivery->is_raw && kind != MRT_FROM_KICK && !(is_cut && reader->rest.count == 0)) {
            delivery->type = read_byte(reader);
        }
        delivery->body = read_rest(reader);
    }
}

// Which flags a packet may have; the rest is reserved.
static uint8_t allowed_flags(uint8_t type)
{
    switch (type) {
    case MRT_TYPE_RESULT:
        return 0x7;
    case MRT_TYPE_DELIVER:
        return 0xF;
    default:
        return 0;
    }
}

// What the broker never sends, and a client that is no gateway never gets.
static mrt_reason check_type(uint8_t type)
{
    switch (type) {
    case MRT_TYPE_CONNACK:
    case MRT_TYPE_RESULT:
    case MRT_TYPE_DELIVER:
    case MRT_TYPE_RESPONSE:
    case MRT_TYPE_PINGRESP:
    case MRT_TYPE_DISCONNECT:
    case MRT_TYPE_AUTH:
        return MRT_SUCCESS;
    case 0:
    case 9:
    case 11:
        return MRT_MALFORMED_PACKET;
    default:
        return MRT_PROTOCOL_ERROR;
    }
}

mrt_reason mrt_decode(
    uint8_t header, const uint8_t *body, uint16_t count, bool is_cut, mrt_packet *packet)
{
    body_reader reader = {{body, count}, false};
    uint8_t flags = header & 0x0Fu;
    memset(packet, 0, sizeof *packet);
    packet->type = header >> 4;
    mrt_reason verdict = check_type(packet->type);
    if (verdict != MRT_SUCCESS) {
        return verdict;
    }
    if ((flags & ~allowed_flags(packet->type)) != 0) {
        return MRT_MALFORMED_PACKET;
    }
    switch (packet->type) {
    case MRT_TYPE_CONNACK:
        verdict = read_connack(&reader, packet);
        break;
    case MRT_TYPE_RESULT:
        read_result(&reader, flags, is_cut, packet);
        break;
    case MRT_TYPE_DELIVER:
        read_delivery(&reader, flags, is_cut, packet);
        if (is_cut && packet->as.delivery.from.count > 0) {
            return MRT_SUCCESS;
        }
        break;
    case MRT_TYPE_RESPONSE:
        packet->number = read_varint(&reader, 1, MRT_VARINT_MAXIMUM);
        packet->reason = read_reason(&reader);
        packet->as.content = read_rest(&reader);
        break;
    case MRT_TYPE_DISCONNECT:
        packet->reason = read_reason(&reader);
        packet->as.content = read_rest(&reader);
        break;
    case MRT_TYPE_AUTH:
        packet->reason = read_reason(&reader);
        break;
    default:
        break;
    }
    if (verdict != MRT_SUCCESS) {
        return verdict;
    }
    return reader.has_failed || reader.rest.count > 0 ? MRT_MALFORMED_PACKET : MRT_SUCCESS;
}
