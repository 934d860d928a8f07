// The little that Embedded Swift wants of a C library: memory that is taken at the start and never
// given back, from one fixed block.

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

enum { HEAP_BYTES = 8192 };

static uint8_t heap[HEAP_BYTES] __attribute__((aligned(16)));
static size_t heap_end;

int posix_memalign(void **result, size_t alignment, size_t size);
int posix_memalign(void **result, size_t alignment, size_t size)
{
    size_t start = (heap_end + alignment - 1) / alignment * alignment;
    if (start > HEAP_BYTES || size > HEAP_BYTES - start) {
        return ENOMEM;
    }
    heap_end = start + size;
    *result = heap + start;
    return 0;
}

void free(void *memory);
void free(void *memory)
{
    (void)memory;
}
