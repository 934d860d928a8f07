// Packets of MRT level 1 (docs/PROTOCOL.md) as bytes: a writer, and a decoder that trusts nothing it
// is given. It knows no connection, no time and no storage.

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
// Section 4: the least that a client may announce, and a CONNACK fits into it.
#define MRT_PACKET_MINIMUM 128u

// MARK: Writing

// Where bytes go: counted only (no room), into memory, or through memory as a chunk into `drain`
// whenever the chunk is full.
typedef struct mrt_writer {
    uint8_t *room;
    uint16_t capacity;
    uint16_t count;
    // Bytes written in all.
    uint32_t total;
    // CRC-32 of them, where `has_crc`.
    uint32_t crc;
    bool has_crc;
    // What did not fit, or could not be drained.
    bool has_failed;
    bool (*drain)(void *context, const uint8_t *bytes, uint16_t count);
    void *context;
} mrt_writer;

void mrt_write(mrt_writer *writer, const void *bytes, uint32_t count);

// A whole packet: `body` writes its body, maybe several times, of which all but the last only count.
typedef void (*mrt_body)(mrt_writer *writer, const void *value);
void mrt_write_packet(mrt_writer *writer, uint8_t header, mrt_body body, const void *value);

typedef struct mrt_connect {
    const mrt_config *config;
    mrt_record resume;
    uint64_t outbox_epoch;
    uint64_t results_seen;
    uint64_t highest_used;
    uint64_t cookie;
    bool has_cookie;
    bool has_outbox;
    bool is_clean_start;
    bool is_automatic;
} mrt_connect;

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
        MRT_FIELD_BYTE,
        MRT_FIELD_NUMBER,
        // A length of one byte, or a varint, before the bytes.
        MRT_FIELD_STRING8,
        MRT_FIELD_STRINGV,
        // The bytes as they are.
        MRT_FIELD_REST,
        // So many string8, without their count.
        MRT_FIELD_RUN,
        // Form, target and payload, as in a will.
        MRT_FIELD_MESSAGE
    } form;
    uint32_t number;
    mrt_bytes bytes;
    const void *pointer;
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

// Bodies for mrt_write_packet, each with the value it takes.
void mrt_body_connect(mrt_writer *writer, const void *connect);
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

typedef struct mrt_packet {
    uint8_t type;
    mrt_reason reason;
    // Of a result, an answer or a delivery.
    uint64_t number;
    union {
        mrt_granted granted;
        struct {
            uint32_t retry_after_seconds;
            mrt_bytes text;
        } refused;
        mrt_result result;
        mrt_delivery delivery;
        // Of a response, or the text of a DISCONNECT.
        mrt_bytes content;
    } as;
} mrt_packet;

// A packet from the broker. MRT_SUCCESS, MRT_MALFORMED_PACKET or MRT_PROTOCOL_ERROR. `is_cut`: the
// end of the body is missing; then the fields that are there are read.
mrt_reason mrt_decode(
    uint8_t header, const uint8_t *body, uint16_t count, bool is_cut, mrt_packet *packet);

#endif
