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
    // Calls of swift_retain and swift_release and their kin for bridged objects, from outside the
    // runtime itself. Counted on x86-64; elsewhere they stay 0.
    uint64_t retains;
    uint64_t releases;
};

#endif
