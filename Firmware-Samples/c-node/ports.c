// The board as the client wants it (ports.h). It knows no packet and no record.

#include "ports.h"

#include "board.h"
#include "record.h"

#include <stddef.h>

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

const mrt_uart node_uart = {NULL, uart_write, uart_read, uart_milliseconds};
const mrt_storage node_storage = {NULL, RING_SECTORS * BOARD_FLASH_SECTOR, BOARD_FLASH_SECTOR,
    BOARD_FLASH_UNIT, ring_read, ring_write};
