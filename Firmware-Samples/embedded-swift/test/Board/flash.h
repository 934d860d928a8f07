// The flash of a board for tests on a host: small, and its power goes when a test wants it to. From
// then on nothing is written any more, until a test gives it back.

#ifndef HOST_FLASH_H
#define HOST_FLASH_H

#include <stdint.h>

enum { BOARD_FLASH_SECTOR = 256, BOARD_FLASH_UNIT = 8, BOARD_FLASH_SECTORS = 11 };
enum { FLASH_BYTES = BOARD_FLASH_SECTOR * BOARD_FLASH_SECTORS };

void board_flash_read(uint32_t offset, uint8_t *bytes, uint32_t count);
void board_flash_erase(uint32_t offset);
void board_flash_program(uint32_t offset, const uint8_t *bytes, uint32_t count);

// Steps until the power goes: a step is half of a unit that is programmed, or half of a sector that
// is erased.
void flash_set_power(uint32_t steps);

// Steps since the power was set.
uint32_t flash_steps(void);

// Whether the power has gone.
uint32_t flash_is_off(void);

// Keeps the flash as it is, and brings it back.
void flash_save(uint32_t slot);
void flash_load(uint32_t slot);

// As from the factory.
void flash_format(void);

#endif
