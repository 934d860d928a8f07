// The system's LMDB (Debian: liblmdb-dev), and fallocate(2), as QueueStore sees them.
#include <linux/falloc.h>
#include <lmdb.h>
#include <sys/types.h>

// <fcntl.h> declares it under _GNU_SOURCE only, and a header seen with that macro clashes with
// what Swift's own modules saw without it (Swift 6.3.1).
extern int fallocate(int descriptor, int mode, off_t offset, off_t length);
