// The client's interface. A client is one struct and three pieces of memory, all owned by the
// caller. It uses no heap and no thread, and never blocks. The program calls mrt_poll from its main
// loop, and one callback reports events.
//
// Everything runs on one task. The callback may call every function except mrt_poll and mrt_init.
// Other tasks pass their messages to the task that polls.
//
//     static void happened(void *context, const mrt_event *event) { ... }
//
//     mrt_init(&client, &config, &record, entropy);
//     mrt_start(&client);
//     for (;;) {
//         mrt_poll(&client, milliseconds());
//         ... the rest of the program
//     }

#ifndef MRT_CLIENT_H
#define MRT_CLIENT_H

#include "mrt/message.h"
#include "mrt/state.h"
#include "mrt/storage.h"
#include "mrt/transport.h"

typedef enum mrt_event_kind {
    // Internal, and never reported.
    MRT_EVENT_NOTHING,
    // Logged in. `as.granted`.
    MRT_EVENT_CONNECTED,
    // The connection, or an attempt to connect, has ended. `reason`: the broker's or the client's
    // own, MRT_SUCCESS if the line ended without one. `as.ended`.
    MRT_EVENT_DISCONNECTED,
    // A message arrived. `number`, `as.delivery`. Process it. If it has a number, store the record
    // {epoch, number} with its effect, then call mrt_acknowledge.
    MRT_EVENT_MESSAGE,
    // The same for a message that exceeds the receive buffer: `missing` bytes at its end were
    // discarded. It is acknowledged like any other.
    MRT_EVENT_OVERSIZE,
    // The result of a send. `number` (0 for a refused transient one), `reason`, `as.result`.
    MRT_EVENT_RESULT,
    // A send will not be transmitted: because of the drop policy, or damaged storage. `number`,
    // `reason`.
    MRT_EVENT_DROPPED,
    // The answer to a request. `number` is its id, `reason`, `as.content`. `missing` as above.
    MRT_EVENT_ANSWER,
    // The answer to mrt_authenticate. `reason`.
    MRT_EVENT_AUTHENTICATED
} mrt_event_kind;

// One event. It and all memory that it points to are invalid after the callback.
typedef struct mrt_event {
    mrt_event_kind kind;
    mrt_reason reason;
    uint64_t number;
    // Bytes that were discarded because the receive buffer is too small; usually 0.
    uint32_t missing;
    union {
        mrt_granted granted;
        struct {
            // Text for people; may be empty.
            mrt_bytes text;
            // No attempt follows without mrt_start.
            bool is_final;
            // Time until the next attempt.
            uint32_t retry_ms;
        } ended;
        mrt_delivery delivery;
        mrt_result result;
        mrt_bytes content;
    } as;
} mrt_event;

// What the store does with a new message when it is full. Both policies report it.
typedef enum mrt_drop_policy {
    // mrt_send returns MRT_ERROR_FULL.
    MRT_REFUSE_NEW = 0,
    // While there is no connection the oldest messages are dropped, each with MRT_EVENT_DROPPED; a
    // store with sectors drops a sector at a time. With a connection it is being emptied, and
    // mrt_send returns MRT_ERROR_FULL.
    MRT_DROP_OLDEST = 1
} mrt_drop_policy;

// The client's identity, and its memory. It and all memory that it points to must outlive the
// client; it may be constant, in flash.
typedef struct mrt_config {
    const mrt_transport *transport;
    const mrt_storage *storage;
    void (*happened)(void *context, const mrt_event *event);
    void *context;

    // Received bytes, at least 128: one packet. 1,400 hold every text message; a longer one is
    // reported as MRT_EVENT_OVERSIZE, with its beginning.
    uint8_t *receive;
    uint32_t receive_size;
    // CONNECT, requests and transient messages before they are sent: 128 bytes and the token
    // usually suffice; mrt_init returns MRT_ERROR_TOO_LARGE if CONNECT does not fit. Stored
    // messages pass through in pieces and may be longer.
    uint8_t *transmit;
    uint32_t transmit_size;

    // The credential, read again for each login: a token, or app, app_key and user, or neither if
    // the transport authenticates the user.
    mrt_bytes token;
    mrt_bytes app;
    mrt_bytes app_key;
    mrt_bytes user;
    // Distinguishes the devices of one user; 0 to 64 bytes.
    mrt_bytes device;
    // JSON about the device for the broker's statistics, such as {"fw":"1.2"}; may be empty.
    mrt_bytes info;
    // What the client understands beyond the first form of the protocol: mrt_accepts
    // (mrt/receipts.h), or empty.
    mrt_bytes extensions;

    // 0 for none.
    uint16_t keep_alive_seconds;
    // The maximum of unacknowledged deliveries, at least 1.
    uint16_t inbox_window;
    // The broker sends no larger packets to this client. 0 for no limit: messages that exceed the
    // receive buffer are then reported, after their bytes were transmitted. Otherwise at least 128,
    // and the broker removes longer messages from this inbox and counts them.
    uint32_t packet_maximum;
    // How long the session outlives its connection: MRT_EXPIRY_DEFAULT is the app's default.
    uint32_t session_expiry_seconds;
    // The first login discards the old session, its inbox and its subscriptions.
    bool is_clean_start;
    mrt_drop_policy when_full;
} mrt_config;

#define MRT_EXPIRY_DEFAULT 0xFFFFFFFEu
#define MRT_EXPIRY_NEVER 0xFFFFFFFFu

// Prepares a client: looks for unsent messages in the storage. It does not connect yet.
//
// `record` is the last stored record, {0, 0} for none. `entropy` are eight bytes from a
// cryptographic source, different at each start, not all zero.
//
// Errors: MRT_ERROR_INVALID, MRT_ERROR_TOO_LARGE, MRT_ERROR_STORAGE.
mrt_status mrt_init(mrt_client *client, const mrt_config *config, const mrt_record *record,
    const uint8_t entropy[8]);

// Connects, and stays connected from now on. This is an explicit login: it takes the session over
// from another connection, which later automatic logins do not.
void mrt_start(mrt_client *client);

// Performs at most one read, one packet, one write, and one step of connecting. `now_ms` is any
// clock of milliseconds that wraps at 2^32; poll at least once in 24 days. Call it again at once
// while it returns MRT_WORKED; otherwise after a while, or when the line has bytes.
mrt_status mrt_poll(mrt_client *client, uint32_t now_ms);

// Milliseconds until mrt_poll has work even if nothing arrives: how long the device may sleep if
// its line can wake it.
uint32_t mrt_idle_ms(const mrt_client *client);

// Disconnects: no more events follow. `reason` is MRT_SUCCESS, which removes the will, or
// MRT_DISCONNECT_WITH_WILL. The expiry replaces the session's; MRT_EXPIRY_DEFAULT keeps it.
void mrt_leave(mrt_client *client, mrt_reason reason, uint32_t session_expiry_seconds);

// Sends a message. A numbered one is stored, with or without a connection, and its result is
// reported as MRT_EVENT_RESULT with `number`, which may be null. A transient one is sent at once,
// and has no number.
mrt_status mrt_send(mrt_client *client, const mrt_message *message, uint64_t *number);

// Acknowledges all messages up to `number`, which have been processed, with their record stored.
mrt_status mrt_acknowledge(mrt_client *client, uint64_t number);

// The record to store with the effect of a message.
mrt_record mrt_current_record(const mrt_client *client);

// The number of numbered messages without a result.
uint64_t mrt_pending_count(const mrt_client *client);

bool mrt_is_connected(const mrt_client *client);
// True if nothing more happens without mrt_start.
bool mrt_is_stopped(const mrt_client *client);

#endif
