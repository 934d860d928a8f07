// A library to be preloaded into the broker, which stands between LMDB and the kernel. It sees what
// is written to the store's file and when that is synced, and can
//
//   * write all of it down, in order (DISK_FAULTS_LOG names the file), so that a test can rebuild
//     what a disk may hold when the power goes: the loss of power keeps no page cache;
//   * kill the process at the n-th call that writes or syncs (DISK_FAULTS_KILL_AT), in the middle
//     of it where it is a write;
//   * have no space left (as long as the file that DISK_FAULTS_FULL names exists);
//   * sync nothing (as long as the file that DISK_FAULTS_SLOW names exists).
//
// It knows nothing of LMDB but the name of its file, and is no part of the product.
//
// The log is a run of records:
//
//     | u32 kind | u32 length | u64 offset | length bytes |
//
//     1 write           bytes that the process wrote, before it heard that they were
//     2 durable write   the same, through a descriptor whose writes are synced
//     3 synced          everything written so far is on the disk
//     4 written durably the last durable write is on the disk
//     5 truncate        the file ends at the offset
//     6 renamed         the file has the store's name: before, it had the staging file's
//     7 names synced    the directory is on the disk, with the name in it

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, DURABLE_WRITE = 2, SYNCED = 3, WRITTEN_DURABLY = 4, TRUNCATE = 5, RENAMED = 6,
       NAMES_SYNCED = 7 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int log_descriptor = -1;
static long kill_at = 0;
static long calls = 0;
static const char *full_path = NULL;
static const char *slow_path = NULL;

__attribute__((constructor)) static void prepare(void) {
    const char *log = getenv("DISK_FAULTS_LOG");
    if (log) log_descriptor = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const char *number = getenv("DISK_FAULTS_KILL_AT");
    if (number) kill_at = atol(number);
    full_path = getenv("DISK_FAULTS_FULL");
    slow_path = getenv("DISK_FAULTS_SLOW");
}

static int ends_with(const char *path, size_t length, const char *tail) {
    size_t count = strlen(tail);
    return length >= count && memcmp(path + length - count, tail, count) == 0;
}

// Whether a descriptor is the store's file, or its staging file. Asked of the kernel each time:
// LMDB opens it twice, and closes it for backups.
static int is_store(int descriptor) {
    char link[32], path[4096];
    strcpy(link, "/proc/self/fd/");
    char digits[12];
    int count = 0;
    for (unsigned rest = (unsigned)descriptor; count == 0 || rest > 0; rest /= 10)
        digits[count++] = (char)('0' + rest % 10);
    size_t end = strlen(link);
    while (count > 0) link[end++] = digits[--count];
    link[end] = 0;
    ssize_t length = readlink(link, path, sizeof path);
    return length >= 0 && ends_with(path, (size_t)length, "/data.mdb");
}

// Whether a descriptor is the store's directory.
static int is_directory(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode) &&
           fstatat(descriptor, "martlet.lock", &status, 0) == 0;
}

static int is_full(void) { return full_path && access(full_path, F_OK) == 0; }

static void note(uint32_t kind, uint64_t offset, const void *bytes, size_t length) {
    if (log_descriptor < 0) return;
    uint32_t header[4] = {kind, (uint32_t)length, (uint32_t)offset, (uint32_t)(offset >> 32)};
    struct iovec parts[2] = {{header, sizeof header}, {(void *)bytes, length}};
    syscall(SYS_writev, log_descriptor, parts, 2);
}

static int is_synced(int descriptor) { return (fcntl(descriptor, F_GETFL) & O_DSYNC) != 0; }

static void die(void) {
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
    for (;;) pause();
}

// Whether this call is the one at which the process ends.
static int is_last(void) { return kill_at > 0 && ++calls == kill_at; }

// Every write comes through here, in one piece and with its offset.
static ssize_t write_at(int descriptor, const void *bytes, size_t count, off_t offset) {
    pthread_mutex_lock(&mutex);
    if (is_last()) {
        // Half of it, to a byte that no sector ends with.
        syscall(SYS_pwrite64, descriptor, bytes, count / 2 + 1, offset);
        die();
    }
    if (is_full()) {
        // What the file has blocks for can still be written.
        struct stat status;
        if (fstat(descriptor, &status) == 0 && offset + (off_t)count > status.st_blocks * 512) {
            pthread_mutex_unlock(&mutex);
            errno = ENOSPC;
            return -1;
        }
    }
    int synced = is_synced(descriptor);
    note(synced ? DURABLE_WRITE : WRITE, (uint64_t)offset, bytes, count);
    ssize_t result = syscall(SYS_pwrite64, descriptor, bytes, count, offset);
    if (synced && result == (ssize_t)count) note(WRITTEN_DURABLY, (uint64_t)offset, NULL, 0);
    pthread_mutex_unlock(&mutex);
    return result;
}

static void wait_until_removed(const char *path) {
    int events = inotify_init1(IN_CLOEXEC);
    // There is nothing to watch if it was removed meanwhile.
    while (inotify_add_watch(events, path, IN_ATTRIB | IN_DELETE_SELF) >= 0) {
        char event[sizeof(struct inotify_event)];
        if (read(events, event, sizeof event) < 0 && errno != EINTR) break;
    }
    syscall(SYS_close, events);
}

static int synced(int descriptor, long number, uint32_t kind) {
    pthread_mutex_lock(&mutex);
    if (is_last()) die();
    // A sync takes until the disk is not slow any more.
    if (slow_path) wait_until_removed(slow_path);
    int result = (int)syscall(number, descriptor);
    if (result == 0) note(kind, 0, NULL, 0);
    pthread_mutex_unlock(&mutex);
    return result;
}

// What LMDB and Swift call.

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    if (!is_store(descriptor)) return syscall(SYS_pwrite64, descriptor, bytes, count, offset);
    return write_at(descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
    return pwrite(descriptor, bytes, count, offset);
}

// LMDB seeks and then writes several pages at once.
ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    if (!is_store(descriptor)) return syscall(SYS_writev, descriptor, parts, count);
    off_t offset = lseek(descriptor, 0, SEEK_CUR);
    ssize_t total = 0;
    for (int part = 0; part < count; part++) {
        ssize_t written =
            write_at(descriptor, parts[part].iov_base, parts[part].iov_len, offset + total);
        if (written < 0) return written;
        total += written;
    }
    lseek(descriptor, offset + total, SEEK_SET);
    return total;
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    if (!is_store(descriptor)) return syscall(SYS_write, descriptor, bytes, count);
    struct iovec part = {(void *)bytes, count};
    return writev(descriptor, &part, 1);
}

int fdatasync(int descriptor) {
    if (!is_store(descriptor)) return (int)syscall(SYS_fdatasync, descriptor);
    return synced(descriptor, SYS_fdatasync, SYNCED);
}

int fsync(int descriptor) {
    if (is_directory(descriptor)) return synced(descriptor, SYS_fsync, NAMES_SYNCED);
    if (!is_store(descriptor)) return (int)syscall(SYS_fsync, descriptor);
    return synced(descriptor, SYS_fsync, SYNCED);
}

int rename(const char *from, const char *to) {
    if (!ends_with(to, strlen(to), "/data.mdb"))
        return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    pthread_mutex_lock(&mutex);
    if (is_last()) die();
    int result = (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
    if (result == 0) note(RENAMED, 0, NULL, 0);
    pthread_mutex_unlock(&mutex);
    return result;
}

int ftruncate(int descriptor, off_t length) {
    if (!is_store(descriptor)) return (int)syscall(SYS_ftruncate, descriptor, length);
    pthread_mutex_lock(&mutex);
    if (is_last()) die();
    note(TRUNCATE, (uint64_t)length, NULL, 0);
    int result = (int)syscall(SYS_ftruncate, descriptor, length);
    pthread_mutex_unlock(&mutex);
    return result;
}

int fallocate(int descriptor, int mode, off_t offset, off_t length) {
    if (is_store(descriptor)) {
        pthread_mutex_lock(&mutex);
        int full = is_full();
        if (is_last()) die();
        pthread_mutex_unlock(&mutex);
        if (full) {
            errno = ENOSPC;
            return -1;
        }
    }
    return (int)syscall(SYS_fallocate, descriptor, mode, offset, length);
}
