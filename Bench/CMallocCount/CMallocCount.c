// Counts the allocations of a process that it is preloaded into:
//
//     LD_PRELOAD=libMallocCount.so MALLOC_COUNT_FILE=counts martletd …
//
// It changes nothing else: every call goes on to glibc. What the numbers are compared with stands
// in Bench/Thresholds.
#define _GNU_SOURCE
#include "CMallocCount.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// glibc's own names for its functions: asking dlsym for them would itself allocate.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static struct malloc_counts early;
static struct malloc_counts *counts = &early;

static void count_allocation(size_t bytes) {
    __atomic_fetch_add(&counts->allocations, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts->bytes, bytes, __ATOMIC_RELAXED);
}

__attribute__((constructor)) static void share_counts(void) {
    const char *path = getenv("MALLOC_COUNT_FILE");
    if (path == NULL) return;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof *counts) != 0) _exit(126);
    void *shared = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) _exit(126);
    close(file);
    *(struct malloc_counts *)shared = early;
    counts = shared;
}

void *malloc(size_t size) {
    count_allocation(size);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    count_allocation(count * size);
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    count_allocation(size);
    return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
    count_allocation(size);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = memalign(alignment, size);
    return *block == NULL ? ENOMEM : 0;
}

void free(void *block) {
    if (block == NULL) return;
    __atomic_fetch_add(&counts->frees, 1, __ATOMIC_RELAXED);
    __libc_free(block);
}
