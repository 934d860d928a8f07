// Memory for OpenSSL that is used again. With buffers that are released when they are empty
// (SSL_MODE_RELEASE_BUFFERS) every record that is written costs OpenSSL 3.0 four allocations: one
// of 16,584 bytes for the record and three of 40 for the writer of packets. They come from here.
#ifndef CTLSMEMORY_H
#define CTLSMEMORY_H

#include <stddef.h>

// What CRYPTO_set_mem_functions takes. Blocks are the allocator's own: one that was taken in one
// thread may be given back in another. Each thread keeps a few of them, and does so until the
// process ends: this is for programs whose threads live as long as they do.
void *tls_memory_take(size_t size, const char *file, int line);
void *tls_memory_resize(void *block, size_t size, const char *file, int line);
void tls_memory_give_back(void *block, const char *file, int line);

#endif
