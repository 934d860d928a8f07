// The basic types of the client's interface: borrowed bytes, reason codes, results of calls. It
// knows no packets and no connections.

#ifndef MRT_TYPES_H
#define MRT_TYPES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// Borrowed bytes. Text is UTF-8 and not terminated.
typedef struct mrt_bytes {
    const uint8_t *bytes;
    uint32_t count;
} mrt_bytes;

// The bytes of a terminated string.
static inline mrt_bytes mrt_text(const char *text)
{
    mrt_bytes bytes = {(const uint8_t *)text, (uint32_t)strlen(text)};
    return bytes;
}

// The result of a call. 0 and above is success; below 0 nothing was done.
typedef enum mrt_status {
    // Success, or nothing to do.
    MRT_IDLE = 0,
    // mrt_poll: there was work, and there may be more.
    MRT_WORKED = 1,
    // The store is full, and the drop policy makes no room.
    MRT_ERROR_FULL = -1,
    // A transient send or a request without a connection.
    MRT_ERROR_NOT_CONNECTED = -2,
    // Too large for the buffer or the store.
    MRT_ERROR_TOO_LARGE = -3,
    // An argument is outside its range.
    MRT_ERROR_INVALID = -4,
    // The transmit buffer is in use: poll, then try again.
    MRT_ERROR_BUSY = -5,
    // The storage callback failed.
    MRT_ERROR_STORAGE = -6,
    // The broker reported that another attempt would fail too: mrt_start begins again.
    MRT_ERROR_STOPPED = -7
} mrt_status;

// A reason (docs/PROTOCOL.md section 10). Below 0x80 is success.
typedef enum mrt_reason {
    MRT_SUCCESS = 0x00,
    MRT_SENT = 1,
    MRT_UNICAST_RECEIVED = 2,
    MRT_GROUP_RECEIVED = 3,
    MRT_BROADCAST_RECEIVED = 4,
    MRT_DISCONNECT_WITH_WILL = 4,
    MRT_CONNECTED = 5,
    MRT_KICKED_OUT = 6,
    MRT_NO_SUBSCRIPTION_EXISTED = 0x11,
    MRT_UNSPECIFIED_ERROR = 0x80,
    MRT_MALFORMED_PACKET = 0x81,
    MRT_PROTOCOL_ERROR = 0x82,
    MRT_IMPLEMENTATION_SPECIFIC_ERROR = 0x83,
    MRT_UNSUPPORTED_PROTOCOL_VERSION = 0x84,
    MRT_CLIENT_IDENTIFIER_NOT_VALID = 0x85,
    MRT_BAD_USER_NAME_OR_PASSWORD = 0x86,
    MRT_NOT_AUTHORIZED = 0x87,
    MRT_SERVER_UNAVAILABLE = 0x88,
    MRT_SERVER_BUSY = 0x89,
    MRT_BANNED = 0x8A,
    MRT_SERVER_SHUTTING_DOWN = 0x8B,
    MRT_BAD_AUTHENTICATION_METHOD = 0x8C,
    MRT_KEEP_ALIVE_TIMEOUT = 0x8D,
    MRT_SESSION_TAKEN_OVER = 0x8E,
    MRT_TOPIC_FILTER_INVALID = 0x8F,
    MRT_TOPIC_NAME_INVALID = 0x90,
    MRT_RECEIVE_MAXIMUM_EXCEEDED = 0x93,
    MRT_PACKET_TOO_LARGE = 0x95,
    MRT_MESSAGE_RATE_TOO_HIGH = 0x96,
    MRT_QUOTA_EXCEEDED = 0x97,
    MRT_ADMINISTRATIVE_ACTION = 0x98,
    MRT_PAYLOAD_FORMAT_INVALID = 0x99,
    MRT_USE_ANOTHER_SERVER = 0x9C,
    MRT_SERVER_MOVED = 0x9D,
    MRT_CONNECTION_RATE_EXCEEDED = 0x9F
} mrt_reason;

// Text for people and logs, in a file of its own (src/text.c), so that it costs nothing if it is
// not called.
const char *mrt_status_text(mrt_status status);
const char *mrt_reason_text(mrt_reason reason);

#endif
