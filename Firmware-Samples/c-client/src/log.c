// How unsent messages are kept. Everything is appended, so that flash is written strictly in order
// and each sector is erased once per lap:
//
//     | START | SEND | SEND | STATE | SEND | blank |     a sector
//
//     record   | u32 check | u32 count | u32 number | u32 seen |
//     SEND     a message: | body of `count` bytes, its packet |
//     STATE    no body
//     START    the sector is begun: `count` is its lap | u64 epoch |
//
// Numbers up to `number` were given, those up to `seen` are settled: every record says both. RAM is
// one sector without STATE and START. Integers are the processor's own, records are
// padded to whole units, and none crosses the end of a sector. A check covers all that follows it
// and, but for START, begins with the epoch, so that neither an older life of the flash nor a
// payload can pass for a record. A record that a loss of power cut short fails its check and is
// passed over, with the blank that it would have taken: what the next record began with could
// otherwise be its missing end.
//
// A message is not stored where it would take the last free sector: that one is for STATE. A STATE
// is shorter than a SEND, so that the sector has room for all that it takes to settle the oldest
// sector, which frees that one: the log cannot lock itself up.

#include "log.h"

#include "crc32.h"

#include <stddef.h>

enum { CHUNK_BYTES = 32, SECTOR_BYTES_MINIMUM = 256, SECTORS_MINIMUM = 3 };

typedef struct log_head {
    uint32_t check;
    uint32_t count;
    uint32_t number;
    uint32_t seen;
} log_head;

typedef struct log_start {
    log_head head;
    uint32_t epoch[2];
} log_start;

enum {
    HEAD_BYTES = sizeof(log_head),
    START_BYTES = sizeof(log_start),
    CHECKED = offsetof(log_head, count)
};

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

// An offset from the tail as one of the storage.
static uint32_t place(const mrt_log *log, uint32_t offset)
{
    uint32_t room = log->storage->size - log->tail;
    return offset < room ? log->tail + offset : offset - room;
}

static bool read_at(const mrt_log *log, uint32_t offset, void *bytes, uint32_t count)
{
    const mrt_storage *storage = log->storage;
    return storage->read(storage->context, place(log, offset), bytes, count);
}

static uint32_t whole_units(const mrt_log *log, uint32_t bytes)
{
    // A unit divides 32: it is a power of two.
    uint32_t beyond = log->storage->unit - 1u;
    return (bytes + beyond) & ~beyond;
}

static uint32_t record_bytes(const mrt_log *log, uint32_t count)
{
    return whole_units(log, HEAD_BYTES + count);
}

// Of a head, or a whole START.
static uint32_t head_check(uint32_t check, const void *head, uint32_t count)
{
    return mrt_crc32(check, (const uint8_t *)head + CHECKED, count - CHECKED);
}

// Whether a record with this head stands whole at `offset`.
static bool read_record(const mrt_log *log, uint32_t offset, const log_head *head)
{
    uint8_t chunk[CHUNK_BYTES];
    uint32_t check = (uint32_t)log->epoch;
    uint32_t rest = head->count;
    while (rest > 0) {
        uint32_t part = rest < CHUNK_BYTES ? rest : CHUNK_BYTES;
        offset += HEAD_BYTES;
        if (!read_at(log, offset, chunk, part)) {
            return false;
        }
        check = mrt_crc32(check, chunk, part);
        offset += part - HEAD_BYTES;
        rest -= part;
    }
    return head_check(check, head, HEAD_BYTES) == head->check;
}

// The next record from `*offset` on, which moves behind it; without one, to where the blank or what
// lies behind `end` begins. A record that was cut short is passed over as far as it would have
// gone.
static bool next_record(const mrt_log *log, uint32_t *offset, uint32_t end, log_head *head)
{
    while (*offset + HEAD_BYTES <= end && read_at(log, *offset, head, HEAD_BYTES)) {
        uint32_t start = *offset;
        if (head->count <= end - start - HEAD_BYTES) {
            *offset += record_bytes(log, head->count);
            if (read_record(log, start, head)) {
                return true;
            }
        } else if ((head->check & head->count) == UINT32_MAX) {
            // A blank: its whole first unit. Of a record that was cut short only the check may
            // stand there.
            break;
        } else {
            *offset += log->storage->unit;
        }
    }
    return false;
}

// The next message from `*offset` on whose number is at least this one; `*offset` moves behind it.
static bool find(const mrt_log *log, uint32_t *offset, uint32_t number, log_head *head)
{
    while (*offset < log->used) {
        uint32_t begun = place(log, *offset) % log->sector;
        uint32_t end = *offset + log->sector - begun;
        if (end > log->used) {
            end = log->used;
        }
        if (begun == 0 && is_durable(log)) {
            *offset += whole_units(log, START_BYTES);
        }
        while (next_record(log, offset, end, head)) {
            if (head->count > 0 && head->number >= number) {
                return true;
            }
        }
        *offset = end;
    }
    return false;
}

// MARK: Appending

static bool drain(void *context, const uint8_t *bytes, uint32_t count)
{
    mrt_log *log = context;
    const mrt_storage *storage = log->storage;
    uint32_t start = place(log, log->used);
    log->used += count;
    return storage->write(storage->context, start, bytes, count);
}

// Writes a record behind the others: its head and, of a SEND, the message.
static bool write_record(mrt_log *log, const void *head, uint32_t head_count,
    const mrt_numbered_message *message)
{
    uint8_t chunk[CHUNK_BYTES];
    mrt_writer writer = {.room = chunk, .capacity = CHUNK_BYTES, .drain = drain, .context = log};
    mrt_write(&writer, head, head_count);
    if (message != NULL) {
        mrt_write_packet(&writer, mrt_body_message, message);
    }
    while (whole_units(log, writer.count) != writer.count) {
        mrt_write(&writer, "", 1);
    }
    return !writer.has_failed && drain(log, chunk, writer.count);
}

static bool begin_sector(mrt_log *log)
{
    log_start start = {{0, log->lap + 1, log->highest, log->seen},
        {(uint32_t)log->epoch, (uint32_t)(log->epoch >> 32)}};
    start.head.check = head_check(0, &start, START_BYTES);
    log->lap++;
    return write_record(log, &start, START_BYTES, NULL);
}

// Appends a message, or a STATE where there is none, with what has to stand before it.
static mrt_status append(mrt_log *log, const mrt_numbered_message *message)
{
    mrt_writer counter = {.has_crc = true, .crc = (uint32_t)log->epoch};
    uint32_t begun = place(log, log->used) % log->sector;
    uint32_t start_bytes = 0;
    uint32_t taken = log->used;
    uint32_t gap = 0;
    if (message != NULL) {
        mrt_write_packet(&counter, mrt_body_message, message);
    }
    uint32_t bytes = record_bytes(log, counter.total);
    if (is_durable(log)) {
        // What is before the tail in its sector cannot be written yet.
        taken += log->tail % log->sector + (message != NULL ? log->sector : 0);
        start_bytes = whole_units(log, START_BYTES);
    }
    if (start_bytes + bytes > log->sector) {
        return MRT_ERROR_TOO_LARGE;
    }
    if (begun + bytes > log->sector) {
        gap = log->sector - begun;
        begun = 0;
    }
    if (begun > 0) {
        start_bytes = 0;
    }
    if (taken + gap + start_bytes + bytes > log->storage->size) {
        return MRT_ERROR_FULL;
    }
    log->used += gap;
    uint32_t end = log->used + start_bytes + bytes;
    bool is_written = start_bytes == 0 || begin_sector(log);
    if (!is_written) {
        end += log->sector - start_bytes - bytes;
    } else {
        log_head head = {
            0, counter.total, message != NULL ? message->number : log->highest, log->seen};
        head.check = head_check(counter.crc, &head, HEAD_BYTES);
        is_written = write_record(log, &head, HEAD_BYTES, message);
    }
    // The space is taken also where writing failed: what stands there then is passed over. A sector
    // without its START is not begun.
    log->used = end;
    log->marked = is_written ? log->seen : log->marked;
    return is_written ? MRT_IDLE : MRT_ERROR_STORAGE;
}

mrt_status mrt_log_append(mrt_log *log, const mrt_message *message)
{
    const mrt_numbered_message numbered = {message, log->highest + 1};
    // There is no number above the last one.
    mrt_status status = numbered.number == 0 ? MRT_ERROR_FULL : append(log, &numbered);
    if (status == MRT_IDLE || status == MRT_ERROR_STORAGE) {
        // Also a number whose record may stand there half is used up.
        log->highest++;
    }
    return status;
}

mrt_status mrt_log_mark(mrt_log *log)
{
    mrt_status status = MRT_IDLE;
    if (log->marked != log->seen && is_durable(log)) {
        status = append(log, NULL);
    }
    // Many losses of power in the middle of writes can eat up the free sector of a full log. Then
    // the broker is told what one more may take back: else no number would ever be free again.
    if (status == MRT_ERROR_FULL) {
        status = MRT_IDLE;
    }
    if (status == MRT_IDLE) {
        log->marked = log->seen;
    }
    return status;
}

// MARK: Settling

// Moves the tail to the oldest message that may have to be sent again.
static void advance(mrt_log *log)
{
    uint32_t tail = 0;
    log_head head;
    for (; (log->answered & 1u) != 0; log->answered >>= 1) {
        log->seen++;
    }
    // Also what was settled without being sent is used up.
    if (log->transmitted < log->seen) {
        log->transmitted = log->seen;
    }
    if (find(log, &tail, log->seen + 1, &head)) {
        tail -= record_bytes(log, head.count);
    }
    log->tail = place(log, tail);
    log->used -= tail;
    log->cursor = log->cursor > tail ? log->cursor - tail : 0;
    if (!is_durable(log)) {
        log->marked = log->seen;
        // What is empty has no gap at its end.
        log->tail = log->used > 0 ? log->tail : 0;
    }
}

// The bit of a number that was given, if it is open; 0 where it is not.
static uint32_t open_bit(const mrt_log *log, uint32_t number)
{
    uint32_t distance = number - log->seen - 1;
    return distance >= MRT_LOG_WINDOW ? 0 : ~log->answered & (uint32_t)1 << distance;
}

bool mrt_log_settle(mrt_log *log, uint64_t number)
{
    uint32_t bit = number > log->highest ? 0 : open_bit(log, (uint32_t)number);
    log->answered |= bit;
    advance(log);
    return bit != 0;
}

// MARK: Transmission

void mrt_log_rewind(mrt_log *log)
{
    log->cursor = 0;
    log->given = 0;
    log->rest = 0;
}

mrt_log_next_kind mrt_log_next(mrt_log *log, uint32_t last)
{
    log_head head;
    uint32_t offset = log->cursor;
    uint32_t next = log->given > log->seen ? log->given : log->seen;
    do {
        next++;
        if (next > last || next > log->highest) {
            return MRT_LOG_NOTHING;
        }
    } while (open_bit(log, next) == 0);
    log->given = next;
    if (!find(log, &offset, next, &head) || head.number != next) {
        return MRT_LOG_DAMAGED;
    }
    log->cursor = offset;
    log->rest_place = place(log, offset - record_bytes(log, head.count) + HEAD_BYTES);
    log->rest = head.count;
    if (next > log->transmitted) {
        log->transmitted = next;
    }
    return MRT_LOG_PACKET;
}

uint32_t mrt_log_copy(mrt_log *log, uint8_t *bytes, uint32_t count)
{
    const mrt_storage *storage = log->storage;
    uint32_t part = log->rest < count ? log->rest : count;
    if (!storage->read(storage->context, log->rest_place, bytes, part)) {
        return 0;
    }
    log->rest_place += part;
    log->rest -= part;
    return part;
}

// MARK: Start

// Finds the sector that was begun last, and where it goes on: behind its last record, or what that
// would have taken. All others are older, and what is no longer needed there falls away.
static bool restore(mrt_log *log)
{
    const mrt_storage *storage = log->storage;
    uint32_t newest = 0;
    uint32_t offset = whole_units(log, START_BYTES);
    log_start start;
    for (; log->tail < storage->size; log->tail += log->sector) {
        if (read_at(log, 0, &start, START_BYTES)
            && head_check(0, &start, START_BYTES) == start.head.check
            && start.head.count > log->lap) {
            newest = log->tail;
            log->lap = start.head.count;
            log->highest = start.head.number;
            log->seen = start.head.seen;
            log->epoch = (uint64_t)start.epoch[1] << 32 | start.epoch[0];
        }
    }
    log->tail = newest;
    if (log->lap == 0) {
        return false;
    }
    while (next_record(log, &offset, log->sector, &start.head)) {
        log->highest = start.head.number;
        log->seen = start.head.seen;
    }
    // The oldest is the next one in the ring.
    log->tail = place(log, log->sector);
    log->used = offset + storage->size - log->sector;
    log->marked = log->seen;
    log->transmitted = log->highest;
    advance(log);
    return true;
}

mrt_status mrt_log_open(mrt_log *log, const mrt_storage *storage, uint64_t new_epoch)
{
    uint32_t unit = storage->unit;
    memset(log, 0, sizeof *log);
    log->storage = storage;
    log->sector = is_durable(log) ? storage->sector : storage->size;
    if (unit - 1 >= CHUNK_BYTES || (unit & (unit - 1)) != 0
        || (is_durable(log)
            && (log->sector < SECTOR_BYTES_MINIMUM || log->sector % CHUNK_BYTES != 0
                || storage->size % log->sector != 0
                || storage->size < SECTORS_MINIMUM * log->sector))) {
        return MRT_ERROR_INVALID;
    }
    if (!is_durable(log) || !restore(log)) {
        log->epoch = new_epoch;
    }
    return MRT_IDLE;
}
