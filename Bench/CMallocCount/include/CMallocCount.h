// The counters that libMallocCount keeps for a process it is preloaded into, in the file that the
// environment variable MALLOC_COUNT_FILE names. Another process may map the file and read along.
#ifndef CMALLOCCOUNT_H
#define CMALLOCCOUNT_H

#include <stdint.h>

struct malloc_counts {
    // Calls of malloc, calloc, realloc and their aligned kin.
    uint64_t allocations;
    // Calls of free with something to free.
    uint64_t frees;
    // Bytes asked for.
    uint64_t bytes;
};

#endif
