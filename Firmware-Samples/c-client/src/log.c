// How unsent messages are kept. Everything is appended, so that flash is written strictly in order and
// each sector is erased once per lap:
//
//     | START | SEND | SEND | MARK | SEND | blank |   one sector; RAM is one endless sector
//
//     record   | u32 check | u16 body bytes | u8 kind | u8 0 | u64 number | body | u32 body check |
//     START    number: the lap; body: u64 epoch, u64 seen, u64 highest. First in each sector.
//     SEND     number: of the message; body: its packet.
//     MARK     number: everything up to it is settled. No body, no body check.
//
// Integers are little-endian, records are padded to whole units. Checks of SEND and MARK begin with the
// epoch, so that neither an older life of the flash nor a payload can pass for a record. A record that
// a loss of power cut short fails its check and is passed over.
//
// A message is not stored where it would take the last free sector: that one is for MARKs. A MARK is
// shorter than a SEND, so that the sector has room for all that it takes to settle the oldest
// sector, which frees that one: the log cannot lock itself up.

#include "log.h"

#include "crc32.h"

enum {
    HEAD_BYTES = 16,
    CHECK_BYTES = 4,
    START_BODY_BYTES = 24,
    CHUNK_BYTES = 32,

    KIND_START = 1,
    KIND_SEND = 2,
    KIND_MARK = 3,
    KIND_BLANK = 0xFF
};

typedef struct log_record {
    uint64_t number;
    uint16_t body_count;
    uint8_t kind;
} log_record;

static bool is_durable(const mrt_log *log)
{
    return log->storage->sector != 0;
}

// MARK: Bytes

static void put(uint8_t *bytes, uint64_t value, uint8_t count)
{
    for (uint8_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)value;
        value >>= 8;
    }
}

static uint64_t get(const uint8_t *bytes, uint8_t count)
{
    uint64_t value = 0;
    while (count > 0) {
        count--;
        value = (value << 8) | bytes[count];
    }
    return value;
}

// An offset from the tail as one of the storage.
static uint32_t place(const mrt_log *log, uint32_t offset)
{
    uint32_t room = log->storage->size - log->tail;
    return offset < room ? log->tail + offset : offset - room;
}

static uint32_t from_sector_start(const mrt_log *log, uint32_t offset)
{
    return is_durable(log) ? place(log, offset) % log->storage->sector : 0;
}

// RAM wraps in the middle of records; with sectors none crosses the end.
static bool read_at(const mrt_log *log, uint32_t offset, uint8_t *bytes, uint32_t count)
{
    const mrt_storage *storage = log->storage;
    uint32_t start = place(log, offset);
    uint32_t first = storage->size - start < count ? storage->size - start : count;
    return storage->read(storage->context, start, bytes, first)
        && (first == count || storage->read(storage->context, 0, bytes + first, count - first));
}

static uint32_t record_bytes(const mrt_log *log, uint32_t body_count)
{
    uint32_t unit = log->storage->unit;
    uint32_t bytes = HEAD_BYTES + (body_count > 0 ? body_count + CHECK_BYTES : 0u);
    return (bytes + unit - 1) / unit * unit;
}

static uint32_t first_check(const mrt_log *log, uint8_t kind)
{
    return kind == KIND_START ? 0 : (uint32_t)(log->epoch ^ (log->epoch >> 32));
}

// What stands at `offset` from the tail. False where it is no record; `kind` then says whether it
// is blank.
static bool read_record(const mrt_log *log, uint32_t offset, log_record *record)
{
    uint8_t head[HEAD_BYTES] = {0};
    if (!read_at(log, offset, head, HEAD_BYTES)) {
        memset(head, 0, sizeof head);
    }
    record->kind = head[6];
    record->body_count = (uint16_t)get(head + 4, 2);
    record->number = get(head + 8, 8);
    uint32_t check = mrt_crc32(first_check(log, record->kind), head + 4, HEAD_BYTES - 4);
    return check == (uint32_t)get(head, 4);
}

// Whether the body stands there as it was written.
static bool is_intact(const mrt_log *log, uint32_t offset, const log_record *record)
{
    uint8_t chunk[CHUNK_BYTES];
    uint32_t check = first_check(log, record->kind);
    uint32_t left = record->body_count;
    offset += HEAD_BYTES;
    while (left > 0) {
        uint32_t part = left < sizeof chunk ? left : sizeof chunk;
        if (!read_at(log, offset, chunk, part)) {
            return false;
        }
        check = mrt_crc32(check, chunk, part);
        offset += part;
        left -= part;
    }
    return read_at(log, offset, chunk, CHECK_BYTES) && (uint32_t)get(chunk, CHECK_BYTES) == check;
}

// MARK: Appending

static bool drain(void *context, const uint8_t *bytes, uint16_t count)
{
    mrt_log *log = context;
    const mrt_storage *storage = log->storage;
    uint32_t start = place(log, log->used);
    uint32_t first = storage->size - start < count ? storage->size - start : count;
    log->used += count;
    return storage->write(storage->context, start, bytes, first)
        && (first == count
            || storage->write(storage->context, 0, bytes + first, (uint32_t)count - first));
}

typedef struct log_body {
    mrt_body write;
    const void *value;
    uint8_t header;
    uint32_t count;
    uint32_t check;
} log_body;

static void write_body(mrt_writer *writer, const log_body *body)
{
    if (body->header != 0) {
        mrt_write_packet(writer, body->header, body->write, body->value);
    } else {
        body->write(writer, body->value);
    }
}

// Writes a record behind the others. The space is taken also where writing fails: what stands there
// then is passed over.
static mrt_status write_record(mrt_log *log, uint8_t kind, uint64_t number, const log_body *body)
{
    uint8_t chunk[CHUNK_BYTES];
    uint8_t head[HEAD_BYTES] = {0};
    uint32_t before = log->used;
    uint32_t bytes = record_bytes(log, body->count);
    mrt_writer writer = {.room = chunk, .capacity = CHUNK_BYTES, .drain = drain, .context = log};
    put(head + 4, body->count, 2);
    head[6] = kind;
    put(head + 8, number, 8);
    put(head, mrt_crc32(first_check(log, kind), head + 4, HEAD_BYTES - 4), 4);
    mrt_write(&writer, head, HEAD_BYTES);
    if (body->count > 0) {
        write_body(&writer, body);
        put(head, body->check, CHECK_BYTES);
        mrt_write(&writer, head, CHECK_BYTES);
    }
    head[0] = 0xFF;
    while (writer.total < bytes) {
        mrt_write(&writer, head, 1);
    }
    bool is_written = !writer.has_failed
        && (writer.count == 0 || drain(log, chunk, writer.count));
    log->used = before + bytes;
    return is_written ? MRT_IDLE : MRT_ERROR_STORAGE;
}

// Measures a body, and its check.
static void measure(const mrt_log *log, uint8_t kind, log_body *body)
{
    mrt_writer counter = {.has_crc = true, .crc = first_check(log, kind)};
    write_body(&counter, body);
    body->count = counter.total;
    body->check = counter.crc;
}

static void write_start_body(mrt_writer *writer, const void *value)
{
    const mrt_log *log = value;
    uint8_t bytes[START_BODY_BYTES];
    put(bytes, log->epoch, 8);
    put(bytes + 8, log->seen, 8);
    put(bytes + 16, log->highest, 8);
    mrt_write(writer, bytes, sizeof bytes);
}

static mrt_status begin_sector(mrt_log *log)
{
    log_body start = {write_start_body, log, 0, 0, 0};
    measure(log, KIND_START, &start);
    log->lap++;
    mrt_status status = write_record(log, KIND_START, log->lap, &start);
    if (status == MRT_IDLE) {
        log->marked = log->seen;
    }
    return status;
}

// Appends a record, with what has to stand before it. `reserve` bytes stay free.
static mrt_status append(
    mrt_log *log, uint8_t kind, uint64_t number, const log_body *body, uint32_t reserve)
{
    uint32_t size = log->storage->size;
    uint32_t sector = log->storage->sector;
    uint32_t bytes = record_bytes(log, body->count);
    uint32_t skipped = 0;
    uint32_t start_bytes = 0;
    if (is_durable(log)) {
        uint32_t begun = from_sector_start(log, log->used);
        start_bytes = record_bytes(log, START_BODY_BYTES);
        if (bytes > sector - start_bytes) {
            return MRT_ERROR_TOO_LARGE;
        }
        if (begun != 0 && begun + bytes <= sector) {
            start_bytes = 0;
        } else if (begun != 0) {
            skipped = sector - begun;
        }
    } else if (bytes > size) {
        return MRT_ERROR_TOO_LARGE;
    }
    uint32_t free = size - from_sector_start(log, 0) - log->used;
    if (skipped + start_bytes + bytes + reserve > free) {
        return MRT_ERROR_FULL;
    }
    log->used += skipped;
    if (start_bytes > 0) {
        mrt_status status = begin_sector(log);
        if (status != MRT_IDLE) {
            return status;
        }
    }
    return write_record(log, kind, number, body);
}

mrt_status mrt_log_append(mrt_log *log, const mrt_message *message)
{
    mrt_numbered_message numbered = {message, log->highest + 1};
    log_body packet = {mrt_body_message, &numbered, mrt_header_message(message), 0, 0};
    measure(log, KIND_SEND, &packet);
    if (packet.count > UINT16_MAX) {
        return MRT_ERROR_TOO_LARGE;
    }
    mrt_status status =
        append(log, KIND_SEND, numbered.number, &packet, log->storage->sector);
    if (status == MRT_IDLE || status == MRT_ERROR_STORAGE) {
        // Also a number whose record may stand there half is used up.
        log->highest++;
    }
    return status;
}

mrt_status mrt_log_mark(mrt_log *log)
{
    if (log->marked == log->seen) {
        return MRT_IDLE;
    }
    if (is_durable(log)) {
        const log_body nothing = {0};
        mrt_status status = append(log, KIND_MARK, log->seen, &nothing, 0);
        // Many losses of power in the middle of writes can eat up the free sector. Then a second
        // delivery after one more is the lesser evil: otherwise no number would ever be free again.
        if (status != MRT_IDLE && status != MRT_ERROR_FULL) {
            return status;
        }
    }
    log->marked = log->seen;
    return MRT_IDLE;
}

// MARK: Settling

// Whether the number is seen, or its result has come.
static bool is_settled(const mrt_log *log, uint64_t number)
{
    uint64_t distance = number - log->seen - 1;
    return number <= log->seen
        || (distance < MRT_LOG_WINDOW && ((log->answered >> distance) & 1u) != 0);
}

// The distance from the record at `offset` to what stands behind it.
static uint32_t step(const mrt_log *log, uint32_t offset, bool is_record, const log_record *record)
{
    uint32_t begun = from_sector_start(log, offset);
    uint32_t left = is_durable(log) ? log->storage->sector - begun : log->used - offset;
    if (is_record) {
        uint32_t bytes = record_bytes(log, record->body_count);
        return bytes < left ? bytes : left;
    }
    // Nothing stands behind a blank; a record that was cut short is passed over in units.
    return record->kind == KIND_BLANK && record->body_count == UINT16_MAX ? left
                                                                          : log->storage->unit;
}

// Moves the tail to the oldest message that is not settled. Every lower number is settled then,
// also those that left no record.
static void advance(mrt_log *log)
{
    uint64_t seen = log->highest;
    uint32_t offset = 0;
    while (offset < log->used) {
        log_record record;
        bool is_record = read_record(log, offset, &record);
        if (is_record && record.kind == KIND_SEND && !is_settled(log, record.number)) {
            seen = record.number - 1;
            break;
        }
        offset += step(log, offset, is_record, &record);
    }
    offset = offset < log->used ? offset : log->used;
    uint64_t distance = seen - log->seen;
    log->answered = distance < MRT_LOG_WINDOW ? log->answered >> distance : 0;
    log->seen = seen;
    log->tail = place(log, offset);
    log->used -= offset;
    log->cursor = log->cursor > offset ? log->cursor - offset : 0;
    log->rest_offset -= offset;
    if (!is_durable(log)) {
        log->marked = seen;
    }
}

bool mrt_log_settle(mrt_log *log, uint64_t number)
{
    if (number > log->highest || number > log->seen + MRT_LOG_WINDOW || is_settled(log, number)) {
        return false;
    }
    log->answered |= (uint32_t)1 << (number - log->seen - 1);
    advance(log);
    return true;
}

// MARK: Transmission

void mrt_log_rewind(mrt_log *log)
{
    log->cursor = 0;
    log->rest = 0;
}

mrt_log_next_kind mrt_log_next(
    mrt_log *log, uint64_t last, uint32_t packet_maximum, uint64_t *number)
{
    if (last > log->seen + MRT_LOG_WINDOW) {
        last = log->seen + MRT_LOG_WINDOW;
    }
    while (log->cursor < log->used) {
        log_record record;
        uint32_t offset = log->cursor;
        bool is_record = read_record(log, offset, &record);
        bool is_open = is_record && record.kind == KIND_SEND && !is_settled(log, record.number);
        if (is_open && record.number > last) {
            return MRT_LOG_NOTHING;
        }
        log->cursor += step(log, offset, is_record, &record);
        if (!is_open) {
            continue;
        }
        *number = record.number;
        if (!is_intact(log, offset, &record)) {
            return MRT_LOG_DAMAGED;
        }
        if (record.body_count > packet_maximum) {
            return MRT_LOG_TOO_LARGE;
        }
        log->rest_offset = offset + HEAD_BYTES;
        log->rest = record.body_count;
        if (record.number > log->transmitted) {
            log->transmitted = record.number;
        }
        return MRT_LOG_PACKET;
    }
    return MRT_LOG_NOTHING;
}

uint16_t mrt_log_copy(mrt_log *log, uint8_t *bytes, uint16_t count)
{
    uint16_t part = log->rest < count ? log->rest : count;
    if (part == 0 || !read_at(log, log->rest_offset, bytes, part)) {
        return 0;
    }
    log->rest_offset += part;
    log->rest = (uint16_t)(log->rest - part);
    return part;
}

// MARK: Start

// Whether the sector at `start` was begun; then its lap and what START says.
static bool read_start(
    mrt_log *log, uint32_t start, uint8_t values[START_BODY_BYTES], log_record *record)
{
    log->tail = start;
    return read_record(log, 0, record) && record->kind == KIND_START
        && record->body_count == START_BODY_BYTES && is_intact(log, 0, record)
        && read_at(log, HEAD_BYTES, values, START_BODY_BYTES);
}

// Where the last sector goes on: behind its last record, and behind whatever else is not blank. The
// tail stands at its beginning.
static uint32_t find_head(mrt_log *log)
{
    uint32_t unit = log->storage->unit;
    uint32_t end = log->storage->sector;
    bool is_blank = true;
    while (is_blank && end > 0) {
        uint8_t chunk[CHUNK_BYTES];
        if (!read_at(log, end - unit, chunk, unit)) {
            break;
        }
        for (uint32_t i = 0; i < unit; i++) {
            is_blank &= chunk[i] == 0xFF;
        }
        end -= is_blank ? unit : 0;
    }
    uint32_t offset = 0;
    while (offset < end) {
        log_record record;
        bool is_record = read_record(log, offset, &record);
        if (is_record && record.kind == KIND_SEND && record.number > log->highest) {
            log->highest = record.number;
        } else if (is_record && record.kind == KIND_MARK && record.number > log->seen) {
            log->seen = record.number;
        }
        offset += step(log, offset, is_record, &record);
    }
    return offset;
}

// Finds the sector that was begun last, and the oldest of those that lead up to it.
static bool restore(mrt_log *log)
{
    uint8_t values[START_BODY_BYTES];
    log_record start;
    uint32_t sector = log->storage->sector;
    uint32_t newest = 0;
    for (uint32_t at = 0; at < log->storage->size; at += sector) {
        if (read_start(log, at, values, &start) && start.number > log->lap) {
            log->lap = (uint32_t)start.number;
            newest = at;
            log->epoch = get(values, 8);
            log->seen = get(values + 8, 8);
            log->highest = get(values + 16, 8);
        }
    }
    if (log->lap == 0) {
        log->tail = 0;
        return false;
    }
    log->tail = newest;
    log->used = find_head(log);
    uint32_t oldest = newest;
    uint32_t before = 0;
    for (uint32_t lap = log->lap - 1; before + 2 * sector <= log->storage->size; lap--) {
        uint32_t at = oldest > 0 ? oldest - sector : log->storage->size - sector;
        if (!read_start(log, at, values, &start) || start.number != lap
            || get(values, 8) != log->epoch) {
            break;
        }
        oldest = at;
        before += sector;
    }
    log->tail = oldest;
    log->used += before;
    log->marked = log->seen;
    log->transmitted = log->highest;
    advance(log);
    return true;
}

mrt_status mrt_log_open(mrt_log *log, const mrt_storage *storage, uint64_t new_epoch)
{
    memset(log, 0, sizeof *log);
    log->storage = storage;
    bool has_sectors = storage->sector >= 256 && storage->size / storage->sector >= 3
        && storage->size % storage->sector == 0 && storage->unit > 0
        && storage->sector % storage->unit == 0;
    if (storage->unit == 0 || storage->unit > CHUNK_BYTES || CHUNK_BYTES % storage->unit != 0
        || storage->size > INT32_MAX || (is_durable(log) && !has_sectors)) {
        return MRT_ERROR_INVALID;
    }
    if (!is_durable(log) || !restore(log)) {
        log->epoch = new_epoch;
    }
    return MRT_IDLE;
}
