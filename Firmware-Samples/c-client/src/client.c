// The client as a state machine: time, bytes and calls come in, bytes and events go out. It knows
// no socket and no clock; what it keeps between calls stands in mrt_client.
//
//     STOPPED   not started, left, or stopped by a reason that forbids another attempt
//                 mrt_start -> OPENING
//     WAITING   until the next attempt; time -> OPENING
//     OPENING   the line comes up; up -> JOINING; failure, time -> WAITING
//     JOINING   CONNECT is out; CONNACK -> JOINED; refusal -> WAITING or STOPPED;
//                 loss, time -> WAITING
//     JOINED    loss -> WAITING; mrt_leave -> LEAVING
//     LEAVING   DISCONNECT is out; the broker's answer, loss, time -> STOPPED

#include "log.h"
#include "wire.h"

enum { STOPPED, WAITING, OPENING, JOINING, JOINED, LEAVING };

// Name resolution, a modem's dial-up and the TLS handshake of a small processor.
#define OPENING_MS 30000u
// The broker closes after 15 s without a login (docs/PROTOCOL.md section 1).
#define JOINING_MS 15000u
// Until the broker confirms a normal end; after that the line is taken down anyway.
#define LEAVING_MS 5000u
// Section 8, "Reconnecting".
#define BACKOFF_MS 1000u
#define BACKOFF_DOUBLINGS 7u
#define BACKOFF_MAXIMUM_MS 120000u
#define GOOD_CONNECTION_MS 60000u
// More than a day of patience is no advice any more, and would come near the clock's wrap.
#define RETRY_MAXIMUM_SECONDS 86400u
// The longest that mrt_idle_ms says: half of what the clock can tell.
#define IDLE_MAXIMUM_MS 0x7FFFFFFFu

// The clock wraps: only differences mean something.
static uint32_t since(const mrt_client *client, uint32_t moment)
{
    return client->now - moment;
}

static void begin_phase(mrt_client *client, uint32_t phase, uint32_t ms)
{
    client->phase = (uint8_t)phase;
    client->phase_since = client->now;
    client->phase_ms = ms;
}

static void tell(const mrt_client *client, const mrt_event *event)
{
    client->config->happened(client->config->context, event);
}

// Whether the line is up.
static bool is_open(const mrt_client *client)
{
    return client->phase >= JOINING;
}

// MARK: The end of a connection

// Section 10: the same attempt would fail again, or two devices would throw each other out for
// ever.
static bool forbids_retry(mrt_reason reason)
{
    switch (reason) {
    case MRT_UNSUPPORTED_PROTOCOL_VERSION:
    case MRT_CLIENT_IDENTIFIER_NOT_VALID:
    case MRT_BAD_USER_NAME_OR_PASSWORD:
    case MRT_NOT_AUTHORIZED:
    case MRT_BANNED:
    case MRT_BAD_AUTHENTICATION_METHOD:
    case MRT_SESSION_TAKEN_OVER:
    case MRT_SERVER_MOVED:
        return true;
    default:
        return false;
    }
}

// Exponential backoff with full jitter, so that a fleet does not come back in one instant. Xorshift
// (Marsaglia 2003) scatters well enough, and its state is never 0.
static uint32_t next_wait_ms(mrt_client *client)
{
    uint32_t bound = BACKOFF_MS << client->failures;
    if (bound > BACKOFF_MAXIMUM_MS) {
        bound = BACKOFF_MAXIMUM_MS;
    } else {
        client->failures++;
    }
    client->random ^= client->random << 13;
    client->random ^= client->random >> 17;
    client->random ^= client->random << 5;
    return client->random % bound;
}

// The connection, or an attempt at one, is over; the event says why, with the broker's advice in
// `retry_ms`.
static void lose(mrt_client *client, mrt_event *event)
{
    uint32_t wait = next_wait_ms(client);
    if (wait < event->as.ended.retry_ms) {
        wait = event->as.ended.retry_ms;
    }
    bool is_final = client->phase == LEAVING;
    client->stop_reason = MRT_SUCCESS;
    if (!is_final && forbids_retry(event->reason)) {
        is_final = true;
        client->stop_reason = (uint8_t)event->reason;
    }
    begin_phase(client, is_final ? STOPPED : WAITING, wait);
    event->kind = MRT_EVENT_DISCONNECTED;
    event->as.ended.is_final = is_final;
    event->as.ended.retry_ms = is_final ? 0 : wait;
    client->config->transport->link(client->config->transport->context, false);
    mrt_log_rewind(&client->log);
    tell(client, event);
}

static void lose_line(mrt_client *client, mrt_reason reason)
{
    mrt_event event = {.reason = reason};
    lose(client, &event);
}

// MARK: What leaves

// Appends a packet to the transmit buffer, whole or not at all.
static bool put_packet(mrt_client *client, mrt_body body, const void *value)
{
    const mrt_config *config = client->config;
    mrt_writer writer = {
        .room = config->transmit + client->waiting,
        .capacity = config->transmit_size - client->waiting,
    };
    mrt_write_packet(&writer, body, value);
    if (writer.has_failed) {
        return false;
    }
    client->waiting += writer.count;
    return true;
}

// A packet that is not stored goes between those that are.
mrt_status mrt_put_direct(mrt_client *client, mrt_body body, const void *value)
{
    if (client->phase != JOINED) {
        return MRT_ERROR_NOT_CONNECTED;
    }
    if (client->log.rest == 0) {
        if (put_packet(client, body, value)) {
            return MRT_IDLE;
        }
        if (client->waiting == 0) {
            return MRT_ERROR_TOO_LARGE;
        }
    }
    // The next gap is left open for the one who asks again.
    client->is_held = true;
    return MRT_ERROR_BUSY;
}

// One ACK for both numbers, as soon as one of them is due. Half of a window keeps the other side's
// memory small and never lets it wait.
static mrt_status put_ack(mrt_client *client, bool is_quiet)
{
    mrt_log *log = &client->log;
    mrt_status status = MRT_IDLE;
    // A goodbye settles everything.
    bool are_results_due = client->is_leave_due
        || (log->seen - client->announced) * 2 >= client->send_window;
    if (!are_results_due
        && (!client->is_ack_due
            || (!is_quiet && client->unacknowledged * 2 < client->inbox_window))) {
        return status;
    }
    if (are_results_due) {
        status = mrt_log_mark(log);
    }
    mrt_ack ack = {0, log->marked > client->announced ? log->marked : 0};
    if (client->is_ack_due) {
        // What was processed on an earlier connection may not have come again on this one, and
        // cannot be acknowledged before it does (section 8, "The inbox").
        ack.inbox = client->inbox.number < client->arrived ? client->inbox.number : client->arrived;
    }
    if ((client->is_ack_due || ack.results > 0) && !put_packet(client, mrt_body_ack, &ack)) {
        // There is no room: it stays due.
        return status;
    }
    client->is_ack_due = false;
    client->unacknowledged = 0;
    client->announced = log->marked;
    return status;
}

// A number that will not be transmitted is settled, and the program is told.
static void give_up(
    mrt_client *client, uint32_t number, mrt_event_kind kind, mrt_reason reason)
{
    mrt_event event = {.kind = kind, .reason = reason, .number = number};
    mrt_log_settle(&client->log, number);
    tell(client, &event);
}

// Begins the next stored message, if there is one that the window lets out.
static void begin_stored(mrt_client *client)
{
    mrt_log *log = &client->log;
    mrt_log_next_kind kind = mrt_log_next(log, client->announced + client->send_window);
    if (kind == MRT_LOG_DAMAGED) {
        give_up(client, log->given, MRT_EVENT_DROPPED, MRT_UNSPECIFIED_ERROR);
    } else if (log->rest > client->packet_maximum) {
        log->rest = 0;
        give_up(client, log->given, MRT_EVENT_RESULT, MRT_PACKET_TOO_LARGE);
    }
}

static void copy_stored(mrt_client *client)
{
    const mrt_config *config = client->config;
    uint32_t room = config->transmit_size - client->waiting;
    if (room > 0 && client->log.rest > 0) {
        uint32_t copied =
            mrt_log_copy(&client->log, config->transmit + client->waiting, room);
        client->waiting += copied;
        if (copied == 0) {
            // The storage does not give back what it holds, in the middle of a packet.
            lose_line(client, MRT_UNSPECIFIED_ERROR);
        }
    }
}

// Fills the transmit buffer: the rest of a packet that was begun, what is owed, then what is
// stored.
static mrt_status fill(mrt_client *client, bool is_quiet)
{
    mrt_status status = MRT_IDLE;
    bool was_empty = client->waiting == 0;
    copy_stored(client);
    if (client->log.rest > 0 || client->phase < JOINED) {
        return status;
    }
    if (client->phase == JOINED || client->is_leave_due) {
        status = put_ack(client, is_quiet);
    }
    // Behind the last ACK.
    if (client->is_leave_due && !client->is_ack_due) {
        mrt_goodbye goodbye = {client->leave_reason, client->leave_expiry};
        client->is_leave_due = !put_packet(client, mrt_body_goodbye, &goodbye);
    }
    if (client->is_held && was_empty) {
        client->is_held = false;
    } else if (client->phase == JOINED) {
        begin_stored(client);
        copy_stored(client);
    }
    return status;
}

static bool flush(mrt_client *client)
{
    const mrt_config *config = client->config;
    if (client->waiting == 0) {
        return false;
    }
    int32_t sent =
        config->transport->send(config->transport->context, config->transmit, client->waiting);
    if (sent < 0) {
        lose_line(client, MRT_SUCCESS);
    } else if (sent > 0) {
        client->waiting -= (uint32_t)sent;
        memmove(config->transmit, config->transmit + sent, client->waiting);
        client->last_sent = client->now;
    }
    return sent != 0;
}

// MARK: What arrives

// What stands at the front of the receive buffer is done with.
static void pass_over(mrt_client *client, uint32_t count)
{
    uint8_t *receive = client->config->receive;
    client->received -= count;
    memmove(receive, receive + count, client->received);
}

static void joined(mrt_client *client, mrt_granted *granted)
{
    granted->is_new_inbox = granted->session_epoch != client->inbox.epoch;
    if (granted->is_new_inbox) {
        client->inbox.epoch = granted->session_epoch;
        client->inbox.number = 0;
        client->delivered = 0;
    }
    client->arrived = client->inbox.number;
    client->cookie = granted->cookie;
    client->connect_flags |=
        MRT_CONNECT_AUTOMATIC | MRT_CONNECT_RESUME | MRT_CONNECT_COOKIE;
    client->send_window = granted->send_window;
    if (client->send_window > MRT_LOG_WINDOW) {
        client->send_window = MRT_LOG_WINDOW;
    }
    client->inbox_window = granted->inbox_window;
    client->keep_alive_ms = granted->keep_alive_seconds * 1000u;
    client->packet_maximum = granted->packet_maximum;
    begin_phase(client, JOINED, GOOD_CONNECTION_MS);
}

// Whether the program is to be told: it is not what came before, or after a goodbye.
static bool is_wanted(mrt_client *client, uint64_t number)
{
    if (client->phase != JOINED || number == 0) {
        return client->phase == JOINED;
    }
    client->unacknowledged++;
    if (number > client->arrived) {
        client->arrived = number;
    }
    if (number > client->delivered) {
        client->delivered = number;
        return true;
    }
    // If it was processed too, the acknowledgement was lost.
    if (number <= client->inbox.number) {
        client->is_ack_due = true;
    }
    return false;
}

// One packet from the broker, whose body begins at `head_count`; what of it is missing, is in
// `skip`.
static void understand(mrt_client *client, uint32_t head_count, uint32_t count)
{
    const uint8_t *packet = client->config->receive;
    mrt_event event;
    mrt_reason verdict = mrt_decode(
        packet[0], packet + head_count, count - head_count, client->skip, &event);
    bool is_connack = packet[0] >> 4 == MRT_TYPE_CONNACK;
    if (verdict == MRT_SUCCESS && is_connack != (client->phase == JOINING)) {
        verdict = MRT_PROTOCOL_ERROR;
    }
    if (verdict != MRT_SUCCESS) {
        lose_line(client, verdict);
        return;
    }
    if (event.kind == MRT_EVENT_MESSAGE) {
        if (!is_wanted(client, event.number)) {
            return;
        }
        if (event.missing > 0) {
            event.kind = MRT_EVENT_OVERSIZE;
        }
    } else if (event.kind == MRT_EVENT_RESULT) {
        // A second answer to what was sent twice is none.
        if (event.number > 0 && !mrt_log_settle(&client->log, event.number)) {
            return;
        }
    } else if (event.kind == MRT_EVENT_CONNECTED) {
        joined(client, &event.as.granted);
    } else if (event.kind == MRT_EVENT_DISCONNECTED) {
        if (event.as.ended.retry_ms > RETRY_MAXIMUM_SECONDS) {
            event.as.ended.retry_ms = RETRY_MAXIMUM_SECONDS;
        }
        event.as.ended.retry_ms *= 1000;
        lose(client, &event);
        return;
    }
    if (event.kind != MRT_EVENT_NOTHING) {
        tell(client, &event);
    }
}

// Handles the packet at the front of the receive buffer, if it is there as far as it will ever be.
static bool take_packet(mrt_client *client)
{
    const mrt_config *config = client->config;
    mrt_frame frame = {0, 0};
    mrt_reason verdict = mrt_read_frame(config->receive, client->received, &frame);
    if (verdict == MRT_UNSPECIFIED_ERROR && client->received < config->receive_size) {
        return false;
    }
    if (verdict >= MRT_MALFORMED_PACKET) {
        lose_line(client, verdict);
        return true;
    }
    if (frame.needed > client->received) {
        client->skip = frame.needed - client->received;
        frame.needed = client->received;
    }
    understand(client, frame.head_count, frame.needed);
    pass_over(client, frame.needed);
    return true;
}

// At most one read and one packet. True where something happened.
static bool receive(mrt_client *client)
{
    const mrt_config *config = client->config;
    if (client->skip == 0 && take_packet(client)) {
        return true;
    }
    int32_t count = config->transport->receive(config->transport->context,
        config->receive + client->received, config->receive_size - client->received);
    if (count < 0) {
        lose_line(client, MRT_SUCCESS);
    } else if (count > 0) {
        client->last_received = client->now;
        client->is_ping_open = false;
        client->received += (uint32_t)count;
        if (client->skip > 0) {
            // The rest of a packet that does not fit.
            uint32_t passed = client->received < client->skip ? client->received : client->skip;
            client->skip -= passed;
            pass_over(client, passed);
        } else {
            take_packet(client);
        }
    }
    return count != 0;
}

// MARK: Time

static void open_line(mrt_client *client)
{
    const mrt_transport *transport = client->config->transport;
    int32_t state = transport->link(transport->context, true);
    if (state < 0) {
        lose_line(client, MRT_SUCCESS);
    } else if (state > 0) {
        client->received = 0;
        client->skip = 0;
        client->unacknowledged = 0;
        client->is_ack_due = false;
        client->is_ping_open = false;
        client->is_held = false;
        client->last_received = client->now;
        client->last_sent = client->now;
        begin_phase(client, JOINING, JOINING_MS);
        client->announced = client->log.marked;
        client->waiting = 0;
        put_packet(client, mrt_body_connect, client);
    }
}

// Milliseconds until a ping is due, or its answer is overdue; not above 0 where that is now.
// Silence of either side counts: a client that only sends would otherwise never learn that nobody
// listens.
static int32_t keep_alive_left(const mrt_client *client)
{
    uint32_t limit = client->keep_alive_ms;
    uint32_t quiet = since(client, client->last_sent);
    if (limit == 0) {
        return INT32_MAX;
    }
    if (client->is_ping_open) {
        limit /= 2;
        quiet = since(client, client->ping_since);
    } else if (quiet < since(client, client->last_received)) {
        quiet = since(client, client->last_received);
    }
    return (int32_t)(limit - quiet);
}

static void keep_alive(mrt_client *client)
{
    if (client->phase != JOINED || keep_alive_left(client) > 0) {
        return;
    }
    if (client->is_ping_open) {
        lose_line(client, MRT_KEEP_ALIVE_TIMEOUT);
        return;
    }
    // Where the line is stuck and takes nothing, no ping fits, and none is needed: the clock runs
    // all the same.
    if (client->log.rest == 0) {
        put_packet(client, mrt_body_ping, NULL);
    }
    client->is_ping_open = true;
    client->ping_since = client->now;
}

mrt_status mrt_poll(mrt_client *client, uint32_t now_ms)
{
    client->now = now_ms;
    bool is_over = since(client, client->phase_since) >= client->phase_ms;
    if (client->phase == STOPPED) {
        return client->stop_reason == MRT_SUCCESS ? MRT_IDLE : MRT_ERROR_STOPPED;
    }
    if (client->phase == JOINED) {
        if (is_over) {
            client->failures = 0;
        }
    } else if (is_over) {
        if (client->phase == WAITING) {
            begin_phase(client, OPENING, OPENING_MS);
        } else {
            lose_line(client, MRT_KEEP_ALIVE_TIMEOUT);
        }
        return MRT_WORKED;
    }
    if (client->phase == OPENING) {
        open_line(client);
    }
    if (!is_open(client)) {
        return MRT_IDLE;
    }
    bool has_worked = receive(client);
    mrt_status status = is_open(client) ? fill(client, !has_worked) : MRT_IDLE;
    keep_alive(client);
    if (is_open(client)) {
        has_worked |= flush(client);
    }
    return status == MRT_IDLE && has_worked ? MRT_WORKED : status;
}

uint32_t mrt_idle_ms(const mrt_client *client)
{
    int32_t left = (int32_t)(client->phase_ms - since(client, client->phase_since));
    if (client->phase == STOPPED) {
        return INT32_MAX;
    }
    if (client->phase == JOINED) {
        left = keep_alive_left(client);
    }
    return left > 0 ? (uint32_t)left : 0;
}

// MARK: Calls

mrt_status mrt_init(mrt_client *client, const mrt_config *config, const mrt_record *record,
    const uint8_t entropy[8])
{
    uint64_t epoch;
    memcpy(&epoch, entropy, sizeof epoch);
    if (!mrt_is_config_valid(config) || epoch == 0) {
        return MRT_ERROR_INVALID;
    }
    memset(client, 0, sizeof *client);
    client->config = config;
    client->inbox = *record;
    client->delivered = record->number;
    client->connect_flags = MRT_CONNECT_OUTBOX;
    if (record->epoch != 0) {
        client->connect_flags |= MRT_CONNECT_RESUME;
    }
    client->random = (uint32_t)(epoch ^ (epoch >> 32)) | 1u;
    mrt_status status = mrt_log_open(&client->log, config->storage, epoch);
    // A login is tried, and thrown away; later ones have a resume, a cookie and longer numbers.
    if (status == MRT_IDLE
        && (!put_packet(client, mrt_body_connect, client)
            || client->waiting + MRT_CONNECT_GROWTH > config->transmit_size)) {
        status = MRT_ERROR_TOO_LARGE;
    }
    return status;
}

void mrt_start(mrt_client *client)
{
    if (client->phase <= WAITING) {
        client->failures = 0;
        client->connect_flags &= (uint8_t)~MRT_CONNECT_AUTOMATIC;
        // The first poll brings the time, and begins.
        begin_phase(client, WAITING, 0);
    }
}

void mrt_leave(mrt_client *client, mrt_reason reason, uint32_t session_expiry_seconds)
{
    uint32_t phase = client->phase;
    if (phase == JOINED) {
        client->leave_reason = (uint8_t)reason;
        client->leave_expiry = session_expiry_seconds;
        client->is_leave_due = true;
        begin_phase(client, LEAVING, LEAVING_MS);
    } else if (phase == OPENING || phase == JOINING) {
        client->phase = LEAVING;
        lose_line(client, MRT_SUCCESS);
    } else if (phase == WAITING) {
        client->phase = STOPPED;
    }
}

mrt_status mrt_send(mrt_client *client, const mrt_message *message, uint64_t *number)
{
    mrt_log *log = &client->log;
    if (!mrt_is_message_valid(message)) {
        return MRT_ERROR_INVALID;
    }
    if (message->grade == MRT_TRANSIENT) {
        mrt_numbered_message transient = {message, 0};
        return mrt_put_direct(client, mrt_body_message, &transient);
    }
    mrt_status status = mrt_log_append(log, message);
    // The oldest open number stands at the tail. One that was transmitted without a result is given
    // up too: the next login says so.
    while (status == MRT_ERROR_FULL && client->config->when_full == MRT_DROP_OLDEST
        && !is_open(client) && log->seen < log->highest) {
        give_up(client, log->seen + 1, MRT_EVENT_DROPPED, MRT_QUOTA_EXCEEDED);
        status = mrt_log_append(log, message);
    }
    if (status == MRT_IDLE && number != NULL) {
        *number = log->highest;
    }
    return status;
}

mrt_status mrt_acknowledge(mrt_client *client, uint64_t number)
{
    if (number > client->delivered) {
        return MRT_ERROR_INVALID;
    }
    if (number > client->inbox.number) {
        client->inbox.number = number;
        client->is_ack_due = true;
    }
    return MRT_IDLE;
}

mrt_record mrt_current_record(const mrt_client *client)
{
    return client->inbox;
}

uint64_t mrt_pending_count(const mrt_client *client)
{
    uint32_t count = client->log.highest - client->log.seen;
    for (uint32_t bits = client->log.answered; bits != 0; bits &= bits - 1) {
        count--;
    }
    return count;
}

bool mrt_is_connected(const mrt_client *client)
{
    return client->phase == JOINED;
}

bool mrt_is_stopped(const mrt_client *client)
{
    return client->phase == STOPPED;
}
