// Counts the allocations, and the retains and releases, of a process that it is preloaded into:
//
//     LD_PRELOAD=libMallocCount.so MALLOC_COUNT_FILE=counts martletd …
//
// It changes nothing else: every call goes on to glibc or to Swift's runtime. What the numbers are
// compared with stands in Bench/Thresholds.
#define _GNU_SOURCE
#include "CMallocCount.h"

#include <dlfcn.h>
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
struct malloc_counts *counts __attribute__((visibility("hidden"))) = &early;

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

#if defined(__x86_64__)
// The compiler may expect a retain to keep more registers than a C function does, so each of these
// keeps all: it counts and jumps to the runtime's own. Where that is, is found at the first call.
#define COUNTED_CALL(name, offset)                                                                 \
    void *name##_next __attribute__((visibility("hidden")));                                       \
    __attribute__((used, visibility("hidden"))) void name##_find(void) {                           \
        name##_next = dlsym(RTLD_NEXT, #name);                                                     \
        if (name##_next == NULL) _exit(126);                                                       \
    }                                                                                              \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"                    \
            "  push %rax\n"                                                                        \
            "  mov counts(%rip), %rax\n"                                                           \
            "  lock incq " #offset "(%rax)\n"                                                      \
            "  pop %rax\n"                                                                         \
            "  cmpq $0, " #name "_next(%rip)\n"                                                    \
            "  je 1f\n"                                                                            \
            "  jmp *" #name "_next(%rip)\n"                                                        \
            "1: push %rax\n  push %rcx\n  push %rdx\n  push %rsi\n  push %rdi\n"                   \
            "  push %r8\n  push %r9\n  push %r10\n  push %r11\n  push %rbp\n"                      \
            "  mov %rsp, %rbp\n  and $-16, %rsp\n  call " #name "_find\n  mov %rbp, %rsp\n"        \
            "  pop %rbp\n  pop %r11\n  pop %r10\n  pop %r9\n  pop %r8\n"                           \
            "  pop %rdi\n  pop %rsi\n  pop %rdx\n  pop %rcx\n  pop %rax\n"                         \
            "  jmp *" #name "_next(%rip)\n");

// The offsets of `retains` and `releases`.
COUNTED_CALL(swift_retain, 24)
COUNTED_CALL(swift_release, 32)
COUNTED_CALL(swift_bridgeObjectRetain, 24)
COUNTED_CALL(swift_bridgeObjectRelease, 32)
_Static_assert(offsetof(struct malloc_counts, retains) == 24, "as in the calls above");
_Static_assert(offsetof(struct malloc_counts, releases) == 32, "as in the calls above");
#endif
