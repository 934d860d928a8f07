// How packets are spelled. A body is written twice, first only counted, because its length stands
// before it and no buffer is there to hold it back.

#include "wire.h"

#include "crc32.h"

enum {
    CONNECT_CLEAN = 0x01,
    CONNECT_AUTOMATIC = 0x02,
    CONNECT_RESUME = 0x04,
    CONNECT_COOKIE = 0x08,
    CONNECT_OUTBOX = 0x10,
    CONNECT_EXPIRY = 0x20,
    CONNECT_CREDENTIAL = 0x40,
    CONNECT_EXTENSIONS = 0x80,

    CREDENTIAL_TOKEN = 1,
    CREDENTIAL_APP_KEY = 2,

    EXTENSION_INFO = 1,

    SEND_OPTIONS = 0x4,
    SEND_RAW = 0x8,
    OPTION_MESSAGE_ID = 0x01,
    OPTION_EXPIRY = 0x02,
    OPTION_TIME = 0x04,

    ACK_INBOX = 0x1,
    ACK_RESULTS = 0x2
};

void mrt_write(mrt_writer *writer, const void *bytes, uint32_t count)
{
    const uint8_t *next = bytes;
    writer->total += count;
    if (writer->has_crc) {
        writer->crc = mrt_crc32(writer->crc, next, count);
    }
    while (writer->room != NULL && count > 0 && !writer->has_failed) {
        uint32_t free = (uint32_t)writer->capacity - writer->count;
        uint32_t part = count < free ? count : free;
        if (part > 0) {
            memcpy(writer->room + writer->count, next, part);
        }
        writer->count = (uint16_t)(writer->count + part);
        next += part;
        count -= part;
        if (writer->drain != NULL && writer->count == writer->capacity) {
            writer->has_failed = !writer->drain(writer->context, writer->room, writer->count);
            writer->count = 0;
        } else if (count > 0) {
            writer->has_failed = true;
        }
    }
}

static void write_byte(mrt_writer *writer, uint32_t value)
{
    uint8_t byte = (uint8_t)value;
    mrt_write(writer, &byte, 1);
}

static void write_varint(mrt_writer *writer, uint64_t value)
{
    uint8_t bytes[9];
    uint8_t count = 0;
    do {
        bytes[count] = (uint8_t)((value & 0x7Fu) | (value > 0x7Fu ? 0x80u : 0u));
        value >>= 7;
        count++;
    } while (value != 0 && count < sizeof bytes);
    mrt_write(writer, bytes, count);
}

static void write_fixed8(mrt_writer *writer, uint64_t value)
{
    uint8_t bytes[8];
    for (uint8_t i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(value >> (56 - 8 * i));
    }
    mrt_write(writer, bytes, sizeof bytes);
}

static void write_bytes(mrt_writer *writer, mrt_bytes bytes)
{
    mrt_write(writer, bytes.bytes, bytes.count);
}

static void write_string8(mrt_writer *writer, mrt_bytes bytes)
{
    write_byte(writer, bytes.count);
    write_bytes(writer, bytes);
}

static void write_stringv(mrt_writer *writer, mrt_bytes bytes)
{
    write_varint(writer, bytes.count);
    write_bytes(writer, bytes);
}

void mrt_write_packet(mrt_writer *writer, uint8_t header, mrt_body body, const void *value)
{
    mrt_writer counter = {0};
    body(&counter, value);
    write_byte(writer, header);
    write_varint(writer, counter.total);
    body(writer, value);
}

// MARK: CONNECT, AUTH, DISCONNECT

static bool has_credential(const mrt_config *config)
{
    return config->token.count > 0 || config->app_key.count > 0;
}

void mrt_body_auth(mrt_writer *writer, const void *value)
{
    const mrt_config *config = value;
    if (config->token.count > 0) {
        write_byte(writer, CREDENTIAL_TOKEN);
        write_stringv(writer, config->token);
    } else {
        write_byte(writer, CREDENTIAL_APP_KEY);
        write_string8(writer, config->app);
        write_string8(writer, config->app_key);
        write_string8(writer, config->user);
    }
}

static uint8_t connect_flags(const mrt_connect *connect)
{
    const mrt_config *config = connect->config;
    bool has_expiry = config->session_expiry_seconds != MRT_EXPIRY_DEFAULT;
    return (uint8_t)((connect->is_clean_start ? CONNECT_CLEAN : 0)
        | (connect->is_automatic ? CONNECT_AUTOMATIC : 0)
        | (connect->resume.epoch != 0 ? CONNECT_RESUME : 0)
        | (connect->has_cookie ? CONNECT_COOKIE : 0) | (connect->has_outbox ? CONNECT_OUTBOX : 0)
        | (has_expiry ? CONNECT_EXPIRY : 0) | (has_credential(config) ? CONNECT_CREDENTIAL : 0)
        | (config->info.count > 0 ? CONNECT_EXTENSIONS : 0));
}

void mrt_body_connect(mrt_writer *writer, const void *value)
{
    static const uint8_t name_and_level[] = {0, 3, 'M', 'R', 'T', 1};
    const mrt_connect *connect = value;
    const mrt_config *config = connect->config;
    mrt_write(writer, name_and_level, sizeof name_and_level);
    write_byte(writer, connect_flags(connect));
    write_varint(writer, config->keep_alive_seconds);
    write_varint(writer, config->inbox_window);
    write_varint(writer, config->packet_maximum);
    write_string8(writer, config->device);
    if (has_credential(config)) {
        mrt_body_auth(writer, config);
    }
    if (connect->resume.epoch != 0) {
        write_fixed8(writer, connect->resume.epoch);
        write_varint(writer, connect->resume.number);
    }
    if (connect->has_cookie) {
        write_fixed8(writer, connect->cookie);
    }
    if (connect->has_outbox) {
        write_fixed8(writer, connect->outbox_epoch);
        write_varint(writer, connect->results_seen);
        write_varint(writer, connect->highest_used);
    }
    if (config->session_expiry_seconds != MRT_EXPIRY_DEFAULT) {
        write_varint(writer, config->session_expiry_seconds);
    }
    if (config->info.count > 0) {
        write_varint(writer, EXTENSION_INFO);
        write_stringv(writer, config->info);
    }
}

void mrt_body_goodbye(mrt_writer *writer, const void *value)
{
    const mrt_goodbye *goodbye = value;
    bool has_expiry = goodbye->expiry_seconds != MRT_EXPIRY_DEFAULT;
    if (goodbye->reason != MRT_SUCCESS || has_expiry) {
        write_byte(writer, goodbye->reason);
    }
    if (has_expiry) {
        write_varint(writer, goodbye->expiry_seconds);
    }
}

void mrt_body_nothing(mrt_writer *writer, const void *nothing)
{
    (void)writer;
    (void)nothing;
}

// MARK: Messages

static void write_target(mrt_writer *writer, const mrt_message *message)
{
    write_byte(writer, message->target);
    switch (message->target) {
    case MRT_TO_USER:
    case MRT_TO_GROUP:
        write_string8(writer, message->address);
        break;
    case MRT_TO_LIST:
        write_varint(writer, message->list_count);
        for (uint16_t i = 0; i < message->list_count; i++) {
            write_string8(writer, message->list[i]);
        }
        break;
    case MRT_TO_TOPIC:
        write_stringv(writer, message->address);
        break;
    case MRT_TO_EVERYBODY:
        break;
    }
}

static void write_payload(mrt_writer *writer, const mrt_message *message)
{
    if (!message->is_raw) {
        write_byte(writer, message->type);
    }
    write_bytes(writer, message->body);
}

static uint8_t option_bits(const mrt_message *message)
{
    return (uint8_t)((message->message_id.count > 0 ? OPTION_MESSAGE_ID : 0)
        | (message->expiry_seconds != 0 ? OPTION_EXPIRY : 0)
        | (message->time_ms != 0 ? OPTION_TIME : 0));
}

uint8_t mrt_header_message(const mrt_message *message)
{
    return (uint8_t)((MRT_TYPE_SEND << 4) | (int)message->grade | (message->is_raw ? SEND_RAW : 0)
        | (option_bits(message) != 0 ? SEND_OPTIONS : 0));
}

void mrt_body_message(mrt_writer *writer, const void *value)
{
    const mrt_numbered_message *numbered = value;
    const mrt_message *message = numbered->message;
    if (numbered->number != 0) {
        write_varint(writer, numbered->number);
    }
    if (option_bits(message) != 0) {
        write_byte(writer, option_bits(message));
    }
    if (message->message_id.count > 0) {
        write_string8(writer, message->message_id);
    }
    if (message->expiry_seconds != 0) {
        write_varint(writer, message->expiry_seconds);
    }
    if (message->time_ms != 0) {
        write_varint(writer, message->time_ms);
    }
    write_target(writer, message);
    write_payload(writer, message);
}

uint8_t mrt_header_ack(const mrt_ack *ack)
{
    return (uint8_t)((MRT_TYPE_ACK << 4) | (ack->inbox != 0 ? ACK_INBOX : 0)
        | (ack->results != 0 ? ACK_RESULTS : 0));
}

void mrt_body_ack(mrt_writer *writer, const void *value)
{
    const mrt_ack *ack = value;
    if (ack->inbox != 0) {
        write_varint(writer, ack->inbox);
    }
    if (ack->results != 0) {
        write_varint(writer, ack->results);
    }
}

// MARK: Requests

static void write_field(mrt_writer *writer, const mrt_field *field)
{
    const mrt_bytes *run = field->pointer;
    switch (field->form) {
    case MRT_FIELD_BYTE:
        write_byte(writer, field->number);
        break;
    case MRT_FIELD_NUMBER:
        write_varint(writer, field->number);
        break;
    case MRT_FIELD_STRING8:
        write_string8(writer, field->bytes);
        break;
    case MRT_FIELD_STRINGV:
        write_stringv(writer, field->bytes);
        break;
    case MRT_FIELD_REST:
        write_bytes(writer, field->bytes);
        break;
    case MRT_FIELD_RUN:
        for (uint32_t i = 0; i < field->number; i++) {
            write_string8(writer, run[i]);
        }
        break;
    case MRT_FIELD_MESSAGE: {
        const mrt_message *message = field->pointer;
        write_byte(writer, message->is_raw ? 1 : 0);
        write_target(writer, message);
        write_payload(writer, message);
        break;
    }
    }
}

void mrt_body_request(mrt_writer *writer, const void *value)
{
    const mrt_request *request = value;
    write_varint(writer, request->id);
    write_byte(writer, request->operation);
    for (uint8_t i = 0; i < request->field_count; i++) {
        write_field(writer, &request->fields[i]);
    }
}

// MARK: What can be spelled

static bool is_id(mrt_bytes id)
{
    return id.count >= 1 && id.count <= MRT_ID_MAXIMUM;
}

static bool is_target_valid(const mrt_message *message)
{
    switch (message->target) {
    case MRT_TO_USER:
    case MRT_TO_GROUP:
        return is_id(message->address);
    case MRT_TO_LIST:
        for (uint16_t i = 0; i < message->list_count && i < MRT_LIST_MAXIMUM; i++) {
            if (!is_id(message->list[i])) {
                return false;
            }
        }
        return message->list_count >= 1 && message->list_count <= MRT_LIST_MAXIMUM;
    case MRT_TO_TOPIC:
        return message->address.count >= 1;
    case MRT_TO_EVERYBODY:
        return true;
    }
    return false;
}

bool mrt_is_message_valid(const mrt_message *message)
{
    return is_target_valid(message) && message->message_id.count <= MRT_ID_MAXIMUM
        && (!message->is_raw || message->target == MRT_TO_TOPIC)
        && (unsigned)message->grade <= MRT_ONCE && message->time_ms <= MRT_VARINT_MAXIMUM;
}

bool mrt_is_config_valid(const mrt_config *config)
{
    bool has_app_key = is_id(config->app) && is_id(config->user) && config->app_key.count <= 255;
    return config->receive_size >= MRT_PACKET_MINIMUM && config->inbox_window >= 1
        && (config->packet_maximum == 0 || config->packet_maximum >= MRT_PACKET_MINIMUM)
        && config->device.count <= MRT_ID_MAXIMUM && config->info.count <= MRT_INFO_MAXIMUM
        && (config->token.count > 0 || config->app_key.count == 0 || has_app_key);
}
