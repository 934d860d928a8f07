// The porting guide of the store-and-forward memory: two functions over a range of bytes, in RAM,
// EEPROM, FRAM or flash. src/log.c defines its contents.

#ifndef MRT_STORAGE_H
#define MRT_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mrt_storage {
    // Passed to both functions.
    void *context;

    // The total size, less than 2^31. With sectors: a multiple of `sector`, and at least three of
    // them.
    uint32_t size;

    // 0: volatile memory (RAM), which is not read at start. Otherwise the memory survives a loss of
    // power, and this is the number of bytes that are erased together: a multiple of 32, at least
    // 256. A message must fit into one sector, with 60 bytes to spare (100 if a unit has 32).
    // EEPROM and FRAM have no sectors of their own; a quarter of the size is a good value.
    uint32_t sector;

    // Bytes that are programmed together: 1 for RAM, EEPROM and FRAM, 8 for most internal flash, at
    // most 32. Every write begins and ends at a multiple of it, and no unit is written twice
    // between erasures.
    uint16_t unit;

    // Both return whether they succeeded. Ranges never cross the end.
    //
    // Before a write whose offset is a multiple of `sector` (not 0), erase the sector; EEPROM and
    // FRAM fill it with 0xFF instead. Other writes go to erased bytes. A write that was interrupted
    // by a loss of power is detected and skipped at the next start.
    bool (*read)(void *context, uint32_t offset, uint8_t *bytes, uint32_t count);
    bool (*write)(void *context, uint32_t offset, const uint8_t *bytes, uint32_t count);
} mrt_storage;

// Storage in RAM: the caller owns `memory`, which must outlive the client.
mrt_storage mrt_ram_storage(uint8_t *memory, uint32_t size);

#endif
