// Two stacks of free blocks for each thread, by size; everything else goes to the allocator as it
// is. Knows nothing of TLS but the two sizes.
#include "CTLSMemory.h"

#include <malloc.h>
#include <stdlib.h>

// One part of a packet under construction, in OpenSSL 3.0: three are alive at a time.
#define PART_SIZE 40
#define PART_COUNT 16

// A record: 16,384 bytes of payload and what surrounds it, 16,584 in all for writing and 16,712 for
// reading. One size serves both.
#define RECORD_SIZE_MINIMUM 16385
#define RECORD_SIZE 17408
// Connections whose peers are slow keep theirs, and half a packet that came in keeps one too.
#define RECORD_COUNT 8

// What the allocator may add to a size for its own reasons.
#define SLACK 64

struct stack {
    size_t count;
    void *blocks[PART_COUNT];
};

static _Thread_local struct stack parts;
static _Thread_local struct stack records;

static void *pop(struct stack *stack, size_t size) {
    return stack->count > 0 ? stack->blocks[--stack->count] : malloc(size);
}

static void push(struct stack *stack, size_t maximum, void *block) {
    if (stack->count < maximum)
        stack->blocks[stack->count++] = block;
    else
        free(block);
}

void *tls_memory_take(size_t size, const char *file, int line) {
    (void)file;
    (void)line;
    if (size == PART_SIZE) return pop(&parts, PART_SIZE);
    if (size >= RECORD_SIZE_MINIMUM && size <= RECORD_SIZE) return pop(&records, RECORD_SIZE);
    return malloc(size);
}

void *tls_memory_resize(void *block, size_t size, const char *file, int line) {
    (void)file;
    (void)line;
    return realloc(block, size);
}

void tls_memory_give_back(void *block, const char *file, int line) {
    (void)file;
    (void)line;
    if (block == NULL) return;
    // The size that a block was asked for with is not known, but what it can hold.
    size_t size = malloc_usable_size(block);
    if (size == PART_SIZE)
        push(&parts, PART_COUNT, block);
    else if (size >= RECORD_SIZE && size < RECORD_SIZE + SLACK)
        push(&records, RECORD_COUNT, block);
    else
        free(block);
}
