// The client as a state machine: time, bytes and calls come in, bytes and events go out. It knows no
// socket and no clock; what it keeps between calls stands in mrt_client.
//
//     STOPPED   not started, left, or stopped by a reason that forbids another attempt
//                 mrt_start -> OPENING
//     WAITING   until the next attempt; time -> OPENING
//     OPENING   the line comes up; up -> JOINING; failure, time -> WAITING
//     JOINING   CONNECT is out; CONNACK -> JOINED; refusal -> WAITING, STOPPED; loss, time -> WAITING
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
// An ACK of two numbers of nine bytes, the longest that the client owes the broker.
#define OWED_BYTES 20u

// The clock wraps: only differences mean something.
static uint32_t since(const mrt_client *client, uint32_t moment)
{
    return client->now - moment;
}

static void begin_phase(mrt_client *client, uint8_t phase, uint32_t ms)
{
    client->phase = phase;
    client->phase_since = client->now;
    client->phase_ms = ms;
}

static void tell(mrt_client *client, mrt_event_kind kind, mrt_reason reason, uint64_t number)
{
    mrt_event event = {.kind = kind, .reason = reason, .number = number};
    client->config->happened(client->config->context, &event);
}

static bool is_open(const mrt_client *client)
{
    return client->phase == JOINING || client->phase == JOINED || client->phase == LEAVING;
}

// MARK: The end of a connection

// Section 10: the same attempt would fail again, or two devices would throw each other out for ever.
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
    bound = bound < BACKOFF_MAXIMUM_MS ? bound : BACKOFF_MAXIMUM_MS;
    if (client->failures < BACKOFF_DOUBLINGS) {
        client->failures++;
    }
    client->random ^= client->random << 13;
    client->random ^= client->random >> 17;
    client->random ^= client->random << 5;
    return client->random % (bound + 1);
}

static void lose(mrt_client *client, mrt_reason reason, uint32_t retry_after, mrt_bytes text)
{
    mrt_event event = {.kind = MRT_EVENT_DISCONNECTED, .reason = reason};
    bool is_final = client->phase == LEAVING || forbids_retry(reason);
    if (is_final) {
        client->stop_reason = client->phase == LEAVING ? MRT_SUCCESS : (uint8_t)reason;
        begin_phase(client, STOPPED, 0);
    } else {
        uint32_t advice = retry_after < RETRY_MAXIMUM_SECONDS ? retry_after : RETRY_MAXIMUM_SECONDS;
        uint32_t wait = next_wait_ms(client);
        begin_phase(client, WAITING, advice * 1000 > wait ? advice * 1000 : wait);
    }
    client->config->transport->link(client->config->transport->context, false);
    mrt_log_rewind(&client->log);
    event.as.ended.text = text;
    event.as.ended.is_final = is_final;
    event.as.ended.retry_ms = client->phase_ms;
    client->config->happened(client->config->context, &event);
}

static void lose_line(mrt_client *client, mrt_reason reason)
{
    const mrt_bytes nothing = {0};
    lose(client, reason, 0, nothing);
}

// MARK: What leaves

// Moves what is not sent yet to the front, and says what is free behind it.
static uint16_t transmit_room(mrt_client *client)
{
    uint8_t *buffer = client->config->transmit;
    uint16_t waiting = (uint16_t)(client->transmit_end - client->transmit_start);
    if (client->transmit_start > 0) {
        memmove(buffer, buffer + client->transmit_start, waiting);
        client->transmit_start = 0;
        client->transmit_end = waiting;
    }
    return (uint16_t)(client->config->transmit_size - waiting);
}

// Appends a packet to the transmit buffer, whole or not at all.
static bool put_packet(mrt_client *client, uint8_t header, mrt_body body, const void *value)
{
    mrt_writer writer = {.capacity = transmit_room(client)};
    writer.room = client->config->transmit + client->transmit_end;
    mrt_write_packet(&writer, header, body, value);
    if (!writer.has_failed) {
        client->transmit_end = (uint16_t)(client->transmit_end + writer.count);
    }
    return !writer.has_failed;
}

static bool put_connect(mrt_client *client)
{
    mrt_connect connect = {
        .config = client->config,
        .resume = client->inbox,
        .outbox_epoch = client->log.epoch,
        .results_seen = client->log.marked,
        .highest_used = client->log.transmitted > client->log.marked ? client->log.transmitted
                                                                     : client->log.marked,
        .cookie = client->cookie,
        .has_cookie = client->has_cookie,
        .has_outbox = true,
        .is_clean_start = client->config->is_clean_start && !client->has_logged_in,
        .is_automatic = client->is_automatic,
    };
    client->announced = client->log.marked;
    client->transmit_start = 0;
    client->transmit_end = 0;
    return put_packet(client, MRT_TYPE_CONNECT << 4, mrt_body_connect, &connect);
}

// A packet that is not stored: it waits for a gap between those that are.
static mrt_status put_direct(
    mrt_client *client, uint8_t header, mrt_body body, const void *value)
{
    if (client->phase != JOINED) {
        return MRT_ERROR_NOT_CONNECTED;
    }
    if (client->log.rest > 0 || !put_packet(client, header, body, value)) {
        // The next gap is left open for the one who asks again.
        client->is_held = true;
        return client->log.rest == 0 && client->transmit_end == 0 ? MRT_ERROR_TOO_LARGE
                                                                  : MRT_ERROR_BUSY;
    }
    client->is_held = false;
    return MRT_IDLE;
}

// One ACK for both numbers, as soon as one of them is due. Half of a window keeps the other side's
// memory small and never lets it wait.
static mrt_status put_ack(mrt_client *client, bool is_quiet)
{
    mrt_log *log = &client->log;
    mrt_ack ack = {0};
    bool is_inbox_due = client->is_ack_due
        && (is_quiet || client->unacknowledged * 2u >= client->inbox_window);
    if ((log->seen - client->announced) * 2 >= client->send_window) {
        mrt_status status = mrt_log_mark(log);
        if (status != MRT_IDLE) {
            return status;
        }
    } else if (!is_inbox_due) {
        return MRT_IDLE;
    }
    if (client->is_ack_due) {
        // What was processed on an earlier connection may not have come again on this one, and
        // cannot be acknowledged before it does (section 8, "The inbox").
        ack.inbox = client->inbox.number < client->arrived ? client->inbox.number : client->arrived;
    }
    ack.results = log->marked > client->announced ? log->marked : 0;
    if ((ack.inbox == 0 && ack.results == 0)
        || put_packet(client, mrt_header_ack(&ack), mrt_body_ack, &ack)) {
        client->is_ack_due = false;
        client->unacknowledged = 0;
        client->announced = log->marked;
    }
    return MRT_IDLE;
}

// Begins the next stored message, if there is one that the window lets out.
static bool begin_stored(mrt_client *client)
{
    uint64_t number = 0;
    switch (mrt_log_next(
        &client->log, client->announced + client->send_window, client->packet_maximum, &number)) {
    case MRT_LOG_PACKET:
        return true;
    case MRT_LOG_TOO_LARGE:
        mrt_log_settle(&client->log, number);
        tell(client, MRT_EVENT_RESULT, MRT_PACKET_TOO_LARGE, number);
        break;
    case MRT_LOG_DAMAGED:
        mrt_log_settle(&client->log, number);
        tell(client, MRT_EVENT_DROPPED, MRT_UNSPECIFIED_ERROR, number);
        break;
    case MRT_LOG_NOTHING:
        break;
    }
    return false;
}

static void copy_stored(mrt_client *client)
{
    uint16_t room = transmit_room(client);
    uint16_t copied =
        mrt_log_copy(&client->log, client->config->transmit + client->transmit_end, room);
    client->transmit_end = (uint16_t)(client->transmit_end + copied);
    if (copied == 0 && room > 0 && client->log.rest > 0) {
        // The storage does not give back what it holds, in the middle of a packet.
        lose_line(client, MRT_UNSPECIFIED_ERROR);
    }
}

// Fills the transmit buffer: the rest of a packet that was begun, what is owed, then what is stored.
static mrt_status fill(mrt_client *client, bool is_quiet)
{
    mrt_status status = MRT_IDLE;
    if (client->log.rest > 0) {
        copy_stored(client);
    }
    if (client->log.rest > 0 || !is_open(client) || client->phase == JOINING) {
        return status;
    }
    if (transmit_room(client) >= OWED_BYTES) {
        status = put_ack(client, is_quiet || client->is_leave_due);
        mrt_goodbye goodbye = {client->leave_reason, client->leave_expiry};
        if (client->is_leave_due && transmit_room(client) >= OWED_BYTES) {
            client->is_leave_due =
                !put_packet(client, MRT_TYPE_DISCONNECT << 4, mrt_body_goodbye, &goodbye);
        }
    }
    if (client->is_held && client->transmit_end == 0) {
        client->is_held = false;
    } else if (client->phase == JOINED && transmit_room(client) > 0 && begin_stored(client)) {
        copy_stored(client);
    }
    return status;
}

static bool flush(mrt_client *client)
{
    const mrt_transport *transport = client->config->transport;
    uint32_t waiting = (uint32_t)client->transmit_end - client->transmit_start;
    if (waiting == 0 || !is_open(client)) {
        return false;
    }
    int32_t sent = transport->send(
        transport->context, client->config->transmit + client->transmit_start, waiting);
    if (sent < 0 || (uint32_t)sent > waiting) {
        lose_line(client, MRT_SUCCESS);
        return true;
    }
    if (sent > 0) {
        client->transmit_start = (uint16_t)(client->transmit_start + sent);
        client->last_sent = client->now;
    }
    return sent > 0;
}

// MARK: What arrives

static void joined(mrt_client *client, const mrt_granted *granted)
{
    mrt_event event = {.kind = MRT_EVENT_CONNECTED, .reason = MRT_CONNECTED};
    event.as.connected.granted = *granted;
    event.as.connected.is_new_inbox = granted->session_epoch != client->inbox.epoch;
    if (event.as.connected.is_new_inbox) {
        client->inbox.epoch = granted->session_epoch;
        client->inbox.number = 0;
        client->delivered = 0;
    }
    client->arrived = client->inbox.number;
    client->cookie = granted->cookie;
    client->has_cookie = true;
    client->has_logged_in = true;
    client->is_automatic = true;
    client->send_window = granted->send_window < MRT_LOG_WINDOW ? granted->send_window
                                                                : (uint16_t)MRT_LOG_WINDOW;
    client->inbox_window = granted->inbox_window;
    client->keep_alive_seconds = granted->keep_alive_seconds;
    client->packet_maximum = granted->packet_maximum;
    begin_phase(client, JOINED, 0);
    client->config->happened(client->config->context, &event);
}

static void delivered(mrt_client *client, const mrt_packet *packet, uint32_t missing)
{
    uint64_t number = packet->number;
    if (number > 0) {
        // The broker keeps to the window, which fits.
        client->unacknowledged++;
        client->arrived = number > client->arrived ? number : client->arrived;
        if (number <= client->delivered) {
            // It came before. If it was processed too, the acknowledgement was lost.
            client->is_ack_due |= number <= client->inbox.number;
            return;
        }
        client->delivered = number;
    }
    mrt_event event = {
        .kind = missing > 0 ? MRT_EVENT_OVERSIZE : MRT_EVENT_MESSAGE,
        .reason = (mrt_reason)packet->as.delivery.kind,
        .number = number,
        .missing = missing,
    };
    event.as.delivery = packet->as.delivery;
    client->config->happened(client->config->context, &event);
}

static void answered(mrt_client *client, const mrt_packet *packet, uint32_t missing)
{
    mrt_event event = {
        .kind = MRT_EVENT_ANSWER,
        .reason = packet->reason,
        .number = packet->number,
        .missing = missing,
    };
    event.as.content = packet->as.content;
    if (packet->type == MRT_TYPE_RESULT) {
        // A second answer to what was sent twice is none.
        if (packet->number > 0 && !mrt_log_settle(&client->log, packet->number)) {
            return;
        }
        event.kind = MRT_EVENT_RESULT;
        event.as.result = packet->as.result;
    }
    client->config->happened(client->config->context, &event);
}

// One packet from the broker, of which `missing` bytes at the end did not fit.
static void understand(
    mrt_client *client, const mrt_frame *frame, uint16_t body_count, uint32_t missing)
{
    mrt_packet packet;
    const uint8_t *body = client->config->receive + frame->head_count;
    mrt_reason verdict = mrt_decode(frame->header, body, body_count, missing > 0, &packet);
    if (verdict == MRT_SUCCESS
        && (packet.type == MRT_TYPE_CONNACK) != (client->phase == JOINING)) {
        verdict = MRT_PROTOCOL_ERROR;
    }
    if (verdict != MRT_SUCCESS) {
        lose_line(client, verdict);
        return;
    }
    switch (packet.type) {
    case MRT_TYPE_CONNACK:
        if (packet.reason == MRT_CONNECTED) {
            joined(client, &packet.as.granted);
        } else {
            lose(client, packet.reason, packet.as.refused.retry_after_seconds,
                packet.as.refused.text);
        }
        break;
    case MRT_TYPE_DELIVER:
        // After a goodbye nothing arrives any more; what is numbered comes again next time.
        if (client->phase == JOINED) {
            delivered(client, &packet, missing);
        }
        break;
    case MRT_TYPE_RESULT:
    case MRT_TYPE_RESPONSE:
        answered(client, &packet, missing);
        break;
    case MRT_TYPE_AUTH:
        tell(client, MRT_EVENT_AUTHENTICATED, packet.reason, 0);
        break;
    case MRT_TYPE_DISCONNECT:
        lose(client, packet.reason, 0, packet.as.content);
        break;
    default:
        break;
    }
}

// Handles the packet at the front of the receive buffer, if it is there as far as it will ever be.
static bool take_packet(mrt_client *client)
{
    const mrt_config *config = client->config;
    mrt_frame frame;
    uint32_t total = 0;
    mrt_reason verdict = mrt_read_frame(config->receive, client->received, &frame, &total);
    if (verdict == MRT_UNSPECIFIED_ERROR && client->received < config->receive_size) {
        return false;
    }
    if (verdict == MRT_MALFORMED_PACKET) {
        lose_line(client, MRT_MALFORMED_PACKET);
        return true;
    }
    if (config->packet_maximum != 0 && total > config->packet_maximum) {
        lose_line(client, MRT_PACKET_TOO_LARGE);
        return true;
    }
    uint16_t there = total < client->received ? (uint16_t)total : client->received;
    client->skip = total - there;
    understand(client, &frame, (uint16_t)(there - frame.head_count), client->skip);
    client->received = (uint16_t)(client->received - there);
    memmove(config->receive, config->receive + there, client->received);
    return true;
}

// At most one read and one packet. True where something happened.
static bool receive(mrt_client *client)
{
    const mrt_config *config = client->config;
    if (client->skip == 0 && client->received > 0 && take_packet(client)) {
        return true;
    }
    uint32_t room = (uint32_t)config->receive_size - client->received;
    int32_t count = config->transport->receive(
        config->transport->context, config->receive + client->received, room);
    if (count < 0 || (uint32_t)count > room) {
        lose_line(client, MRT_SUCCESS);
        return true;
    }
    if (count == 0) {
        return false;
    }
    client->last_received = client->now;
    client->is_ping_open = false;
    if (client->skip > 0) {
        // The rest of a packet that does not fit.
        uint32_t passed = (uint32_t)count < client->skip ? (uint32_t)count : client->skip;
        client->skip -= passed;
        client->received = (uint16_t)((uint32_t)count - passed);
        memmove(config->receive, config->receive + passed, client->received);
    } else {
        client->received = (uint16_t)(client->received + count);
        take_packet(client);
    }
    return true;
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
        put_connect(client);
    }
}

// Silence of either side counts: a client that only sends would otherwise never learn that nobody
// listens.
static uint32_t quiet_ms(const mrt_client *client)
{
    uint32_t sent = since(client, client->last_sent);
    uint32_t received = since(client, client->last_received);
    return sent > received ? sent : received;
}

static void keep_alive(mrt_client *client)
{
    uint32_t keep_alive_ms = client->keep_alive_seconds * 1000u;
    if (keep_alive_ms == 0 || client->phase != JOINED) {
        return;
    }
    if (client->is_ping_open) {
        if (since(client, client->ping_since) >= keep_alive_ms / 2) {
            lose_line(client, MRT_KEEP_ALIVE_TIMEOUT);
        }
    } else if (quiet_ms(client) >= keep_alive_ms) {
        // Where the line is stuck and takes nothing, no ping fits, and none is needed: the clock
        // runs all the same.
        if (client->log.rest == 0) {
            put_packet(client, MRT_TYPE_PINGREQ << 4, mrt_body_nothing, NULL);
        }
        client->is_ping_open = true;
        client->ping_since = client->now;
    }
}

mrt_status mrt_poll(mrt_client *client, uint32_t now_ms)
{
    client->now = now_ms;
    bool is_over = since(client, client->phase_since) >= client->phase_ms;
    switch (client->phase) {
    case STOPPED:
        return client->stop_reason == MRT_SUCCESS ? MRT_IDLE : MRT_ERROR_STOPPED;
    case WAITING:
        if (is_over) {
            begin_phase(client, OPENING, OPENING_MS);
        }
        return is_over ? MRT_WORKED : MRT_IDLE;
    case OPENING:
        if (is_over) {
            lose_line(client, MRT_KEEP_ALIVE_TIMEOUT);
        } else {
            open_line(client);
        }
        return client->phase == OPENING ? MRT_IDLE : MRT_WORKED;
    case JOINED:
        if (is_over && since(client, client->phase_since) >= GOOD_CONNECTION_MS) {
            client->failures = 0;
        }
        break;
    default:
        if (is_over) {
            lose_line(client, MRT_KEEP_ALIVE_TIMEOUT);
            return MRT_WORKED;
        }
        break;
    }
    bool has_worked = receive(client);
    mrt_status status = is_open(client) ? fill(client, !has_worked) : MRT_IDLE;
    keep_alive(client);
    has_worked |= flush(client);
    return status != MRT_IDLE ? status : has_worked ? MRT_WORKED : MRT_IDLE;
}

uint32_t mrt_idle_ms(const mrt_client *client)
{
    uint32_t limit = client->phase_ms;
    uint32_t spent = since(client, client->phase_since);
    if (client->phase == STOPPED) {
        return IDLE_MAXIMUM_MS;
    }
    if (client->phase == JOINED) {
        limit = client->keep_alive_seconds * 1000u;
        spent = quiet_ms(client);
        if (limit == 0) {
            return IDLE_MAXIMUM_MS;
        }
        if (client->is_ping_open) {
            limit /= 2;
            spent = since(client, client->ping_since);
        }
    }
    return spent < limit ? limit - spent : 0;
}

// MARK: Calls

mrt_status mrt_init(mrt_client *client, const mrt_config *config, const mrt_record *record,
    const uint8_t entropy[8])
{
    uint64_t epoch = 0;
    for (uint8_t i = 0; i < 8; i++) {
        epoch = (epoch << 8) | entropy[i];
    }
    if (!mrt_is_config_valid(config) || epoch == 0) {
        return MRT_ERROR_INVALID;
    }
    memset(client, 0, sizeof *client);
    client->config = config;
    client->inbox = *record;
    client->delivered = record->number;
    client->random = (uint32_t)(epoch ^ (epoch >> 32)) | 1u;
    mrt_status status = mrt_log_open(&client->log, config->storage, epoch);
    // A login with all its parts is tried, and thrown away: later ones are not longer.
    client->has_cookie = true;
    if (status == MRT_IDLE && !put_connect(client)) {
        status = MRT_ERROR_TOO_LARGE;
    }
    client->has_cookie = false;
    return status;
}

mrt_status mrt_start(mrt_client *client)
{
    if (client->phase == STOPPED || client->phase == WAITING) {
        client->failures = 0;
        client->is_automatic = false;
        client->stop_reason = MRT_SUCCESS;
        // The first poll brings the time, and begins.
        begin_phase(client, WAITING, 0);
    }
    return MRT_IDLE;
}

mrt_status mrt_leave(mrt_client *client, mrt_reason reason, uint32_t session_expiry_seconds)
{
    switch (client->phase) {
    case JOINED:
        client->leave_reason = (uint8_t)reason;
        client->leave_expiry = session_expiry_seconds;
        client->is_leave_due = true;
        begin_phase(client, LEAVING, LEAVING_MS);
        break;
    case OPENING:
    case JOINING:
        begin_phase(client, LEAVING, 0);
        lose_line(client, MRT_SUCCESS);
        break;
    case WAITING:
        begin_phase(client, STOPPED, 0);
        break;
    default:
        break;
    }
    return MRT_IDLE;
}

mrt_status mrt_send(mrt_client *client, const mrt_message *message, uint64_t *number)
{
    if (!mrt_is_message_valid(message)) {
        return MRT_ERROR_INVALID;
    }
    mrt_status status = MRT_IDLE;
    if (message->grade == MRT_TRANSIENT) {
        mrt_numbered_message transient = {message, 0};
        status = put_direct(client, mrt_header_message(message), mrt_body_message, &transient);
    } else {
        mrt_log *log = &client->log;
        status = mrt_log_append(log, message);
        // The oldest open number stands at the tail. One that was transmitted without a result is
        // given up too: the next login says so.
        while (status == MRT_ERROR_FULL && client->config->when_full == MRT_DROP_OLDEST
            && !is_open(client) && log->seen < log->highest) {
            uint64_t oldest = log->seen + 1;
            mrt_log_settle(log, oldest);
            tell(client, MRT_EVENT_DROPPED, MRT_QUOTA_EXCEEDED, oldest);
            status = mrt_log_append(log, message);
        }
    }
    if (status == MRT_IDLE && number != NULL) {
        *number = message->grade == MRT_TRANSIENT ? 0 : client->log.highest;
    }
    return status;
}

mrt_status mrt_request_fields(mrt_client *client, uint8_t operation, const mrt_field *fields,
    uint8_t field_count, uint64_t *id)
{
    mrt_request request = {(uint64_t)client->request_id + 1, operation, field_count, fields};
    mrt_status status =
        put_direct(client, MRT_TYPE_REQUEST << 4, mrt_body_request, &request);
    if (status == MRT_IDLE) {
        client->request_id++;
        if (id != NULL) {
            *id = request.id;
        }
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
    uint64_t count = client->log.highest - client->log.seen;
    for (uint32_t bits = client->log.answered; bits != 0; bits &= bits - 1) {
        count--;
    }
    return count;
}

bool mrt_is_connected(const mrt_client *client)
{
    return client->phase == JOINED;
}

mrt_status mrt_authenticate(mrt_client *client, mrt_bytes token)
{
    mrt_config proof = {.token = token};
    if (token.count == 0) {
        return MRT_ERROR_INVALID;
    }
    return put_direct(client, MRT_TYPE_AUTH << 4, mrt_body_auth, &proof);
}
