// Flash in memory, held to flash's rules, with a power that goes.

#include "Board/flash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2 };

static uint8_t flash[FLASH_BYTES];
static uint8_t saved[SLOTS][FLASH_BYTES];
static uint32_t power = UINT32_MAX;
static uint32_t steps;

static void require(int is_kept, const char *rule)
{
    if (!is_kept) {
        fprintf(stderr, "flash: %s\n", rule);
        abort();
    }
}

// Whether there is power for one more step.
static int step(void)
{
    if (steps >= power) {
        return 0;
    }
    steps++;
    return 1;
}

void board_flash_read(uint32_t offset, uint8_t *bytes, uint32_t count)
{
    require(offset <= FLASH_BYTES && count <= FLASH_BYTES - offset, "read beyond the end");
    memcpy(bytes, flash + offset, count);
}

void board_flash_erase(uint32_t offset)
{
    require(offset < FLASH_BYTES && offset % BOARD_FLASH_SECTOR == 0, "erased within a sector");
    for (uint32_t half = 0; half < 2; half++) {
        if (step()) {
            memset(flash + offset + half * (BOARD_FLASH_SECTOR / 2), 0xFF, BOARD_FLASH_SECTOR / 2);
        }
    }
}

void board_flash_program(uint32_t offset, const uint8_t *bytes, uint32_t count)
{
    enum { HALF = BOARD_FLASH_UNIT / 2 };
    require(offset % BOARD_FLASH_UNIT == 0 && count % BOARD_FLASH_UNIT == 0, "not whole units");
    require(offset <= FLASH_BYTES && count <= FLASH_BYTES - offset, "written beyond the end");
    for (uint32_t i = 0; i < count; i += HALF) {
        if (!step()) {
            return;
        }
        for (uint32_t j = i; j < i + HALF; j++) {
            require(flash[offset + j] == 0xFF, "a unit written twice");
            flash[offset + j] = bytes[j];
        }
    }
}

void flash_set_power(uint32_t count)
{
    power = count;
    steps = 0;
}

uint32_t flash_steps(void)
{
    return steps;
}

uint32_t flash_is_off(void)
{
    return steps >= power;
}

void flash_save(uint32_t slot)
{
    memcpy(saved[slot], flash, FLASH_BYTES);
}

void flash_load(uint32_t slot)
{
    memcpy(flash, saved[slot], FLASH_BYTES);
}

void flash_format(void)
{
    memset(flash, 0xFF, FLASH_BYTES);
}
