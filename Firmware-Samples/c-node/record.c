// The record of a node in its two sectors of flash (record.h). It knows no client.

#include "record.h"

#include "board.h"
#include "crc32.h"

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

void node_record_load(node_record *record)
{
    for (uint32_t place = 0; place < 2 * RECORDS_PER_SECTOR; place++) {
        node_record found;
        board_flash_read(offset_of(place), (uint8_t *)&found, sizeof found);
        if (found.check == check_of(&found) && found.sequence > record->sequence) {
            *record = found;
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

void node_record_store(node_record *record)
{
    record_place %= 2 * RECORDS_PER_SECTOR;
    if (record_place % RECORDS_PER_SECTOR == 0) {
        // The other sector holds the last record while this one is erased.
        board_flash_erase(offset_of(record_place));
    }
    record->sequence++;
    record->check = check_of(record);
    board_flash_program(offset_of(record_place), (const uint8_t *)record, sizeof *record);
    record_place++;
}
