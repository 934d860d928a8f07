// How packets are spelled: as tables of fields where they are regular. A body is written twice,
// first only counted, because its length stands before it and no buffer is there to hold it back.

#include "wire.h"

#include "crc32.h"

#include <stddef.h>

enum {
    CREDENTIAL_TOKEN = 1,
    CREDENTIAL_APP_KEY = 2,

    EXTENSION_INFO = 1,

    SEND_OPTIONS = 0x4,
    SEND_RAW = 0x8,
    OPTION_MESSAGE_ID = 0x01,
    OPTION_EXPIRY = 0x02,
    OPTION_TIME = 0x04,
    OPTION_HISTORY = 0x08,
    OPTION_FIELDS = 0x10,
    OPTION_RETAINED = 0x80,

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
    for (; writer->room != NULL && count > 0; count--) {
        if (writer->count == writer->capacity) {
            writer->has_failed |= writer->drain == NULL
                || !writer->drain(writer->context, writer->room, writer->count);
            if (writer->has_failed) {
                return;
            }
            writer->count = 0;
        }
        writer->room[writer->count++] = *next++;
    }
}

void mrt_write_byte(mrt_writer *writer, uint32_t value)
{
    uint8_t byte = (uint8_t)value;
    mrt_write(writer, &byte, 1);
}

void mrt_write_varint(mrt_writer *writer, uint64_t value)
{
    for (; value > 0x7Fu; value >>= 7) {
        mrt_write_byte(writer, (uint32_t)value | 0x80u);
    }
    mrt_write_byte(writer, (uint32_t)value);
}

void mrt_write_bytes(mrt_writer *writer, const mrt_bytes *bytes)
{
    mrt_write(writer, bytes->bytes, bytes->count);
}

// Also a string8 of up to 127 bytes: its length is spelled the same in both ways.
static void write_string(mrt_writer *writer, const mrt_bytes *bytes)
{
    mrt_write_varint(writer, bytes->count);
    mrt_write_bytes(writer, bytes);
}

// MARK: Tables

enum { END, CONSTANT, NUMBER16, NUMBER32, NUMBER64, FIXED8, STRING };

typedef struct field_row {
    uint8_t form;
    // The field is there where one of these flags is set; 0: always.
    uint8_t flags;
    // Where it stands in the struct; of a constant, the byte itself.
    uint8_t place;
} field_row;

static void write_fields(
    mrt_writer *writer, const field_row *row, const void *from, uint32_t flags)
{
    for (; row->form != END; row++) {
        const void *at = (const uint8_t *)from + row->place;
        uint64_t number;
        if (row->flags != 0 && (row->flags & flags) == 0) {
            continue;
        }
        switch (row->form) {
        case CONSTANT:
            number = row->place;
            break;
        case NUMBER16:
            number = *(const uint16_t *)at;
            break;
        case NUMBER32:
            number = *(const uint32_t *)at;
            break;
        case STRING:
            write_string(writer, at);
            continue;
        case FIXED8:
            number = *(const uint64_t *)at;
            for (uint32_t i = 0; i < 8; i++) {
                mrt_write_byte(writer, (uint32_t)(number >> 56));
                number <<= 8;
            }
            continue;
        default:
            number = *(const uint64_t *)at;
            break;
        }
        mrt_write_varint(writer, number);
    }
}

void mrt_write_packet(mrt_writer *writer, mrt_body body, const void *value)
{
    mrt_writer counter = {0};
    mrt_write_byte(writer, body(&counter, value));
    mrt_write_varint(writer, counter.total);
    body(writer, value);
}

// MARK: CONNECT, AUTH, DISCONNECT

uint32_t mrt_body_auth(mrt_writer *writer, const void *value)
{
    static const field_row fields[] = {
        {STRING, CREDENTIAL_TOKEN, offsetof(mrt_config, token)},
        {STRING, CREDENTIAL_APP_KEY, offsetof(mrt_config, app)},
        {STRING, CREDENTIAL_APP_KEY, offsetof(mrt_config, app_key)},
        {STRING, CREDENTIAL_APP_KEY, offsetof(mrt_config, user)},
        {END, 0, 0},
    };
    const mrt_config *config = value;
    uint32_t kind = config->token.count > 0 ? CREDENTIAL_TOKEN : CREDENTIAL_APP_KEY;
    mrt_write_byte(writer, kind);
    write_fields(writer, fields, config, kind);
    return MRT_TYPE_AUTH << 4;
}

static uint32_t connect_flags(const mrt_client *client)
{
    const mrt_config *config = client->config;
    uint32_t flags = client->connect_flags;
    if (config->is_clean_start && (flags & MRT_CONNECT_COOKIE) == 0) {
        flags |= MRT_CONNECT_CLEAN;
    }
    if (config->session_expiry_seconds != MRT_EXPIRY_DEFAULT) {
        flags |= MRT_CONNECT_EXPIRY;
    }
    if ((config->token.count | config->app_key.count) != 0) {
        flags |= MRT_CONNECT_CREDENTIAL;
    }
    if (config->info.count > 0) {
        flags |= MRT_CONNECT_EXTENSIONS;
    }
    return flags;
}

uint32_t mrt_body_connect(mrt_writer *writer, const void *value)
{
    static const uint8_t name_and_level[] = {0, 3, 'M', 'R', 'T', 1};
    static const field_row asked[] = {
        {NUMBER16, 0, offsetof(mrt_config, keep_alive_seconds)},
        {NUMBER16, 0, offsetof(mrt_config, inbox_window)},
        {NUMBER32, 0, offsetof(mrt_config, packet_maximum)},
        {STRING, 0, offsetof(mrt_config, device)},
        {END, 0, 0},
    };
    static const field_row known[] = {
        {FIXED8, MRT_CONNECT_RESUME, offsetof(mrt_client, inbox.epoch)},
        {NUMBER64, MRT_CONNECT_RESUME, offsetof(mrt_client, inbox.number)},
        {FIXED8, MRT_CONNECT_COOKIE, offsetof(mrt_client, cookie)},
        {FIXED8, MRT_CONNECT_OUTBOX, offsetof(mrt_client, log.epoch)},
        {NUMBER32, MRT_CONNECT_OUTBOX, offsetof(mrt_client, log.marked)},
        {NUMBER32, MRT_CONNECT_OUTBOX, offsetof(mrt_client, log.transmitted)},
        {END, 0, 0},
    };
    static const field_row more[] = {
        {NUMBER32, MRT_CONNECT_EXPIRY, offsetof(mrt_config, session_expiry_seconds)},
        {CONSTANT, MRT_CONNECT_EXTENSIONS, EXTENSION_INFO},
        {STRING, MRT_CONNECT_EXTENSIONS, offsetof(mrt_config, info)},
        {END, 0, 0},
    };
    const mrt_client *client = value;
    const mrt_config *config = client->config;
    uint32_t flags = connect_flags(client);
    mrt_write(writer, name_and_level, sizeof name_and_level);
    mrt_write_byte(writer, config->extensions.count > 0 ? flags | MRT_CONNECT_EXTENSIONS : flags);
    write_fields(writer, asked, config, flags);
    if ((flags & MRT_CONNECT_CREDENTIAL) != 0) {
        mrt_body_auth(writer, config);
    }
    write_fields(writer, known, client, flags);
    write_fields(writer, more, config, flags);
    mrt_write_bytes(writer, &config->extensions);
    return MRT_TYPE_CONNECT << 4;
}

uint32_t mrt_body_goodbye(mrt_writer *writer, const void *value)
{
    const mrt_goodbye *goodbye = value;
    bool has_expiry = goodbye->expiry_seconds != MRT_EXPIRY_DEFAULT;
    if (has_expiry || goodbye->reason != MRT_SUCCESS) {
        mrt_write_byte(writer, goodbye->reason);
        if (has_expiry) {
            mrt_write_varint(writer, goodbye->expiry_seconds);
        }
    }
    return MRT_TYPE_DISCONNECT << 4;
}

uint32_t mrt_body_ping(mrt_writer *writer, const void *nothing)
{
    (void)writer;
    (void)nothing;
    return MRT_TYPE_PINGREQ << 4;
}

// MARK: Messages

void mrt_write_target(mrt_writer *writer, const mrt_message *message)
{
    const mrt_bytes *receiver = &message->address;
    uint32_t count = message->target == MRT_TO_EVERYBODY ? 0 : 1;
    mrt_write_byte(writer, message->target);
    if (message->target == MRT_TO_LIST) {
        receiver = message->list;
        count = message->list_count;
        mrt_write_varint(writer, count);
    }
    for (; count > 0; count--) {
        write_string(writer, receiver++);
    }
    if (!message->is_raw) {
        mrt_write_byte(writer, message->type);
    }
    mrt_write_bytes(writer, &message->body);
}

uint32_t mrt_body_message(mrt_writer *writer, const void *value)
{
    static const field_row fields[] = {
        {STRING, OPTION_MESSAGE_ID, offsetof(mrt_message, message_id)},
        {NUMBER32, OPTION_EXPIRY, offsetof(mrt_message, expiry_seconds)},
        {NUMBER64, OPTION_TIME, offsetof(mrt_message, time_ms)},
        {STRING, OPTION_FIELDS, offsetof(mrt_message, fields)},
        {END, 0, 0},
    };
    const mrt_numbered_message *numbered = value;
    const mrt_message *message = numbered->message;
    uint32_t header = MRT_TYPE_SEND << 4 | (uint32_t)message->grade;
    uint32_t options = (message->message_id.count > 0 ? OPTION_MESSAGE_ID : 0u)
        | (message->expiry_seconds != 0 ? OPTION_EXPIRY : 0u)
        | (message->time_ms != 0 ? OPTION_TIME : 0u) | message->is_kept * (uint32_t)OPTION_HISTORY
        | (message->fields.count > 0 ? OPTION_FIELDS : 0u)
        | message->is_retained * (uint32_t)OPTION_RETAINED;
    if (numbered->number != 0) {
        mrt_write_varint(writer, numbered->number);
    }
    if (options != 0) {
        header |= SEND_OPTIONS;
        mrt_write_byte(writer, options);
    }
    write_fields(writer, fields, message, options);
    mrt_write_target(writer, message);
    return header | message->is_raw * (uint32_t)SEND_RAW;
}

uint32_t mrt_body_ack(mrt_writer *writer, const void *value)
{
    const mrt_ack *ack = value;
    uint32_t header = MRT_TYPE_ACK << 4;
    if (ack->inbox != 0) {
        header |= ACK_INBOX;
        mrt_write_varint(writer, ack->inbox);
    }
    if (ack->results != 0) {
        header |= ACK_RESULTS;
        mrt_write_varint(writer, ack->results);
    }
    return header;
}

// MARK: What can be spelled

bool mrt_is_message_valid(const mrt_message *message)
{
    const mrt_bytes *receiver = &message->address;
    uint32_t count = 1;
    uint32_t maximum = MRT_ID_MAXIMUM;
    if ((unsigned)message->grade > MRT_ONCE || (unsigned)message->target > MRT_TO_TOPIC
        || message->message_id.count > MRT_ID_MAXIMUM
        || ((message->is_raw || message->is_retained) && message->target != MRT_TO_TOPIC)) {
        return false;
    }
    if (message->target == MRT_TO_EVERYBODY) {
        return true;
    }
    if (message->target == MRT_TO_TOPIC) {
        maximum = UINT16_MAX;
    }
    if (message->target == MRT_TO_LIST) {
        receiver = message->list;
        count = message->list_count;
    }
    if (count - 1 >= MRT_LIST_MAXIMUM) {
        return false;
    }
    while (count > 0) {
        count--;
        if (receiver[count].count - 1 >= maximum) {
            return false;
        }
    }
    return true;
}

bool mrt_is_config_valid(const mrt_config *config)
{
    return config->receive_size >= MRT_PACKET_MINIMUM && config->inbox_window >= 1
        && config->packet_maximum - 1 >= MRT_PACKET_MINIMUM - 1
        && config->device.count <= MRT_ID_MAXIMUM
        && config->app_key.count <= MRT_APP_KEY_MAXIMUM;
}
