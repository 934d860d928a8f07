// Receipts, and messages that their sender takes back or changes (docs/PROTOCOL.md sections 5 and
// 6): what a sender asks for and is told, and what an actuator answers. Each function is linked
// only if it is called.
//
// A sender sets `fields` of a message to mrt_asks, and reads its receipts with mrt_read_receipt. A
// receiver that answers sets `extensions` of its configuration to mrt_accepts, finds the
// message's reference with mrt_take_fields, and answers with mrt_tell_applied.
//
// All returned bytes are in the event and valid during the callback. The functions that read return
// false for what is malformed, and for what this client does not know: acknowledge it all the same.

#ifndef MRT_RECEIPTS_H
#define MRT_RECEIPTS_H

#include "mrt/client.h"

// MARK: Asking

// What a send asks for; they can be combined.
enum {
    // The message's reference, in its result.
    MRT_ASK_REFERENCE = 1,
    // A receipt when a device of the receiver has acknowledged the message.
    MRT_ASK_DELIVERED = 2,
    // A receipt when the receiver's application has answered.
    MRT_ASK_APPLIED = 4
};

// The fields of a message that asks: 1 to 7, any of the bits above. The broker refuses other
// values. Only for numbered messages to a user, a list or a group.
mrt_bytes mrt_asks(uint32_t asks);

// MARK: Receiving

// The value of mrt_config.extensions: the broker then sends fields with its deliveries, and recalls
// and updates.
//
//     .extensions = {mrt_accepts, sizeof mrt_accepts}
extern const uint8_t mrt_accepts[3];

// The fields of a delivery by their ids. Those that are absent have no bytes.
enum {
    // Eight bytes, for mrt_field_number: names the message in mrt_tell_applied and in mrt_recall.
    MRT_FIELD_REFERENCE = 2,
    // A number: the receipts that the sender asked for, MRT_ASK_DELIVERED and MRT_ASK_APPLIED.
    MRT_FIELD_RECEIPTS = 4,
    // A number: a group message mentions this user by name (1) or all members (2).
    MRT_FIELD_MENTIONED = 6,
    // Keys and values in turn, for mrt_next_string (mrt/answers.h).
    MRT_FIELD_ATTRIBUTES = 8,
    // A number, 1: the time is that of a reading which its sender could not send earlier.
    MRT_FIELD_LATE = 10,

    MRT_FIELD_COUNT = 11
};

typedef struct mrt_fields {
    mrt_bytes values[MRT_FIELD_COUNT];
} mrt_fields;

// Takes the fields off the front of a delivery's body, then its type. A delivery without fields
// stays as it is. Not for MRT_EVENT_OVERSIZE, whose end is missing.
bool mrt_take_fields(mrt_delivery *delivery, mrt_fields *fields);

// The value of a field that is a number, of at most eight bytes; 0 if it is absent.
uint64_t mrt_field_number(mrt_bytes value);

// Tells the sender what became of a message that asked for it: code 0 is done, 0x80 and above a
// failure; the application defines the others. Text for people, at most 128 bytes. The first answer
// of this user counts, so that it may be repeated: keep it until MRT_EVENT_ANSWER has the id.
mrt_status mrt_tell_applied(
    mrt_client *client, uint64_t reference, uint8_t code, mrt_bytes text, uint64_t *id);

// MARK: What the sender is told

typedef enum mrt_receipt_kind {
    MRT_RECEIPT_DELIVERED = 1,
    MRT_RECEIPT_APPLIED = 2,
    // How many members of a group; the receipt's `address` is the group.
    MRT_RECEIPT_COUNTS = 3
} mrt_receipt_kind;

// Applied includes failed; members are those but the sender.
enum {
    MRT_COUNT_DELIVERED,
    MRT_COUNT_APPLIED,
    MRT_COUNT_FAILED,
    MRT_COUNT_MEMBERS,

    MRT_COUNTS
};

// A delivery of kind MRT_FROM_RECEIPT. It is from the receiver, and has the time of the fact.
typedef struct mrt_receipt {
    mrt_receipt_kind kind;
    // Of MRT_RECEIPT_APPLIED: what the receiver told.
    uint8_t code;
    // Of MRT_RECEIPT_COUNTS: how many members, by MRT_COUNT_DELIVERED and so on.
    uint32_t counts[MRT_COUNTS];
    uint64_t reference;
    // The sender's own, maybe empty.
    mrt_bytes message_id;
    // The receiver's device, maybe empty; or the group.
    mrt_bytes address;
    mrt_bytes text;
} mrt_receipt;

bool mrt_read_receipt(const mrt_delivery *delivery, mrt_receipt *receipt);

// MARK: Recalled and replaced messages

// A delivery of kind MRT_FROM_RECALL: its sender takes back a message that this user was sent
// before. Of kind MRT_FROM_UPDATE: the message has another content from now on. What the broker can
// still take out of a queue, or replace there, causes no event.
typedef struct mrt_recall {
    // The group of the message; empty for one to this user.
    mrt_bytes group;
    uint64_t reference;
    // The sender's own, maybe empty.
    mrt_bytes message_id;
    // 0: by its sender.
    uint8_t code;
    // Why, for people; maybe empty.
    mrt_bytes detail;
    // Of an update: the new content.
    uint8_t type;
    mrt_bytes body;
} mrt_recall;

bool mrt_read_recall(const mrt_delivery *delivery, mrt_recall *recall);

#endif
