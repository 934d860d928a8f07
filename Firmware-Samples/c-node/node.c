// A sensor node on a bare board, in C: samples a simulated sensor, keeps what is not sent yet and
// one record in flash, talks to a gateway over a UART, carries out commands, sleeps between. The
// same node as in ../embedded-swift.
//
// A command takes effect exactly once: number and effect go into one record of flash, in one
// programming, and only then is the command acknowledged. A power cut before that brings the
// command again; one after it does not.

#include "board.h"

#include "crc32.h"
#include "mrt/requests.h"
#include "serial.h"

enum { SAMPLE_MS = 250, RECEIVE_BYTES = 512, TRANSMIT_BYTES = 256 };

// MARK: The record

// Sectors of flash: the factory's, two for the record, the rest for messages.
enum { RECORD_SECTOR = 1, RING_SECTOR = 3, RING_SECTORS = 8 };

// What the node knows after a power cut: 40 bytes, programmed at once.
typedef struct node_record {
    // The resume record: docs/PROTOCOL.md section 8.
    mrt_record inbox;
    // How often this record was written: the highest that is whole is the last.
    uint32_t sequence;
    uint32_t starts;
    // The effect of the commands: how many there were, and their sum.
    uint32_t executed;
    uint32_t sum;
    uint32_t unused;
    uint32_t check;
} node_record;

static node_record record;
// Where the next one goes, in records, counted over both sectors.
static uint32_t record_place;

enum { RECORDS_PER_SECTOR = BOARD_FLASH_SECTOR / sizeof(node_record) };

static uint32_t offset_of(uint32_t place)
{
    return (RECORD_SECTOR + place / RECORDS_PER_SECTOR) * (uint32_t)BOARD_FLASH_SECTOR
        + place % RECORDS_PER_SECTOR * (uint32_t)sizeof(node_record);
}

static uint32_t check_of(const node_record *of)
{
    return mrt_crc32(0, (const uint8_t *)of, sizeof *of - sizeof of->check);
}

static void load_record(void)
{
    for (uint32_t place = 0; place < 2 * RECORDS_PER_SECTOR; place++) {
        node_record found;
        board_flash_read(offset_of(place), (uint8_t *)&found, sizeof found);
        if (found.check == check_of(&found) && found.sequence > record.sequence) {
            record = found;
            record_place = place + 1;
        }
    }
    // What a power cut left behind it is passed over: a whole sector is free at most once.
    while (record_place % RECORDS_PER_SECTOR != 0) {
        uint8_t bytes[sizeof(node_record)];
        board_flash_read(offset_of(record_place), bytes, sizeof bytes);
        uint32_t i = 0;
        while (i < sizeof bytes && bytes[i] == 0xFF) {
            i++;
        }
        if (i == sizeof bytes) {
            return;
        }
        record_place++;
    }
}

static void store_record(void)
{
    record_place %= 2 * RECORDS_PER_SECTOR;
    if (record_place % RECORDS_PER_SECTOR == 0) {
        // The other sector holds the last record while this one is erased.
        board_flash_erase(offset_of(record_place));
    }
    record.sequence++;
    record.check = check_of(&record);
    board_flash_program(offset_of(record_place), (const uint8_t *)&record, sizeof record);
    record_place++;
}

// MARK: Text

// Decimal numbers and words, without the weight of printf.
typedef struct line {
    uint8_t bytes[64];
    uint32_t count;
} line;

static void put_text(line *to, const char *text)
{
    while (*text != '\0') {
        to->bytes[to->count++] = (uint8_t)*text++;
    }
}

static void put_number(line *to, uint32_t number)
{
    uint8_t digits[10];
    uint32_t count = 0;
    do {
        digits[count++] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0) {
        to->bytes[to->count++] = digits[--count];
    }
}

static void say(const char *text, const line *rest)
{
    board_log((const uint8_t *)text, (uint32_t)strlen(text));
    board_log(rest->bytes, rest->count);
    board_log((const uint8_t *)"\n", 1);
}

// MARK: The client

static mrt_client client;
static mrt_serial serial;
static bool wants_will;

static uint32_t uart_write(void *context, const uint8_t *bytes, uint32_t count)
{
    (void)context;
    return board_write(bytes, count);
}

static uint32_t uart_read(void *context, uint8_t *bytes, uint32_t count)
{
    (void)context;
    return board_read(bytes, count);
}

static uint32_t uart_milliseconds(void *context)
{
    (void)context;
    return board_milliseconds();
}

static bool ring_read(void *context, uint32_t offset, uint8_t *bytes, uint32_t count)
{
    (void)context;
    board_flash_read(RING_SECTOR * BOARD_FLASH_SECTOR + offset, bytes, count);
    return true;
}

static bool ring_write(void *context, uint32_t offset, const uint8_t *bytes, uint32_t count)
{
    (void)context;
    offset += RING_SECTOR * BOARD_FLASH_SECTOR;
    if (offset % BOARD_FLASH_SECTOR == 0) {
        board_flash_erase(offset);
    }
    board_flash_program(offset, bytes, count);
    return true;
}

// The text of a command is a number.
static void execute(const mrt_event *event)
{
    uint32_t number = 0;
    const mrt_bytes body = event->as.delivery.body;
    for (uint32_t i = 0; i < body.count && body.bytes[i] >= '0' && body.bytes[i] <= '9'; i++) {
        number = number * 10 + (uint32_t)(body.bytes[i] - '0');
    }
    record.executed++;
    record.sum += number;
    record.inbox = mrt_current_record(&client);
    record.inbox.number = event->number;
    store_record();
    mrt_acknowledge(&client, event->number);
    line text = {{0}, 0};
    put_number(&text, number);
    say("executed ", &text);
}

static void happened(void *context, const mrt_event *event)
{
    (void)context;
    if (event->kind == MRT_EVENT_CONNECTED) {
        wants_will = !event->as.granted.has_will;
        if (event->as.granted.is_new_inbox) {
            record.inbox = mrt_current_record(&client);
            store_record();
        }
    } else if (event->kind == MRT_EVENT_MESSAGE && event->number > 0) {
        execute(event);
    } else if (event->kind == MRT_EVENT_ANSWER && event->reason == MRT_SUCCESS) {
        // The one thing that is asked for.
        const line nothing = {{0}, 0};
        say("will kept", &nothing);
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
    line text = {{0}, 0};
    put_number(&text, record.starts);
    put_text(&text, ".");
    put_number(&text, reading);
    line whole = text;
    put_text(&whole, " executed=");
    put_number(&whole, record.executed);
    put_text(&whole, " sum=");
    put_number(&whole, record.sum);
    mrt_message message = {.grade = MRT_ONCE,
        .address = mrt_text("ops"),
        .body = {whole.bytes, whole.count}};
    if (mrt_send(&client, &message, NULL) == MRT_IDLE) {
        say("stored ", &text);
    }
}

int main(void)
{
    static const mrt_uart uart = {NULL, uart_write, uart_read, uart_milliseconds};
    static const mrt_transport transport = {
        &serial, mrt_serial_link, mrt_serial_send, mrt_serial_receive};
    static const mrt_storage storage = {NULL, RING_SECTORS * BOARD_FLASH_SECTOR,
        BOARD_FLASH_SECTOR, BOARD_FLASH_UNIT, ring_read, ring_write};
    static uint8_t receive[RECEIVE_BYTES];
    static uint8_t transmit[TRANSMIT_BYTES];
    // The gateway knows who is at the end of this line: no credential stands in the device.
    static const mrt_config config = {.transport = &transport,
        .storage = &storage,
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
    mrt_serial_init(&serial, &uart);
    load_record();
    record.starts++;
    store_record();
    // No source of randomness on this board: the factory's seed and the count of starts.
    uint64_t seed = board_factory_seed() + record.starts * 0x9E3779B97F4A7C15u;
    uint8_t entropy[8];
    memcpy(entropy, &seed, sizeof entropy);
    if (mrt_init(&client, &config, &record.inbox, entropy) != MRT_IDLE) {
        line text = {{0}, 0};
        say("mrt_init failed", &text);
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
