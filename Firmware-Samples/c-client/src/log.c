// How unsent messages are kept. Everything is appended, so that flash is written strictly in order
// and each sector is erased once per lap:
//
//     | HIGH | SEEN | START | SEND | SEND | SEEN | SEND | blank |     a sector
//
//     record   | u32 check | u16 count | u8 kind | u8 0 | u64 number |
//     SEND     a message: | body of `count` bytes, its packet | u32 check of the body |
//     SEEN     everything up to `number` is settled
//     HIGH     numbers up to `number` were given
//     START    the sector is begun: `number` is the epoch, `count` the lap
//
// RAM is one endless sector without marks. Integers are little-endian, records are padded to whole
// units. Checks begin with the epoch, but for START, so that neither an older life of the flash nor
// a payload can pass for a record. A record that a loss of power cut short fails its check and is
// passed over.
//
// A message is not stored where it would take the last free sector: that one is for SEEN. A SEEN is
// shorter than a SEND, so that the sector has room for all that it takes to settle the oldest
// sector, which frees that one: the log cannot lock itself up.

#include "log.h"

#include "crc32.h"

enum {
    HEAD_BYTES = 16,
    CHECK_BYTES = 4,
    CHUNK_BYTES = 32,

    KIND_START = 1,
    KIND_SEND = 2,
    KIND_SEEN = 3,
    KIND_HIGH = 4,

    // HIGH, SEEN and START.
    STATE_RECORDS = 3
};

typedef struct log_record {
    uint64_t number;
    // From the tail.
    uint32_t offset;
    uint32_t count;
    uint32_t kind;
    bool is_blank;
} log_record;

// A firmware that keeps its messages in RAM only says so with MRT_VOLATILE_ONLY, and does not pay
// for the rest.
static bool is_durable(const mrt_log *log)
{
#ifdef MRT_VOLATILE_ONLY
    (void)log;
    return false;
#else
    return log->storage->sector != 0;
#endif
}

// MARK: Bytes

static void put(uint8_t *bytes, uint64_t value, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)value;
        value >>= 8;
    }
}

static uint64_t get(const uint8_t *bytes, uint32_t count)
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

static uint32_t first_check(const mrt_log *log, uint32_t kind)
{
    return kind == KIND_START ? 0 : (uint32_t)(log->epoch ^ (log->epoch >> 32));
}

static uint32_t head_check(const mrt_log *log, const uint8_t head[HEAD_BYTES])
{
    return mrt_crc32(first_check(log, head[6]), head + CHECK_BYTES, HEAD_BYTES - CHECK_BYTES);
}

// What stands at `offset`. False where it is no record.
static bool read_record(const mrt_log *log, uint32_t offset, log_record *record)
{
    uint8_t head[HEAD_BYTES] = {0};
    bool is_read = read_at(log, offset, head, HEAD_BYTES);
    record->offset = offset;
    record->count = (uint32_t)get(head + 4, 2);
    record->kind = head[6];
    record->number = get(head + 8, 8);
    // Its whole first unit: of one that was cut short only the check may stand there.
    record->is_blank = get(head, 8) == UINT64_MAX;
    return is_read && head_check(log, head) == (uint32_t)get(head, CHECK_BYTES);
}

// The next record from `*offset` on, which moves behind it. False at `end`, and with what is cut
// short or blank passed over.
static bool next_record(const mrt_log *log, uint32_t *offset, uint32_t end, log_record *record)
{
    bool is_found = false;
    while (!is_found && *offset < end) {
        uint32_t left = end - *offset;
        uint32_t bytes = log->storage->unit;
        if (is_durable(log)) {
            uint32_t of_sector = log->storage->sector - from_sector_start(log, *offset);
            left = of_sector < left ? of_sector : left;
        }
        is_found = read_record(log, *offset, record);
        if (is_found) {
            bytes = record_bytes(log, record->kind == KIND_SEND ? record->count : 0);
        } else if (record->is_blank) {
            // Nothing stands behind a blank.
            bytes = left;
        }
        *offset += bytes < left ? bytes : left;
    }
    return is_found;
}

// Whether the body of a SEND stands there as it was written.
static bool is_intact(const mrt_log *log, const log_record *record)
{
    uint8_t chunk[CHUNK_BYTES];
    uint32_t check = first_check(log, KIND_SEND);
    uint32_t offset = record->offset + HEAD_BYTES;
    uint32_t left = record->count;
    bool is_read = true;
    while (left > 0 && is_read) {
        uint32_t part = left < sizeof chunk ? left : sizeof chunk;
        is_read = read_at(log, offset, chunk, part);
        check = mrt_crc32(check, chunk, part);
        offset += part;
        left -= part;
    }
    return is_read && read_at(log, offset, chunk, CHECK_BYTES)
        && (uint32_t)get(chunk, CHECK_BYTES) == check;
}

// MARK: Appending

static bool drain(void *context, const uint8_t *bytes, uint32_t count)
{
    mrt_log *log = context;
    const mrt_storage *storage = log->storage;
    uint32_t start = place(log, log->used);
    uint32_t first = storage->size - start < count ? storage->size - start : count;
    log->used += count;
    return storage->write(storage->context, start, bytes, first)
        && (first == count || storage->write(storage->context, 0, bytes + first, count - first));
}

// What goes into a record; of a SEND also its body, and the check of that.
typedef struct log_entry {
    const mrt_numbered_message *message;
    uint64_t number;
    uint32_t count;
    uint32_t check;
    uint8_t kind;
} log_entry;

static void write_packet(mrt_writer *writer, const mrt_numbered_message *message)
{
    mrt_write_packet(writer, mrt_header_message(message->message), mrt_body_message, message);
}

// Writes a record behind the others. The space is taken also where writing fails: what stands there
// then is passed over.
static mrt_status write_record(mrt_log *log, const log_entry *entry)
{
    uint8_t chunk[CHUNK_BYTES];
    uint8_t head[HEAD_BYTES] = {0};
    uint32_t before = log->used;
    uint32_t bytes = record_bytes(log, entry->message != NULL ? entry->count : 0);
    mrt_writer writer = {.room = chunk, .capacity = CHUNK_BYTES, .drain = drain, .context = log};
    put(head + 4, entry->count, 2);
    head[6] = entry->kind;
    put(head + 8, entry->number, 8);
    put(head, head_check(log, head), CHECK_BYTES);
    mrt_write(&writer, head, HEAD_BYTES);
    if (entry->message != NULL) {
        write_packet(&writer, entry->message);
        put(head, entry->check, CHECK_BYTES);
        mrt_write(&writer, head, CHECK_BYTES);
    }
    head[0] = 0xFF;
    while (writer.total < bytes) {
        mrt_write(&writer, head, 1);
    }
    if (writer.count > 0 && !writer.has_failed) {
        writer.has_failed = !drain(log, chunk, writer.count);
    }
    log->used = before + bytes;
    return writer.has_failed ? MRT_ERROR_STORAGE : MRT_IDLE;
}

static mrt_status begin_sector(mrt_log *log)
{
    const log_entry high = {.kind = KIND_HIGH, .number = log->highest};
    const log_entry seen = {.kind = KIND_SEEN, .number = log->seen};
    const log_entry start = {
        .kind = KIND_START, .number = log->epoch, .count = (uint16_t)(log->lap + 1)};
    // START comes last: without it the sector does not count.
    mrt_status status = write_record(log, &high);
    if (status == MRT_IDLE) {
        status = write_record(log, &seen);
    }
    if (status == MRT_IDLE) {
        status = write_record(log, &start);
    }
    if (status == MRT_IDLE) {
        log->lap++;
        log->marked = log->seen;
    }
    return status;
}

// Appends a record, with what has to stand before it. `reserve` bytes stay free.
static mrt_status append(mrt_log *log, const log_entry *entry, uint32_t reserve)
{
    uint32_t sector = log->storage->sector;
    uint32_t bytes = record_bytes(log, entry->message != NULL ? entry->count : 0);
    uint32_t before = 0;
    uint32_t state_bytes = STATE_RECORDS * record_bytes(log, 0);
    uint32_t begun = from_sector_start(log, log->used);
    bool begins_sector = is_durable(log) && (begun == 0 || begun + bytes > sector);
    if (bytes > (is_durable(log) ? sector - state_bytes : log->storage->size)) {
        return MRT_ERROR_TOO_LARGE;
    }
    if (begins_sector) {
        before = begun > 0 ? sector - begun : 0;
        bytes += state_bytes;
    }
    uint32_t free = log->storage->size - from_sector_start(log, 0) - log->used;
    if (before + bytes + reserve > free) {
        return MRT_ERROR_FULL;
    }
    log->used += before;
    mrt_status status = begins_sector ? begin_sector(log) : MRT_IDLE;
    return status == MRT_IDLE ? write_record(log, entry) : status;
}

mrt_status mrt_log_append(mrt_log *log, const mrt_message *message)
{
    mrt_numbered_message numbered = {message, log->highest + 1};
    mrt_writer counter = {.has_crc = true, .crc = first_check(log, KIND_SEND)};
    write_packet(&counter, &numbered);
    const log_entry entry = {&numbered, numbered.number, counter.total, counter.crc, KIND_SEND};
    mrt_status status = entry.count > UINT16_MAX ? MRT_ERROR_TOO_LARGE
                                                 : append(log, &entry, log->storage->sector);
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
        const log_entry seen = {.kind = KIND_SEEN, .number = log->seen};
        mrt_status status = append(log, &seen, 0);
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

// Moves the tail to the oldest message that is not settled. Every lower number is settled then,
// also those that left no record.
static void advance(mrt_log *log)
{
    uint64_t seen = log->highest;
    uint32_t tail = log->used;
    uint32_t offset = 0;
    log_record record;
    while (tail == log->used && next_record(log, &offset, log->used, &record)) {
        if (record.kind == KIND_SEND && !is_settled(log, record.number)) {
            seen = record.number - 1;
            tail = record.offset;
        }
    }
    uint64_t distance = seen - log->seen;
    log->answered = distance < MRT_LOG_WINDOW ? log->answered >> distance : 0;
    log->seen = seen;
    log->tail = place(log, tail);
    log->used -= tail;
    log->cursor = log->cursor > tail ? log->cursor - tail : 0;
    log->rest_offset -= tail;
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
    log_record record;
    uint32_t offset = log->cursor;
    if (last > log->seen + MRT_LOG_WINDOW) {
        last = log->seen + MRT_LOG_WINDOW;
    }
    while (next_record(log, &offset, log->used, &record)) {
        if (record.kind != KIND_SEND || is_settled(log, record.number)) {
            continue;
        }
        if (record.number > last) {
            return MRT_LOG_NOTHING;
        }
        log->cursor = offset;
        *number = record.number;
        if (!is_intact(log, &record)) {
            return MRT_LOG_DAMAGED;
        }
        if (record.count > packet_maximum) {
            return MRT_LOG_TOO_LARGE;
        }
        log->rest_offset = record.offset + HEAD_BYTES;
        log->rest = record.count;
        if (record.number > log->transmitted) {
            log->transmitted = record.number;
        }
        return MRT_LOG_PACKET;
    }
    return MRT_LOG_NOTHING;
}

uint32_t mrt_log_copy(mrt_log *log, uint8_t *bytes, uint32_t count)
{
    uint32_t part = log->rest < count ? log->rest : count;
    if (part == 0 || !read_at(log, log->rest_offset, bytes, part)) {
        return 0;
    }
    log->rest_offset += part;
    log->rest -= part;
    return part;
}

// MARK: Start

// Moves the tail to the beginning of a sector. False where that was not begun.
static bool read_start(mrt_log *log, uint32_t at, log_record *start)
{
    log->tail = at;
    return read_record(log, (STATE_RECORDS - 1) * record_bytes(log, 0), start)
        && start->kind == KIND_START && start->number != 0;
}

// Where the last sector, which the tail begins, goes on: behind its last record, and behind
// whatever else is not blank. Reads its state on the way.
static void find_head(mrt_log *log)
{
    uint32_t sector = log->storage->sector;
    uint32_t unit = log->storage->unit;
    uint32_t end = sector;
    uint32_t offset = 0;
    uint8_t byte = 0xFF;
    log_record record;
    while (end > 0 && read_at(log, end - 1, &byte, 1) && byte == 0xFF) {
        end--;
    }
    log->used = (end + unit - 1) / unit * unit;
    while (offset < end && next_record(log, &offset, sector, &record)) {
        if (record.kind == KIND_SEEN) {
            log->seen = record.number;
        } else if (record.kind != KIND_START) {
            log->highest = record.number;
        }
        // A record may end like a blank.
        log->used = offset > log->used ? offset : log->used;
    }
}

// Finds the sector that was begun last, and the oldest of those that lead up to it.
static bool restore(mrt_log *log)
{
    log_record start;
    uint32_t sector = log->storage->sector;
    uint32_t newest = log->storage->size;
    for (uint32_t at = 0; at < log->storage->size; at += sector) {
        // Laps wrap: the later one is less than half of the circle ahead.
        if (read_start(log, at, &start)
            && (newest == log->storage->size || ((start.count - log->lap) & 0x8000u) == 0)) {
            newest = at;
            log->lap = (uint16_t)start.count;
            log->epoch = start.number;
        }
    }
    if (newest == log->storage->size) {
        log->tail = 0;
        return false;
    }
    log->tail = newest;
    find_head(log);
    uint32_t oldest = newest;
    uint32_t before = 0;
    while (before + 2 * sector <= log->storage->size) {
        uint32_t at = (oldest > 0 ? oldest : log->storage->size) - sector;
        uint32_t lap = (log->lap - before / sector - 1) & UINT16_MAX;
        if (!read_start(log, at, &start) || start.count != lap || start.number != log->epoch) {
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
    uint32_t unit = storage->unit;
    uint32_t sector = storage->sector;
    memset(log, 0, sizeof *log);
    log->storage = storage;
    if (unit == 0 || CHUNK_BYTES % unit != 0 || storage->size > INT32_MAX) {
        return MRT_ERROR_INVALID;
    }
    if (is_durable(log)
        && (sector < 256 || sector % unit != 0 || storage->size % sector != 0
            || storage->size / sector < 3)) {
        return MRT_ERROR_INVALID;
    }
    if (!is_durable(log) || !restore(log)) {
        log->epoch = new_epoch;
    }
    return MRT_IDLE;
}
