// The few system calls that Swift's Glibc module does not show, one function each.
#define _GNU_SOURCE
#include "CLinuxShims.h"

int linux_accept(int descriptor, struct sockaddr_storage *peer, socklen_t *peer_size) {
    return accept4(descriptor, (struct sockaddr *)peer, peer_size, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int linux_stream_socket(int family) {
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

int linux_epoll_set(int epoll, int operation, int descriptor, uint32_t events, uint64_t data) {
    struct epoll_event event = {.events = events, .data = {.u64 = data}};
    return epoll_ctl(epoll, operation, descriptor, &event);
}

int linux_epoll_remove(int epoll, int descriptor) {
    return epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, NULL);
}
