// The porting guide of the store-and-forward memory: two functions over a range of bytes, in RAM,
// EEPROM, FRAM or flash. What is kept there is the log's business (src/log.c).

#ifndef MRT_STORAGE_H
#define MRT_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mrt_storage {
    // Handed to both functions.
    void *context;

    // Bytes in all, less than 2^31. With sectors: a multiple of `sector`, and at least three of
    // them.
    uint32_t size;

    // 0: volatile memory (RAM). Nothing is looked for at start. Otherwise it survives a loss of
    // power: bytes that are erased together, a multiple of 32, at least 256. A message needs to fit
    // one sector, with 60 bytes to spare (100 where a unit has 32). EEPROM and FRAM have no
    // sectors of their own; a quarter of the size does well.
    uint32_t sector;

    // Bytes that are programmed together: 1 for RAM, EEPROM and FRAM, 8 for most internal flash, at
    // most 32. Every write begins and ends on a multiple of it, and no unit is written twice
    // between erasures.
    uint16_t unit;

    // Both say whether they succeeded. Ranges never cross the end.
    //
    // A write whose offset is a multiple of `sector` (not 0) finds old content: erase the sector,
    // then write. EEPROM and FRAM fill it with 0xFF instead. Other writes go to erased bytes.
    // A write that was cut by a loss of power is found and skipped at the next start.
    bool (*read)(void *context, uint32_t offset, uint8_t *bytes, uint32_t count);
    bool (*write)(void *context, uint32_t offset, const uint8_t *bytes, uint32_t count);
} mrt_storage;

// Storage in RAM: `memory` is the caller's and outlives the client.
mrt_storage mrt_ram_storage(uint8_t *memory, uint32_t size);

#endif
