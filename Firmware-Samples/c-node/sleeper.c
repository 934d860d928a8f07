// A node that sleeps until it is woken, on a bare board: without a connection and without a clock.
// A datagram of martlet-gateway push ends its sleep. It connects over its line, carries out the
// commands that wait for it, each once, reports what it has done, disconnects, and sleeps again.
//
// A datagram that led to a connection does not count again, also after a power cut: its time is in
// the record. One that the owner's relay has not sent is refused, and the node sleeps on.

#include "board.h"
#include "command.h"
#include "datagrams.h"

#include "mrt/client.h"
#include "ports.h"
#include "record.h"
#include "serial.h"
#include "text.h"
#include "wake.h"

enum {
    RECEIVE_BYTES = 512,
    TRANSMIT_BYTES = 256,
    PORT = 7000,
    // In the factory's sector, behind the seed.
    KEY_OFFSET = 8,
    // After so long without a command there are no more.
    QUIET_MS = 500,
    // A broker that does not answer within a minute is not there. The datagram is repeated, or the
    // next one comes.
    AWAKE_MS = 60000
};

static mrt_client client;
static mrt_serial serial;
static node_record record;
// When the last command came, or the login.
static uint32_t last_event;

static void happened(void *context, const mrt_event *event)
{
    (void)context;
    last_event = board_milliseconds();
    if (event->kind == MRT_EVENT_CONNECTED && event->as.granted.is_new_inbox) {
        record.inbox = mrt_current_record(&client);
        node_record_store(&record);
    } else if (event->kind == MRT_EVENT_MESSAGE && event->number > 0) {
        node_execute(&client, &record, event);
    }
}

static void report(void)
{
    text_line text = {{0}, 0};
    text_put(&text, "executed=");
    text_put_number(&text, record.executed);
    text_put(&text, " sum=");
    text_put_number(&text, record.sum);
    mrt_message message = {
        .grade = MRT_ONCE, .address = mrt_text("ops"), .body = {text.bytes, text.count}};
    mrt_send(&client, &message, NULL);
}

// Polls until nothing is left to do, and sleeps for some milliseconds in between.
static void poll(void)
{
    if (mrt_poll(&client, board_milliseconds()) != MRT_WORKED) {
        board_sleep();
    }
}

// Fetches what waits. Returns whether the node was connected when nothing was left to do.
static bool fetch(void)
{
    uint32_t since = board_milliseconds();
    uint32_t reported = record.executed;
    mrt_start(&client);
    while (board_milliseconds() - since < AWAKE_MS) {
        poll();
        if (!mrt_is_connected(&client)) {
            continue;
        }
        if (board_milliseconds() - last_event < QUIET_MS) {
            continue;
        }
        // The result of a report is an event: a command that came meanwhile is reported too.
        if (reported != record.executed) {
            reported = record.executed;
            report();
        } else if (mrt_pending_count(&client) == 0) {
            break;
        }
    }
    bool was_connected = mrt_is_connected(&client);
    // The session stays. The line is closed when the last byte has left.
    mrt_leave(&client, MRT_SUCCESS, MRT_EXPIRY_DEFAULT);
    since = board_milliseconds();
    while (!mrt_is_stopped(&client) && board_milliseconds() - since < QUIET_MS * 4) {
        poll();
    }
    for (since = board_milliseconds(); board_milliseconds() - since < QUIET_MS / 4;) {
        poll();
    }
    return was_connected;
}

// Sleeps until a datagram is proven. Returns its time.
static uint64_t sleep_until_woken(const uint8_t key[MRT_WAKE_KEY])
{
    const text_line nothing = {{0}, 0};
    uint32_t wakings = 0;
    text_log("asleep", &nothing);
    for (;;) {
        uint8_t datagram[MRT_WAKE_DATAGRAM + 1];
        uint64_t time;
        uint32_t count;
        while ((count = board_datagram_read(datagram, sizeof datagram)) > 0) {
            if (mrt_wake_is_proven(key, datagram, count, record.woken, &time)) {
                text_line text = {{0}, 0};
                text_put_number(&text, wakings);
                text_log("woken ", &text);
                return time;
            }
            text_log("refused", &nothing);
        }
        wakings += board_sleep_until_frame();
    }
}

int main(void)
{
    static const mrt_transport transport = {
        &serial, mrt_serial_link, mrt_serial_send, mrt_serial_receive};
    static uint8_t receive[RECEIVE_BYTES];
    static uint8_t transmit[TRANSMIT_BYTES];
    // The gateway knows who is at the end of this line: no credential stands in the device.
    static const mrt_config config = {.transport = &transport,
        .storage = &node_storage,
        .happened = happened,
        .receive = receive,
        .receive_size = RECEIVE_BYTES,
        .transmit = transmit,
        .transmit_size = TRANSMIT_BYTES,
        .keep_alive_seconds = 10,
        .inbox_window = 4,
        .packet_maximum = RECEIVE_BYTES,
        .session_expiry_seconds = MRT_EXPIRY_DEFAULT};

    board_start();
    board_datagrams_start(PORT);
    mrt_serial_init(&serial, &node_uart);
    node_record_load(&record);
    record.starts++;
    node_record_store(&record);
    uint8_t key[MRT_WAKE_KEY];
    board_flash_read(KEY_OFFSET, key, sizeof key);
    // No source of randomness on this board: the factory's seed and the count of starts.
    uint64_t seed = board_factory_seed() + record.starts * 0x9E3779B97F4A7C15u;
    uint8_t entropy[8];
    memcpy(entropy, &seed, sizeof entropy);
    if (mrt_init(&client, &config, &record.inbox, entropy) != MRT_IDLE) {
        const text_line nothing = {{0}, 0};
        text_log("mrt_init failed", &nothing);
        return 1;
    }
    // After a start it may have missed a datagram.
    fetch();
    for (;;) {
        uint64_t time = sleep_until_woken(key);
        if (fetch()) {
            record.woken = time;
            node_record_store(&record);
        }
    }
}
