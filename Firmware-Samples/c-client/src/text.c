// Words for people. Nothing else of the client refers to this file.

#include "mrt/types.h"

const char *mrt_status_text(mrt_status status)
{
    switch (status) {
    case MRT_IDLE:
        return "nothing to do";
    case MRT_WORKED:
        return "worked";
    case MRT_ERROR_FULL:
        return "the store is full";
    case MRT_ERROR_NOT_CONNECTED:
        return "not connected";
    case MRT_ERROR_TOO_LARGE:
        return "too large for a buffer or the store";
    case MRT_ERROR_INVALID:
        return "an argument is outside its range";
    case MRT_ERROR_BUSY:
        return "the transmit buffer is in use, poll and ask again";
    case MRT_ERROR_STORAGE:
        return "the storage failed";
    case MRT_ERROR_STOPPED:
        return "stopped: another attempt would fail too";
    }
    return "unknown status";
}

typedef struct reason_name {
    uint8_t reason;
    const char *name;
} reason_name;

const char *mrt_reason_text(mrt_reason reason)
{
    static const reason_name names[] = {
        {MRT_SUCCESS, "success"},
        {MRT_SENT, "sent"},
        {MRT_UNICAST_RECEIVED, "unicast received"},
        {MRT_GROUP_RECEIVED, "group received"},
        {MRT_BROADCAST_RECEIVED, "broadcast received"},
        {MRT_CONNECTED, "connected"},
        {MRT_KICKED_OUT, "kicked out"},
        {MRT_NO_SUBSCRIPTION_EXISTED, "there was none"},
        {MRT_UNSPECIFIED_ERROR, "unspecified error"},
        {MRT_MALFORMED_PACKET, "malformed packet"},
        {MRT_PROTOCOL_ERROR, "protocol error"},
        {MRT_IMPLEMENTATION_SPECIFIC_ERROR, "not offered by this broker"},
        {MRT_UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version"},
        {MRT_CLIENT_IDENTIFIER_NOT_VALID, "device id not valid"},
        {MRT_BAD_USER_NAME_OR_PASSWORD, "bad credential"},
        {MRT_NOT_AUTHORIZED, "not authorized"},
        {MRT_SERVER_UNAVAILABLE, "server unavailable"},
        {MRT_SERVER_BUSY, "server busy"},
        {MRT_BANNED, "banned"},
        {MRT_SERVER_SHUTTING_DOWN, "server shutting down"},
        {MRT_BAD_AUTHENTICATION_METHOD, "bad authentication method"},
        {MRT_KEEP_ALIVE_TIMEOUT, "silence for too long"},
        {MRT_SESSION_TAKEN_OVER, "session taken over"},
        {MRT_TOPIC_FILTER_INVALID, "topic filter invalid"},
        {MRT_TOPIC_NAME_INVALID, "no such receiver"},
        {MRT_RECEIVE_MAXIMUM_EXCEEDED, "window exceeded"},
        {MRT_PACKET_TOO_LARGE, "too large"},
        {MRT_MESSAGE_RATE_TOO_HIGH, "message rate too high"},
        {MRT_QUOTA_EXCEEDED, "quota exceeded"},
        {MRT_ADMINISTRATIVE_ACTION, "administrative action"},
        {MRT_PAYLOAD_FORMAT_INVALID, "payload format invalid"},
        {MRT_USE_ANOTHER_SERVER, "use another server"},
        {MRT_SERVER_MOVED, "server moved"},
        {MRT_CONNECTION_RATE_EXCEEDED, "connection rate exceeded"},
    };
    for (uint8_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].reason == (uint8_t)reason) {
            return names[i].name;
        }
    }
    return "unknown reason";
}
