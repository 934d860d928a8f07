// A sensor node on a bare board, in C: samples a simulated sensor, keeps what is not sent yet and
// one record in flash, talks to a gateway over a UART, carries out commands, sleeps between. The
// same node as in ../embedded-swift.
//
// A command takes effect exactly once: number and effect go into one record of flash, in one
// programming, and only then is the command acknowledged. A power cut before that brings the
// command again; one after it does not.

#include "board.h"
#include "command.h"

#include "mrt/requests.h"
#include "ports.h"
#include "record.h"
#include "serial.h"
#include "text.h"

enum { SAMPLE_MS = 250, RECEIVE_BYTES = 512, TRANSMIT_BYTES = 256 };

// MARK: The client

static node_record record;

static mrt_client client;
static mrt_serial serial;
static bool wants_will;

static void happened(void *context, const mrt_event *event)
{
    (void)context;
    if (event->kind == MRT_EVENT_CONNECTED) {
        wants_will = !event->as.granted.has_will;
        if (event->as.granted.is_new_inbox) {
            record.inbox = mrt_current_record(&client);
            node_record_store(&record);
        }
    } else if (event->kind == MRT_EVENT_MESSAGE && event->number > 0) {
        node_execute(&client, &record, event);
    } else if (event->kind == MRT_EVENT_ANSWER && event->reason == MRT_SUCCESS) {
        // The one thing that is asked for.
        const text_line nothing = {{0}, 0};
        text_log("will kept", &nothing);
    }
}

static void set_will(void)
{
    mrt_message will = {.address = mrt_text("ops"), .body = mrt_text("lost")};
    if (mrt_set_will(&client, &will, 0, NULL) == MRT_IDLE) {
        wants_will = false;
    }
}

// MARK: The sensor

// A reading: which start of the node, which one of it, and what commands have done so far.
static void sample(uint32_t reading)
{
    text_line text = {{0}, 0};
    text_put_number(&text, record.starts);
    text_put(&text, ".");
    text_put_number(&text, reading);
    text_line whole = text;
    text_put(&whole, " executed=");
    text_put_number(&whole, record.executed);
    text_put(&whole, " sum=");
    text_put_number(&whole, record.sum);
    mrt_message message = {.grade = MRT_ONCE,
        .address = mrt_text("ops"),
        .body = {whole.bytes, whole.count}};
    if (mrt_send(&client, &message, NULL) == MRT_IDLE) {
        text_log("stored ", &text);
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
    mrt_serial_init(&serial, &node_uart);
    node_record_load(&record);
    record.starts++;
    node_record_store(&record);
    // No source of randomness on this board: the factory's seed and the count of starts.
    uint64_t seed = board_factory_seed() + record.starts * 0x9E3779B97F4A7C15u;
    uint8_t entropy[8];
    memcpy(entropy, &seed, sizeof entropy);
    if (mrt_init(&client, &config, &record.inbox, entropy) != MRT_IDLE) {
        text_line text = {{0}, 0};
        text_log("mrt_init failed", &text);
        return 1;
    }
    mrt_start(&client);
    uint32_t next = board_milliseconds();
    uint32_t reading = 0;
    for (;;) {
        uint32_t now = board_milliseconds();
        if ((int32_t)(now - next) >= 0) {
            sample(++reading);
            next += SAMPLE_MS;
        }
        if (wants_will && mrt_is_connected(&client)) {
            set_will();
        }
        if (mrt_poll(&client, now) != MRT_WORKED) {
            board_sleep();
        }
    }
}
