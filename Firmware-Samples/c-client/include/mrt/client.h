// The client's interface. A client is one struct and three pieces of memory, all of the caller; it
// makes no heap, no thread, and never waits. The program calls mrt_poll from its main loop and is
// told what happened through one callback.
//
// Everything runs on one task. From the callback every function but mrt_poll and mrt_init may be
// called. Other tasks hand their messages to the one that polls.
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
    // Of no interest, and never told.
    MRT_EVENT_NOTHING,
    // Logged in. `as.granted`.
    MRT_EVENT_CONNECTED,
    // The connection, or an attempt at one, is over. `reason`: the broker's or the client's own
    // judgement, MRT_SUCCESS where the line just ended. `as.ended`.
    MRT_EVENT_DISCONNECTED,
    // A message arrived. `number`, `as.delivery`. Process it; if it has a number, store the record
    // {epoch, number} with its effect, then call mrt_acknowledge.
    MRT_EVENT_MESSAGE,
    // The same for a message that the receive buffer cannot hold: `missing` bytes at its end are
    // not there. It is acknowledged like any other.
    MRT_EVENT_OVERSIZE,
    // What became of a send. `number` (0 refuses a transient one), `reason`, `as.result`.
    MRT_EVENT_RESULT,
    // A send will not be transmitted: the drop policy, or damaged storage. `number`, `reason`.
    MRT_EVENT_DROPPED,
    // The answer to a request. `number` is its id, `reason`, `as.content`. `missing` as above.
    MRT_EVENT_ANSWER,
    // The answer to mrt_authenticate. `reason`.
    MRT_EVENT_AUTHENTICATED
} mrt_event_kind;

// One thing that happened. It and all it points to are gone when the callback returns.
typedef struct mrt_event {
    mrt_event_kind kind;
    mrt_reason reason;
    uint64_t number;
    // Bytes that were cut off because the receive buffer is too small; 0 as a rule.
    uint32_t missing;
    union {
        mrt_granted granted;
        struct {
            // For people; may be empty.
            mrt_bytes text;
            // No attempt follows without mrt_start.
            bool is_final;
            // Until the next attempt.
            uint32_t retry_ms;
        } ended;
        mrt_delivery delivery;
        mrt_result result;
        mrt_bytes content;
    } as;
} mrt_event;

// What the store does with a new message when it is full. In both cases nothing is silent.
typedef enum mrt_drop_policy {
    // mrt_send says MRT_ERROR_FULL.
    MRT_REFUSE_NEW = 0,
    // While there is no connection the oldest messages make room, each with MRT_EVENT_DROPPED; a
    // store with sectors is emptied by a sector at a time. With a connection it is draining
    // anyway, and mrt_send says MRT_ERROR_FULL.
    MRT_DROP_OLDEST = 1
} mrt_drop_policy;

// Who the client is, and the memory it may use. It and all it points to outlive the client; it can
// be constant, in flash.
typedef struct mrt_config {
    const mrt_transport *transport;
    const mrt_storage *storage;
    void (*happened)(void *context, const mrt_event *event);
    void *context;

    // One packet from the broker, at least 128 bytes. 1,400 holds every text message; a longer
    // one is reported as MRT_EVENT_OVERSIZE, with its beginning.
    uint8_t *receive;
    uint32_t receive_size;
    // CONNECT, and requests and transient messages as they are: 128 bytes and the token do as a
    // rule; mrt_init says MRT_ERROR_TOO_LARGE where CONNECT does not fit. Stored messages pass
    // through in pieces and may be longer.
    uint8_t *transmit;
    uint32_t transmit_size;

    // The credential, read again for each login: a token, or app, app_key and user, or neither
    // where the transport proves the user.
    mrt_bytes token;
    mrt_bytes app;
    mrt_bytes app_key;
    mrt_bytes user;
    // Tells the devices of one user apart; 0 to 64 bytes.
    mrt_bytes device;
    // JSON about the device for the broker's statistics, such as {"fw":"1.2"}; may be empty.
    mrt_bytes info;

    // 0 asks for none.
    uint16_t keep_alive_seconds;
    // Deliveries that may be unacknowledged at a time, at least 1.
    uint16_t inbox_window;
    // Larger packets are not sent to this client: 0 for no bound, and then what does not fit the
    // receive buffer is reported, at the price of its bytes on the air; otherwise at least 128,
    // and the broker removes longer messages from this inbox and counts them.
    uint32_t packet_maximum;
    // How long the session outlives its connection: MRT_EXPIRY_DEFAULT is the app's own choice.
    uint32_t session_expiry_seconds;
    // The first login forgets the old session, its inbox and its subscriptions.
    bool is_clean_start;
    mrt_drop_policy when_full;
} mrt_config;

#define MRT_EXPIRY_DEFAULT 0xFFFFFFFEu
#define MRT_EXPIRY_NEVER 0xFFFFFFFFu

// Prepare a client: looks for unsent messages in the storage and connects to nothing yet.
//
// `record` is what the program stored last, {0, 0} for nothing. `entropy` are eight bytes from a
// cryptographic source, other ones at each start, not all zero.
//
// MRT_ERROR_INVALID, MRT_ERROR_TOO_LARGE, MRT_ERROR_STORAGE.
mrt_status mrt_init(mrt_client *client, const mrt_config *config, const mrt_record *record,
    const uint8_t entropy[8]);

// Connect, and stay connected from now on. This is an explicit login: it takes the session over
// from another connection, where later automatic ones do not.
void mrt_start(mrt_client *client);

// The heart: at most one read, one packet, one write, and one step of connecting. `now_ms` is any
// clock of milliseconds that runs on through 2^32; poll at least once in 24 days of it. Call again
// at once while it says MRT_WORKED; otherwise after a while, or when the line has something.
mrt_status mrt_poll(mrt_client *client, uint32_t now_ms);

// Milliseconds until mrt_poll has something to do even though nothing arrives: how long the device
// may sleep if its line can wake it.
uint32_t mrt_idle_ms(const mrt_client *client);

// Leave: nothing arrives afterwards. `reason` is MRT_SUCCESS, which removes the will, or
// MRT_DISCONNECT_WITH_WILL. The expiry replaces the session's; MRT_EXPIRY_DEFAULT keeps it.
void mrt_leave(mrt_client *client, mrt_reason reason, uint32_t session_expiry_seconds);

// Send a message. A numbered one goes to the store, with or without a connection, and its result
// comes as MRT_EVENT_RESULT under `number`, which may be null. A transient one goes out at once,
// and has no number.
mrt_status mrt_send(mrt_client *client, const mrt_message *message, uint64_t *number);

// Everything up to `number` has been processed, and the record is stored.
mrt_status mrt_acknowledge(mrt_client *client, uint64_t number);

// What to store with the effect of a message.
mrt_record mrt_current_record(const mrt_client *client);

// Numbered messages that have no result yet.
uint64_t mrt_pending_count(const mrt_client *client);

bool mrt_is_connected(const mrt_client *client);
// Nothing happens any more without mrt_start.
bool mrt_is_stopped(const mrt_client *client);

#endif
