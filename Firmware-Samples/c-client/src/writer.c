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
    if (writer->room == NULL) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (writer->count == writer->capacity) {
            writer->has_failed = true;
            return;
        }
        writer->room[writer->count] = next[i];
        writer->count++;
        if (writer->drain != NULL && writer->count == writer->capacity) {
            writer->has_failed |= !writer->drain(writer->context, writer->room, writer->count);
            writer->count = 0;
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
    while (value > 0x7Fu) {
        write_byte(writer, (uint32_t)value | 0x80u);
        value >>= 7;
    }
    write_byte(writer, (uint32_t)value);
}

static void write_fixed8(mrt_writer *writer, uint64_t value)
{
    for (uint32_t i = 0; i < 8; i++) {
        write_byte(writer, (uint32_t)(value >> 56));
        value <<= 8;
    }
}

static void write_bytes(mrt_writer *writer, const mrt_bytes *bytes)
{
    mrt_write(writer, bytes->bytes, bytes->count);
}

static void write_string8(mrt_writer *writer, const mrt_bytes *bytes)
{
    write_byte(writer, bytes->count);
    write_bytes(writer, bytes);
}

static void write_stringv(mrt_writer *writer, const mrt_bytes *bytes)
{
    write_varint(writer, bytes->count);
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

void mrt_body_auth(mrt_writer *writer, const void *value)
{
    const mrt_config *config = value;
    if (config->token.count > 0) {
        write_byte(writer, CREDENTIAL_TOKEN);
        write_stringv(writer, &config->token);
    } else {
        write_byte(writer, CREDENTIAL_APP_KEY);
        write_string8(writer, &config->app);
        write_string8(writer, &config->app_key);
        write_string8(writer, &config->user);
    }
}

static uint32_t connect_flags(const mrt_client *client)
{
    const mrt_config *config = client->config;
    uint32_t flags = client->log.epoch != 0 ? CONNECT_OUTBOX : 0u;
    if (config->is_clean_start && !client->has_logged_in) {
        flags |= CONNECT_CLEAN;
    }
    if (client->is_automatic) {
        flags |= CONNECT_AUTOMATIC;
    }
    if (client->inbox.epoch != 0) {
        flags |= CONNECT_RESUME;
    }
    if (client->has_cookie) {
        flags |= CONNECT_COOKIE;
    }
    if (config->session_expiry_seconds != MRT_EXPIRY_DEFAULT) {
        flags |= CONNECT_EXPIRY;
    }
    if (config->token.count + config->app_key.count > 0) {
        flags |= CONNECT_CREDENTIAL;
    }
    if (config->info.count > 0) {
        flags |= CONNECT_EXTENSIONS;
    }
    return flags;
}

void mrt_body_connect(mrt_writer *writer, const void *value)
{
    static const uint8_t name_and_level[] = {0, 3, 'M', 'R', 'T', 1};
    const mrt_client *client = value;
    const mrt_config *config = client->config;
    const mrt_log *log = &client->log;
    uint32_t flags = connect_flags(client);
    mrt_write(writer, name_and_level, sizeof name_and_level);
    write_byte(writer, flags);
    write_varint(writer, config->keep_alive_seconds);
    write_varint(writer, config->inbox_window);
    write_varint(writer, config->packet_maximum);
    write_string8(writer, &config->device);
    if ((flags & CONNECT_CREDENTIAL) != 0) {
        mrt_body_auth(writer, config);
    }
    if ((flags & CONNECT_RESUME) != 0) {
        write_fixed8(writer, client->inbox.epoch);
        write_varint(writer, client->inbox.number);
    }
    if ((flags & CONNECT_COOKIE) != 0) {
        write_fixed8(writer, client->cookie);
    }
    if ((flags & CONNECT_OUTBOX) != 0) {
        write_fixed8(writer, log->epoch);
        write_varint(writer, log->marked);
        write_varint(writer, log->transmitted > log->marked ? log->transmitted : log->marked);
    }
    if ((flags & CONNECT_EXPIRY) != 0) {
        write_varint(writer, config->session_expiry_seconds);
    }
    if ((flags & CONNECT_EXTENSIONS) != 0) {
        write_byte(writer, EXTENSION_INFO);
        write_stringv(writer, &config->info);
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

static void write_target_and_payload(mrt_writer *writer, const mrt_message *message)
{
    write_byte(writer, message->target);
    if (message->target == MRT_TO_LIST) {
        write_varint(writer, message->list_count);
        for (uint32_t i = 0; i < message->list_count; i++) {
            write_string8(writer, &message->list[i]);
        }
    } else if (message->target != MRT_TO_EVERYBODY) {
        // An id has at most 64 bytes: its length is spelled the same in both ways.
        write_stringv(writer, &message->address);
    }
    if (!message->is_raw) {
        write_byte(writer, message->type);
    }
    write_bytes(writer, &message->body);
}

static uint32_t option_bits(const mrt_message *message)
{
    return (message->message_id.count > 0 ? OPTION_MESSAGE_ID : 0u)
        | (message->expiry_seconds != 0 ? OPTION_EXPIRY : 0u)
        | (message->time_ms != 0 ? OPTION_TIME : 0u);
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
    uint32_t options = option_bits(message);
    if (numbered->number != 0) {
        write_varint(writer, numbered->number);
    }
    if (options != 0) {
        write_byte(writer, options);
    }
    if ((options & OPTION_MESSAGE_ID) != 0) {
        write_string8(writer, &message->message_id);
    }
    if ((options & OPTION_EXPIRY) != 0) {
        write_varint(writer, message->expiry_seconds);
    }
    if ((options & OPTION_TIME) != 0) {
        write_varint(writer, message->time_ms);
    }
    write_target_and_payload(writer, message);
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
    switch (field->form) {
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
            write_string8(writer, &field->bytes[i]);
        }
        break;
    case MRT_FIELD_MESSAGE:
        write_target_and_payload(writer, field->message);
        break;
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

static bool is_id(const mrt_bytes *id)
{
    return id->count - 1 < MRT_ID_MAXIMUM;
}

bool mrt_is_message_valid(const mrt_message *message)
{
    const mrt_bytes *receivers = &message->address;
    uint32_t count = 1;
    if ((unsigned)message->grade > MRT_ONCE || (unsigned)message->target > MRT_TO_TOPIC
        || message->message_id.count > MRT_ID_MAXIMUM
        || (message->is_raw && message->target != MRT_TO_TOPIC)) {
        return false;
    }
    switch (message->target) {
    case MRT_TO_TOPIC:
        return message->address.count - 1 < UINT16_MAX;
    case MRT_TO_EVERYBODY:
        return true;
    case MRT_TO_LIST:
        receivers = message->list;
        count = message->list_count;
        break;
    default:
        break;
    }
    bool is_valid = count - 1 < MRT_LIST_MAXIMUM;
    for (uint32_t i = 0; is_valid && i < count; i++) {
        is_valid = is_id(&receivers[i]);
    }
    return is_valid;
}

bool mrt_is_config_valid(const mrt_config *config)
{
    return config->receive_size >= MRT_PACKET_MINIMUM && config->inbox_window >= 1
        && (config->packet_maximum == 0 || config->packet_maximum >= MRT_PACKET_MINIMUM)
        && config->device.count <= MRT_ID_MAXIMUM && config->info.count <= MRT_INFO_MAXIMUM
        && config->app_key.count <= MRT_APP_KEY_MAXIMUM;
}
