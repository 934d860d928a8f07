// Clock, random bytes, and flash in a file.

#define _POSIX_C_SOURCE 200809L

#include "posix.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SECTOR_BYTES = 4096, UNIT_BYTES = 8 };

uint32_t mrt_clock_ms(void)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u);
}

bool mrt_random(uint8_t *bytes, uint32_t count)
{
    int descriptor = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        return false;
    }
    ssize_t received = read(descriptor, bytes, count);
    close(descriptor);
    return received == (ssize_t)count;
}

// The descriptor of the one file; the storage's context points here.
static int flash = -1;

static bool file_read(void *context, uint32_t offset, uint8_t *bytes, uint32_t count)
{
    int descriptor = *(int *)context;
    return pread(descriptor, bytes, count, (off_t)offset) == (ssize_t)count;
}

static bool file_write(void *context, uint32_t offset, const uint8_t *bytes, uint32_t count)
{
    int descriptor = *(int *)context;
    if (offset % SECTOR_BYTES == 0) {
        uint8_t blank[SECTOR_BYTES];
        memset(blank, 0xFF, sizeof blank);
        if (pwrite(descriptor, blank, sizeof blank, (off_t)offset) != (ssize_t)sizeof blank) {
            return false;
        }
    }
    return pwrite(descriptor, bytes, count, (off_t)offset) == (ssize_t)count
        && fdatasync(descriptor) == 0;
}

bool mrt_file_storage(mrt_storage *storage, const char *path, uint32_t sector_count)
{
    uint32_t size = sector_count * SECTOR_BYTES;
    flash = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (flash < 0 || ftruncate(flash, (off_t)size) != 0) {
        return false;
    }
    storage->context = &flash;
    storage->size = size;
    storage->sector = SECTOR_BYTES;
    storage->unit = UNIT_BYTES;
    storage->read = file_read;
    storage->write = file_write;
    return true;
}
