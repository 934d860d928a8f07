// The store-and-forward log on a flash that loses power in the middle of writes: whatever was
// stored is found again, whatever was settled durably never comes back, and the log never locks
// itself up.

#include "check.h"
#include "log.h"

enum { SECTOR = 512, SECTORS = 5, UNIT = 8, SIZE = SECTOR * SECTORS, NUMBERS = 60000 };

// MARK: Flash

typedef struct flash {
    uint8_t bytes[SIZE];
    // Halves of units that can still be written before the power goes: in a unit, or between two.
    uint32_t power;
    uint32_t erasures;
} flash;

static bool flash_read(void *context, uint32_t offset, uint8_t *bytes, uint32_t count)
{
    const flash *flash = context;
    CHECK(offset + count <= SIZE);
    memcpy(bytes, flash->bytes + offset, count);
    return true;
}

static bool flash_write(void *context, uint32_t offset, const uint8_t *bytes, uint32_t count)
{
    flash *flash = context;
    CHECK(offset % UNIT == 0 && count % UNIT == 0 && offset + count <= SIZE);
    if (offset % SECTOR == 0) {
        if (flash->power == 0) {
            return false;
        }
        memset(flash->bytes + offset, 0xFF, SECTOR);
        flash->erasures++;
    }
    for (uint32_t i = 0; i < count; i += UNIT) {
        for (uint32_t j = 0; j < UNIT; j++) {
            CHECK(flash->bytes[offset + i + j] == 0xFF);
        }
        uint32_t halves = flash->power < 2 ? flash->power : 2;
        flash->power -= halves;
        memcpy(flash->bytes + offset + i, bytes + i, halves * UNIT / 2);
        if (halves < 2) {
            return false;
        }
    }
    return true;
}

static mrt_storage storage_of(flash *flash)
{
    mrt_storage storage = {flash, SIZE, SECTOR, UNIT, flash_read, flash_write};
    return storage;
}

// MARK: Messages

// Every number has a body of its own length and content.
static mrt_message message_of(uint64_t number, uint8_t *body)
{
    mrt_message message = {.grade = MRT_DURABLE, .address = mrt_text("bob")};
    uint16_t count = (uint16_t)(number * 37 % 150);
    for (uint16_t i = 0; i < count; i++) {
        body[i] = (uint8_t)(number + i);
    }
    message.body.bytes = body;
    message.body.count = count;
    return message;
}

static mrt_status store(mrt_log *log)
{
    uint8_t body[256];
    mrt_message message = message_of(log->highest + 1, body);
    return mrt_log_append(log, &message);
}

// The packet that the log gives for a number is that of its message.
static void check_packet(mrt_log *log, uint64_t number)
{
    uint8_t body[256];
    uint8_t expected[300];
    uint8_t found[300];
    uint16_t count = 0;
    mrt_message message = message_of(number, body);
    mrt_numbered_message numbered = {&message, (uint32_t)number};
    mrt_writer writer = {.room = expected, .capacity = sizeof expected};
    mrt_write_packet(&writer, mrt_body_message, &numbered);
    while (log->rest > 0) {
        // In pieces, as a small transmit buffer takes them.
        uint32_t piece = mrt_log_copy(log, found + count, 7);
        CHECK(piece > 0);
        count = (uint16_t)(count + piece);
    }
    CHECK(count == writer.count && memcmp(found, expected, count) == 0);
}

static uint32_t seed = 1;

static uint32_t chance(uint32_t bound)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % bound;
}

// MARK: Tests

static void ram_keeps_the_order_and_wraps(void)
{
    uint8_t memory[300];
    mrt_storage storage = mrt_ram_storage(memory, sizeof memory);
    mrt_log log;
    uint32_t sent = 0;
    CHECK(mrt_log_open(&log, &storage, 7) == MRT_IDLE);
    CHECK(log.epoch == 7);
    for (int i = 0; i < 1000; i++) {
        while (store(&log) == MRT_IDLE) {
        }
        CHECK(mrt_log_next(&log, UINT32_MAX) == MRT_LOG_PACKET);
        CHECK(log.given == ++sent);
        check_packet(&log, sent);
        CHECK(mrt_log_settle(&log, sent));
        CHECK(log.seen == sent && log.marked == sent);
    }
}

static void results_may_come_in_any_order(void)
{
    uint8_t memory[4096];
    mrt_storage storage = mrt_ram_storage(memory, sizeof memory);
    mrt_log log;
    mrt_log_open(&log, &storage, 7);
    for (int i = 0; i < 6; i++) {
        CHECK(store(&log) == MRT_IDLE);
        CHECK(mrt_log_next(&log, 100) == MRT_LOG_PACKET);
        check_packet(&log, log.given);
    }
    CHECK(mrt_log_settle(&log, 3) && mrt_log_settle(&log, 2) && log.seen == 0);
    CHECK(!mrt_log_settle(&log, 2) && !mrt_log_settle(&log, 7));
    // A new connection sends what is open, and only that.
    mrt_log_rewind(&log);
    CHECK(mrt_log_next(&log, 100) == MRT_LOG_PACKET && log.given == 1);
    check_packet(&log, 1);
    CHECK(mrt_log_next(&log, 100) == MRT_LOG_PACKET && log.given == 4);
    CHECK(mrt_log_settle(&log, 1) && log.seen == 3);
    check_packet(&log, 4);
}

static void a_message_fits_a_sector_or_is_refused(void)
{
    flash flash = {.power = UINT32_MAX};
    mrt_storage storage = storage_of(&flash);
    mrt_log log;
    uint8_t body[SECTOR];
    mrt_message message = {.grade = MRT_DURABLE, .address = mrt_text("bob")};
    memset(body, 'x', sizeof body);
    message.body.bytes = body;
    CHECK(mrt_log_open(&log, &storage, 7) == MRT_IDLE);
    // A start, a head, and 10 bytes of the packet before its text.
    message.body.count = SECTOR - 24 - 16 - 10 + 1;
    CHECK(mrt_log_append(&log, &message) == MRT_ERROR_TOO_LARGE);
    message.body.count--;
    CHECK(mrt_log_append(&log, &message) == MRT_IDLE);
}

static void flipped_bits_are_found(void)
{
    flash flash = {.power = UINT32_MAX};
    mrt_storage storage = storage_of(&flash);
    mrt_log log;
    mrt_log_open(&log, &storage, 7);
    CHECK(store(&log) == MRT_IDLE && store(&log) == MRT_IDLE);
    flash.bytes[24 + 16 + 8] ^= 0x10;
    CHECK(mrt_log_open(&log, &storage, 9) == MRT_IDLE);
    CHECK(log.epoch == 7);
    CHECK(mrt_log_next(&log, 100) == MRT_LOG_DAMAGED && log.given == 1);
    CHECK(mrt_log_settle(&log, 1));
    CHECK(mrt_log_next(&log, 100) == MRT_LOG_PACKET && log.given == 2);
    check_packet(&log, 2);
}

// The first record behind one that was cut short begins where that one's last bytes are missing. It
// must not be able to supply them: of all that may stand there, one byte in 256 is right.
static void what_was_cut_short_is_never_made_whole(void)
{
    for (uint32_t i = 0; i < 4096; i++) {
        flash flash = {.power = UINT32_MAX};
        mrt_storage storage = storage_of(&flash);
        mrt_log log;
        uint8_t body[9] = {(uint8_t)i, (uint8_t)(i >> 8)};
        mrt_message message = {.grade = MRT_DURABLE, .address = mrt_text("bob")};
        message.body.bytes = body;
        message.body.count = 8;
        memset(flash.bytes, 0xFF, sizeof flash.bytes);
        CHECK(mrt_log_open(&log, &storage, 7 + i) == MRT_IDLE);
        CHECK(store(&log) == MRT_IDLE);
        // A head of 16 bytes and a packet of 9 and the body: the last byte is missing.
        flash.power = 2 * (16 + 9 + 7) / UNIT;
        CHECK(mrt_log_append(&log, &message) == MRT_ERROR_STORAGE);
        flash.power = UINT32_MAX;
        CHECK(mrt_log_open(&log, &storage, 9) == MRT_IDLE && log.highest == 1);
        message.body.count = 9;
        CHECK(mrt_log_append(&log, &message) == MRT_IDLE && log.highest == 2);
        for (int life = 0; life < 2; life++) {
            CHECK(mrt_log_next(&log, 100) == MRT_LOG_PACKET && log.given == 1);
            check_packet(&log, 1);
            CHECK(mrt_log_next(&log, 100) == MRT_LOG_PACKET && log.given == 2);
            // Its body, behind the packet's 9 bytes.
            uint8_t packet[32];
            CHECK(mrt_log_copy(&log, packet, sizeof packet) == 18);
            CHECK(memcmp(packet + 9, body, 9) == 0);
            CHECK(mrt_log_open(&log, &storage, 9) == MRT_IDLE && log.highest == 2);
        }
    }
}

// What the world outside of the device knows, for one life of the flash.
typedef struct model {
    // Numbers whose append succeeded.
    bool is_stored[NUMBERS];
    bool is_settled[NUMBERS];
    // Told to the broker: durable.
    uint64_t announced;
} model;

static void check_found(mrt_log *log, const model *model)
{
    uint64_t previous = log->seen;
    CHECK(log->seen >= model->announced);
    for (;;) {
        mrt_log_next_kind kind = mrt_log_next(log, UINT32_MAX);
        if (kind == MRT_LOG_NOTHING) {
            break;
        }
        uint32_t number = log->given;
        CHECK(number > previous);
        for (uint64_t skipped = previous + 1; skipped < number; skipped++) {
            CHECK(!model->is_stored[skipped] || model->is_settled[skipped]);
        }
        previous = number;
        if (kind == MRT_LOG_PACKET) {
            check_packet(log, number);
        } else {
            // Only what was cut off in the middle of being stored.
            CHECK(kind == MRT_LOG_DAMAGED && !model->is_stored[number]);
        }
        if (number == log->seen + MRT_LOG_WINDOW) {
            return;
        }
    }
    for (uint64_t rest = previous + 1; rest < NUMBERS; rest++) {
        CHECK(!model->is_stored[rest] || model->is_settled[rest]);
    }
}

// A life between two losses of power.
static void live(mrt_log *log, model *model)
{
    for (;;) {
        mrt_status status = MRT_IDLE;
        uint64_t open = log->highest - log->seen;
        if (chance(3) > 0) {
            uint64_t number = log->highest + 1;
            CHECK(number < NUMBERS);
            status = store(log);
            model->is_stored[number] = status == MRT_IDLE;
            CHECK(status == MRT_IDLE || status == MRT_ERROR_FULL || status == MRT_ERROR_STORAGE);
            // What is settled frees its room: the log never locks itself up.
            CHECK(status != MRT_ERROR_FULL || open > 0);
        } else if (open > 0) {
            uint64_t number = log->seen + 1 + chance(open < 8 ? (uint32_t)open : 8);
            if (mrt_log_settle(log, number)) {
                model->is_settled[number] = true;
            }
        }
        if (status != MRT_ERROR_STORAGE && chance(9) == 0) {
            status = mrt_log_mark(log);
            model->announced = status == MRT_IDLE ? log->marked : model->announced;
        }
        if (status == MRT_ERROR_STORAGE) {
            return;
        }
    }
}

static void power_may_go_at_any_write(void)
{
    static model model;
    flash flash = {.power = UINT32_MAX};
    mrt_storage storage = storage_of(&flash);
    mrt_log log;
    uint64_t epoch = 1;
    memset(flash.bytes, 0xA5, sizeof flash.bytes);
    for (int life = 0; life < 3000; life++) {
        flash.power = UINT32_MAX;
        CHECK(mrt_log_open(&log, &storage, (uint64_t)life + 1) == MRT_IDLE);
        if (log.epoch != epoch) {
            // Nothing that was stored may be forgotten by beginning anew.
            for (uint64_t number = 0; number < NUMBERS; number++) {
                CHECK(!model.is_stored[number] || model.is_settled[number]);
            }
            memset(&model, 0, sizeof model);
            epoch = log.epoch;
        }
        check_found(&log, &model);
        mrt_log_rewind(&log);
        flash.power = 1 + chance(800);
        live(&log, &model);
    }
    printf("    3000 losses of power, %u erasures, %llu messages\n", flash.erasures,
        (unsigned long long)log.highest);
    CHECK(log.highest > 1000);
}

// Settles one by one and stores whenever there is room: the log is full most of the time. The same
// scenario as in ../../embedded-swift/test/TornWrites.swift.
static void live_full(mrt_log *log, model *model)
{
    for (int work = 0; work < 14; work++) {
        mrt_status status = MRT_IDLE;
        if (work % 5 == 4) {
            uint64_t number = log->highest + 1;
            status = store(log);
            model->is_stored[number] = status == MRT_IDLE;
        } else if (log->seen < log->highest) {
            model->is_settled[log->seen + 1] = true;
            mrt_log_settle(log, log->seen + 1);
            status = mrt_log_mark(log);
        }
        if (status == MRT_ERROR_STORAGE) {
            return;
        }
    }
}

static void go_on(mrt_log *log, model *model)
{
    for (int i = 0; i < 40; i++) {
        mrt_status status = MRT_IDLE;
        while (status == MRT_IDLE) {
            uint64_t number = log->highest + 1;
            status = store(log);
            model->is_stored[number] = status == MRT_IDLE;
        }
        CHECK(status == MRT_ERROR_FULL && log->seen < log->highest);
        model->is_settled[log->seen + 1] = true;
        CHECK(mrt_log_settle(log, log->seen + 1) && mrt_log_mark(log) == MRT_IDLE);
    }
}

static void any_two_writes_may_be_torn(void)
{
    static model full, once, twice;
    flash begun = {.power = UINT32_MAX};
    mrt_storage storage = storage_of(&begun);
    mrt_log log;
    uint32_t pairs = 0;
    memset(begun.bytes, 0xFF, sizeof begun.bytes);
    memset(&full, 0, sizeof full);
    CHECK(mrt_log_open(&log, &storage, 7) == MRT_IDLE);
    go_on(&log, &full);
    bool is_first_cut = true;
    for (uint32_t first = 0; is_first_cut; first++) {
        flash torn = begun;
        mrt_storage of_torn = storage_of(&torn);
        once = full;
        CHECK(mrt_log_open(&log, &of_torn, 9) == MRT_IDLE && log.epoch == 7);
        torn.power = first;
        live_full(&log, &once);
        is_first_cut = torn.power == 0;
        bool is_second_cut = is_first_cut;
        for (uint32_t second = 0; is_second_cut; second++) {
            flash again = torn;
            mrt_storage of_again = storage_of(&again);
            twice = once;
            again.power = UINT32_MAX;
            CHECK(mrt_log_open(&log, &of_again, 9) == MRT_IDLE && log.epoch == 7);
            check_found(&log, &twice);
            mrt_log_rewind(&log);
            again.power = second;
            live_full(&log, &twice);
            is_second_cut = again.power == 0;
            again.power = UINT32_MAX;
            CHECK(mrt_log_open(&log, &of_again, 9) == MRT_IDLE && log.epoch == 7);
            check_found(&log, &twice);
            mrt_log_rewind(&log);
            go_on(&log, &twice);
            pairs++;
        }
    }
    printf("    %u pairs of torn writes\n", pairs);
}

int main(void)
{
    RUN(ram_keeps_the_order_and_wraps);
    RUN(results_may_come_in_any_order);
    RUN(a_message_fits_a_sector_or_is_refused);
    RUN(flipped_bits_are_found);
    RUN(what_was_cut_short_is_never_made_whole);
    RUN(power_may_go_at_any_write);
    RUN(any_two_writes_may_be_torn);
    return 0;
}
