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

// Flags of CONNECT (section 4).
enum {
    MRT_CONNECT_CLEAN = 0x01,
    MRT_CONNECT_AUTOMATIC = 0x02,
    MRT_CONNECT_RESUME = 0x04,
    MRT_CONNECT_COOKIE = 0x08,
    MRT_CONNECT_OUTBOX = 0x10,
    MRT_CONNECT_EXPIRY = 0x20,
    MRT_CONNECT_CREDENTIAL = 0x40,
    MRT_CONNECT_EXTENSIONS = 0x80
};

// Section 11.
#define MRT_ID_MAXIMUM 64u
#define MRT_LIST_MAXIMUM 256u
// The protocol has up to 255; keys of the broker have 30.
#define MRT_APP_KEY_MAXIMUM 127u
// Section 4: the least that a client may announce, and a CONNACK fits into it.
#define MRT_PACKET_MINIMUM 128u
// What a later CONNECT may have beyond the first: resume (8 + 9), cookie (8), two numbers that grew
// to five bytes (8), and a longer length (1).
#define MRT_CONNECT_GROWTH 34u

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
void mrt_write_byte(mrt_writer *writer, uint32_t value);
void mrt_write_varint(mrt_writer *writer, uint64_t value);
void mrt_write_bytes(mrt_writer *writer, const mrt_bytes *bytes);

// A whole packet: `body` writes its body, maybe several times, of which all but the last only
// count, and gives its first byte.
typedef uint32_t (*mrt_body)(mrt_writer *writer, const void *value);
void mrt_write_packet(mrt_writer *writer, mrt_body body, const void *value);

typedef struct mrt_numbered_message {
    const mrt_message *message;
    // 0 for a transient one.
    uint32_t number;
} mrt_numbered_message;

typedef struct mrt_ack {
    // 0 where it is absent.
    uint64_t inbox;
    uint32_t results;
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
        // The bytes as they are.
        MRT_FIELD_REST,
        // `number` times a string8.
        MRT_FIELD_STRINGS,
        // Target and payload, as in a will.
        MRT_FIELD_MESSAGE
    } form;
    uint32_t number;
    union {
        const mrt_bytes *bytes;
        const mrt_message *message;
    } as;
} mrt_field;

typedef struct mrt_request {
    uint32_t id;
    uint8_t operation;
    uint8_t field_count;
    const mrt_field *fields;
} mrt_request;

// Asks the broker; the calls of mrt/requests.h spell their parameters as fields.
mrt_status mrt_request_fields(mrt_client *client, uint8_t operation, const mrt_field *fields,
    uint8_t field_count, uint64_t *id);

// Sends a packet that is not stored, with a connection only (src/client.c).
mrt_status mrt_put_direct(mrt_client *client, mrt_body body, const void *value);

// Bodies for mrt_write_packet, each with the value it takes.
uint32_t mrt_body_connect(mrt_writer *writer, const void *client);
uint32_t mrt_body_message(mrt_writer *writer, const void *numbered_message);
uint32_t mrt_body_ack(mrt_writer *writer, const void *ack);
uint32_t mrt_body_request(mrt_writer *writer, const void *request);
uint32_t mrt_body_ping(mrt_writer *writer, const void *nothing);
uint32_t mrt_body_goodbye(mrt_writer *writer, const void *goodbye);
uint32_t mrt_body_auth(mrt_writer *writer, const void *config);

// Receivers and payload, as messages and wills have them.
void mrt_write_target(mrt_writer *writer, const mrt_message *message);

// Whether a message can be spelled: lengths and enumerations. Whether ids and text obey their rules
// the broker judges, with a result.
bool mrt_is_message_valid(const mrt_message *message);
bool mrt_is_config_valid(const mrt_config *config);

// MARK: Reading

// Each takes a value off the front of `rest`. Where it is not there, or not as it has to be, all of
// it is taken: `rest->bytes` is NULL then, and the value is of no use.
void mrt_take(mrt_bytes *rest, uint32_t count, mrt_bytes *value);
uint32_t mrt_read_byte(mrt_bytes *rest);
uint64_t mrt_read_number(mrt_bytes *rest);
mrt_reason mrt_read_reason(mrt_bytes *rest);
// A stringv, and a string8 of less than 128 bytes, which is spelled the same (src/receipts.c).
void mrt_take_value(mrt_bytes *rest, mrt_bytes *value);

// The packet at the front of `bytes`: how many of them its fixed header has, and the whole of it;
// of a header that is not there yet, at least.
typedef struct mrt_frame {
    uint32_t head_count;
    uint32_t needed;
} mrt_frame;

// MRT_SUCCESS; MRT_MALFORMED_PACKET; MRT_UNSPECIFIED_ERROR where it is not all there yet.
mrt_reason mrt_read_frame(const uint8_t *bytes, uint32_t count, mrt_frame *frame);

// A packet from the broker as an event. MRT_SUCCESS, MRT_MALFORMED_PACKET or MRT_PROTOCOL_ERROR.
// `missing` bytes at the end of the body are not there: what is there is read. A refused login is
// MRT_EVENT_DISCONNECTED with the seconds of its advice as `retry_ms`.
mrt_reason mrt_decode(
    uint8_t header, const uint8_t *body, uint32_t count, uint32_t missing, mrt_event *event);

#endif
