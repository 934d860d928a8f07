// A broker's address as people write it, tls://HOST:PORT or tcp://HOST:PORT, becomes a transport.

#define _POSIX_C_SOURCE 200809L

#include "posix.h"

#include <stdio.h>
#include <string.h>

const mrt_transport *mrt_server_transport(
    mrt_socket *socket, const char *server, const char *authority_file)
{
    static mrt_transport tcp = {
        NULL, mrt_socket_link, mrt_socket_send, mrt_socket_receive};
    static char host[256];
    const char *address = strstr(server, "://");
    const char *port = strrchr(server, ':');
    if (address == NULL || port == address) {
        fprintf(stderr, "%s: not tls://HOST:PORT or tcp://HOST:PORT\n", server);
        return NULL;
    }
    address += strlen("://");
    snprintf(host, sizeof host, "%.*s", (int)(port - address), address);
    mrt_socket_init(socket, host, port + 1);
    if (strncmp(server, "tls://", strlen("tls://")) == 0) {
        return mrt_tls_transport(socket, authority_file);
    }
    tcp.context = socket;
    return &tcp;
}
