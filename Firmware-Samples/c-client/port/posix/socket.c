// A TCP connection in steps. It knows no TLS and no packet.

#define _POSIX_C_SOURCE 200809L

#include "posix.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

void mrt_socket_init(mrt_socket *line, const char *host, const char *port)
{
    line->host = host;
    line->port = port;
    line->addresses = NULL;
    line->address = NULL;
    line->descriptor = -1;
    line->is_connected = false;
}

static void close_descriptor(mrt_socket *line)
{
    if (line->descriptor >= 0) {
        close(line->descriptor);
    }
    line->descriptor = -1;
    line->is_connected = false;
}

static void take_down(mrt_socket *line)
{
    close_descriptor(line);
    if (line->addresses != NULL) {
        freeaddrinfo(line->addresses);
    }
    line->addresses = NULL;
    line->address = NULL;
}

// Begins to connect to the current address. False where that fails at once.
static bool try_address(mrt_socket *line)
{
    const struct addrinfo *address = line->address;
    int on = 1;
    line->descriptor = socket(address->ai_family, address->ai_socktype, address->ai_protocol);
    if (line->descriptor < 0) {
        return false;
    }
    if (fcntl(line->descriptor, F_SETFL, O_NONBLOCK) != 0
        || fcntl(line->descriptor, F_SETFD, FD_CLOEXEC) != 0) {
        return false;
    }
    // The client writes whole packets: waiting for more would only delay them.
    setsockopt(line->descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return connect(line->descriptor, address->ai_addr, address->ai_addrlen) == 0
        || errno == EINPROGRESS;
}

// 1 connected, 0 on the way, -1 failed.
static int progress(const mrt_socket *line)
{
    struct pollfd entry = {line->descriptor, POLLOUT, 0};
    int failure = 0;
    socklen_t size = sizeof failure;
    if (poll(&entry, 1, 0) == 0) {
        return 0;
    }
    if (getsockopt(line->descriptor, SOL_SOCKET, SO_ERROR, &failure, &size) != 0) {
        return -1;
    }
    return failure == 0 ? 1 : -1;
}

int32_t mrt_socket_link(void *context, bool wanted)
{
    mrt_socket *line = context;
    if (!wanted) {
        take_down(line);
        return 0;
    }
    if (line->is_connected) {
        return 1;
    }
    int state = -1;
    if (line->addresses == NULL) {
        struct addrinfo hints = {0};
        hints.ai_socktype = SOCK_STREAM;
        if (getaddrinfo(line->host, line->port, &hints, &line->addresses) != 0) {
            line->addresses = NULL;
            return -1;
        }
        line->address = line->addresses;
        state = try_address(line) ? 0 : -1;
    } else {
        state = progress(line);
    }
    if (state < 0) {
        // The next of the host's addresses, on this call or the next.
        close_descriptor(line);
        line->address = line->address->ai_next;
        if (line->address == NULL) {
            take_down(line);
            return -1;
        }
        state = try_address(line) ? 0 : -1;
    }
    line->is_connected = state > 0;
    return state > 0 ? 1 : 0;
}

int32_t mrt_socket_send(void *context, const uint8_t *bytes, uint32_t count)
{
    mrt_socket *line = context;
    ssize_t sent = send(line->descriptor, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return 0;
    }
    return (int32_t)sent;
}

int32_t mrt_socket_receive(void *context, uint8_t *bytes, uint32_t count)
{
    mrt_socket *line = context;
    ssize_t received = recv(line->descriptor, bytes, count, 0);
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
        return 0;
    }
    // 0 is the end of the stream.
    return received > 0 ? (int32_t)received : -1;
}

void mrt_socket_wait(const mrt_socket *line, uint32_t ms)
{
    struct pollfd entry = {line->descriptor, line->is_connected ? POLLIN : POLLOUT, 0};
    // A negative descriptor is passed over: then this only waits.
    poll(&entry, 1, ms < 60000u ? (int)ms : 60000);
}
