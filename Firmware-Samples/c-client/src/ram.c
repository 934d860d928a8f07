// Storage in RAM: copies, and nothing survives.

#include "mrt/storage.h"

#include <string.h>

static bool ram_read(void *context, uint32_t offset, uint8_t *bytes, uint32_t count)
{
    memcpy(bytes, (const uint8_t *)context + offset, count);
    return true;
}

static bool ram_write(void *context, uint32_t offset, const uint8_t *bytes, uint32_t count)
{
    memcpy((uint8_t *)context + offset, bytes, count);
    return true;
}

mrt_storage mrt_ram_storage(uint8_t *memory, uint32_t size)
{
    mrt_storage storage = {
        .context = memory, .size = size, .unit = 1, .read = ram_read, .write = ram_write};
    return storage;
}
