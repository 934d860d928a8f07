// What NetTransport needs of Linux and Swift's Glibc module does not show. No logic lives here:
// each function is one system call, or one constant that is a macro with a type.
#ifndef CLINUXSHIMS_H
#define CLINUXSHIMS_H

// No _GNU_SOURCE here: it would change types that Swift's Glibc module defines without it.
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

// accept4(2) with SOCK_NONBLOCK | SOCK_CLOEXEC.
int linux_accept(int descriptor, struct sockaddr_storage *peer, socklen_t *peer_size);

// socket(2), stream, with SOCK_NONBLOCK | SOCK_CLOEXEC.
int linux_stream_socket(int family);

// epoll_ctl(2) with the 64 bits that come back with the event. `operation` is EPOLL_CTL_ADD or
// EPOLL_CTL_MOD; removal is closing the descriptor, or linux_epoll_remove.
int linux_epoll_set(int epoll, int operation, int descriptor, uint32_t events, uint64_t data);
int linux_epoll_remove(int epoll, int descriptor);

// Asks for the processor cache line at `address` ahead of its use.
static inline void linux_prefetch(const void *address) { __builtin_prefetch(address, 0, 3); }

// prctl is variadic.
static inline int linux_set_thread_name(const char *name) {
    return prctl(PR_SET_NAME, name, 0, 0, 0);
}

#endif
