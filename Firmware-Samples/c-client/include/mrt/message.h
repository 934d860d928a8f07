// Messages to send and received messages, as values for the program. This file knows no encoding.

#ifndef MRT_MESSAGE_H
#define MRT_MESSAGE_H

#include "mrt/types.h"

typedef enum mrt_grade {
    // At most once, to connected receivers.
    MRT_TRANSIENT = 0,
    // Not lost once the result is MRT_SENT.
    MRT_DURABLE = 1,
    // Delivered exactly once, whichever component fails.
    MRT_ONCE = 2
} mrt_grade;

typedef enum mrt_target {
    MRT_TO_USER = 0,
    MRT_TO_LIST = 1,
    MRT_TO_GROUP = 2,
    MRT_TO_EVERYBODY = 3,
    MRT_TO_TOPIC = 4
} mrt_target;

// The type of a text message, `t`. From 5 on they are the application's own.
enum {
    MRT_TYPE_TEXT = 0,
    MRT_TYPE_IMAGE = 1,
    MRT_TYPE_AUDIO = 2,
    MRT_TYPE_VIDEO = 3,
    MRT_TYPE_HTML = 4
};

// A message to send. The memory that it points to is used only during the call.
typedef struct mrt_message {
    mrt_grade grade;
    mrt_target target;
    // The user, the group or the topic. Ids have 1 to 64 bytes.
    mrt_bytes address;
    // The users of a list, 1 to 256.
    const mrt_bytes *list;
    uint32_t list_count;
    // Only to a topic: the body is any bytes, without a type.
    bool is_raw;
    // The broker keeps it in the conversation with its receivers; not with the grade transient.
    bool is_kept;
    // Only to a topic: it becomes the topic's retained message.
    bool is_retained;
    uint8_t type;
    // UTF-8. The JSON form of the message has at most 1,024 bytes (docs/PROTOCOL.md section 5).
    mrt_bytes body;
    // The result contains it; 1 to 64 bytes, or none.
    mrt_bytes message_id;
    // Seconds from acceptance until the message expires; 0 for the app's default.
    uint32_t expiry_seconds;
    // Its time of creation in Unix milliseconds; 0 if the device has no clock.
    uint64_t time_ms;
    // What the sender asks for: mrt_asks (mrt/receipts.h), or other fields as PROTOCOL.md section 5
    // spells them; at most 16,383 bytes, or none.
    mrt_bytes fields;
} mrt_message;

// A delivery (PROTOCOL.md section 5, DELIVER).
typedef enum mrt_kind {
    MRT_FROM_TOPIC = 0,
    MRT_FROM_USER = 2,
    MRT_FROM_GROUP = 3,
    MRT_FROM_BROADCAST = 4,
    MRT_FROM_KICK = 6,
    MRT_FROM_GROUP_EVENT = 7,
    MRT_FROM_PRESENCE = 8,
    // mrt_read_receipt, mrt_read_recall (mrt/receipts.h).
    MRT_FROM_RECEIPT = 9,
    MRT_FROM_RECALL = 10,
    MRT_FROM_UPDATE = 11,
    // An event of the broker for the user of a relay; the body is JSON.
    MRT_FROM_BROKER = 12
} mrt_kind;

// A received message. Its bytes are in the receive buffer and valid during the callback.
typedef struct mrt_delivery {
    mrt_kind kind;
    mrt_grade grade;
    bool is_raw;
    // The broker died between a send and its result, and the sender repeated it.
    bool is_possible_duplicate;
    // The body begins with fields, then the type: mrt_take_fields (mrt/receipts.h). Only if the
    // client declared that it accepts them.
    bool has_fields;
    // `t`, or the number of an event.
    uint8_t type;
    // Acknowledge this number after the message was processed; 0 for a transient one.
    uint64_t number;
    uint64_t time_ms;
    mrt_bytes from;
    // The topic or the group.
    mrt_bytes address;
    mrt_bytes body;
} mrt_delivery;

// The terms that the broker granted at login.
typedef struct mrt_granted {
    bool is_session_present;
    bool has_will;
    // The record has begun anew: store it.
    bool is_new_inbox;
    uint32_t keep_alive_seconds;
    uint32_t session_expiry_seconds;
    uint32_t send_window;
    uint32_t inbox_window;
    uint32_t packet_maximum;
    uint32_t message_maximum;
    uint32_t payload_maximum;
    uint64_t session_epoch;
    uint64_t cookie;
    uint64_t server_time_ms;
    mrt_bytes user;
} mrt_granted;

// The result of a send.
typedef struct mrt_result {
    mrt_bytes message_id;
    // Of a send that asked for anything and was accepted; otherwise 0.
    uint64_t reference;
    // Receivers that did not get an accepted message.
    uint64_t refused_count;
    // The named ones, for mrt_next_refusal (mrt/answers.h).
    mrt_bytes refusals;
} mrt_result;

#endif
