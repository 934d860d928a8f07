// Packets of MRT level 1 (docs/PROTOCOL.md) as bytes: a writer, and a decoder that trusts nothing
// it is given. It knows no connection, no time and no storage.

#ifndef MRT_WIRE_H
#define MRT_WIRE_H

#include "mrt/client.h"

// Packet types (section 3).
enum {
    MRT_TYPE_CONNECT = 1,
    MRT_TYPE_CONNACK = 2,
    MRT_TYPE_SEND = 3,
    MRT_TYPE_RESULT = 4,
    MRT_TYPE_DELIVER = 5,
    MRT_TYPE_ACK = 6,
    MRT_TYPE_REQUEST = 7,
    MRT_TYPE_RESPONSE = 8,
    MRT_TYPE_CHANNEL = 10,
    MRT_TYPE_PINGREQ = 12,
    MRT_TYPE_PINGRESP = 13,
    MRT_TYPE_DISCONNECT = 14,
    MRT_TYPE_AUTH = 15
};

#define MRT_VARINT_MAXIMUM 0x7FFFFFFFFFFFFFFFu
// Section 11.
#define MRT_ID_MAXIMUM 64u
#define MRT_LIST_MAXIMUM 256u
#define MRT_INFO_MAXIMUM 5120u
#define MRT_APP_KEY_MAXIMUM 255u
// Section 4: the least that a client may announce, and a CONNACK fits into it.
#define MRT_PACKET_MINIMUM 128u
// What a later CONNECT may have beyond the first: resume (8 + 9), cookie (8), two numbers that grew
// to nine bytes (16), and a longer length (1).
#define MRT_CONNECT_GROWTH 42u

// MARK: Writing

// Where bytes go: counted only (no room), into memory, or through memory as a chunk into `drain`
// whenever the chunk is full.
typedef struct mrt_writer {
    uint8_t *room;
    uint32_t capacity;
    uint32_t count;
    // Bytes written in all.
    uint32_t total;
    // CRC-32 of them, where `has_crc`.
    uint32_t crc;
    bool has_crc;
    // What did not fit, or could not be drained.
    bool has_failed;
    bool (*drain)(void *context, const uint8_t *bytes, uint32_t count);
    void *context;
} mrt_writer;

void mrt_write(mrt_writer *writer, const void *bytes, uint32_t count);

// A whole packet: `body` writes its body, maybe several times, of which all but the last only
// count.
typedef void (*mrt_body)(mrt_writer *writer, const void *value);
void mrt_write_packet(mrt_writer *writer, uint8_t header, mrt_body body, const void *value);

typedef struct mrt_numbered_message {
    const mrt_message *message;
    // 0 for a transient one.
    uint64_t number;
} mrt_numbered_message;

typedef struct mrt_ack {
    // 0 where it is absent.
    uint64_t inbox;
    uint64_t results;
} mrt_ack;

typedef struct mrt_goodbye {
    uint8_t reason;
    // MRT_EXPIRY_DEFAULT where it is absent.
    uint32_t expiry_seconds;
} mrt_goodbye;

// One parameter of a request.
typedef struct mrt_field {
    enum {
        // A number below 128 is one byte, so that bytes are numbers too.
        MRT_FIELD_NUMBER,
        // A length of one byte, or a varint, before the bytes.
        MRT_FIELD_STRING8,
        MRT_FIELD_STRINGV,
        // The bytes as they are.
        MRT_FIELD_REST,
        // So many string8, without their count.
        MRT_FIELD_RUN,
        // Target and payload, as in a will.
        MRT_FIELD_MESSAGE
    } form;
    uint32_t number;
    // Of one string, of the strings of a run.
    const mrt_bytes *bytes;
    const mrt_message *message;
} mrt_field;

typedef struct mrt_request {
    uint64_t id;
    uint8_t operation;
    uint8_t field_count;
    const mrt_field *fields;
} mrt_request;

// Asks the broker; the calls of mrt/requests.h spell their parameters as fields.
mrt_status mrt_request_fields(mrt_client *client, uint8_t operation, const mrt_field *fields,
    uint8_t field_count, uint64_t *id);

// Sends a packet that is not stored, with a connection only (src/client.c).
mrt_status mrt_put_direct(mrt_client *client, uint32_t header, mrt_body body, const void *value);

// Bodies for mrt_write_packet, each with the value it takes.
void mrt_body_connect(mrt_writer *writer, const void *client);
void mrt_body_message(mrt_writer *writer, const void *numbered_message);
void mrt_body_ack(mrt_writer *writer, const void *ack);
void mrt_body_request(mrt_writer *writer, const void *request);
void mrt_body_goodbye(mrt_writer *writer, const void *goodbye);
void mrt_body_auth(mrt_writer *writer, const void *config);
void mrt_body_nothing(mrt_writer *writer, const void *nothing);

// The first byte of these packets.
uint8_t mrt_header_message(const mrt_message *message);
uint8_t mrt_header_ack(const mrt_ack *ack);

// Whether a message can be spelled: lengths and enumerations. Whether ids and text obey their rules
// the broker judges, with a result.
bool mrt_is_message_valid(const mrt_message *message);
bool mrt_is_config_valid(const mrt_config *config);

// MARK: Reading

// The fixed header at the front of `bytes`.
typedef struct mrt_frame {
    uint8_t header;
    // Bytes of the fixed header.
    uint8_t head_count;
    uint32_t body_count;
} mrt_frame;

// MRT_SUCCESS; MRT_MALFORMED_PACKET; MRT_UNSPECIFIED_ERROR where `*needed` bytes in all are not all
// there yet.
mrt_reason mrt_read_frame(const uint8_t *bytes, uint32_t count, mrt_frame *frame, uint32_t *needed);

// A packet from the broker as an event. MRT_SUCCESS, MRT_MALFORMED_PACKET or MRT_PROTOCOL_ERROR.
// `is_cut`: the end of the body is missing; then the fields that are there are read. A refused
// login is MRT_EVENT_DISCONNECTED with the seconds of its advice as `retry_ms`.
mrt_reason mrt_decode(
    uint8_t header, const uint8_t *body, uint32_t count, bool is_cut, mrt_event *event);

#endif
