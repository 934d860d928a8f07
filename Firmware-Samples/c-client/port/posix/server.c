// A broker's address as people write it, tls://HOST:PORT or tcp://HOST:PORT, becomes a transport.

#define _POSIX_C_SOURCE 200809L

#include "posix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t mrt_psk_bytes(const mrt_proof *proof, uint8_t key[MRT_PSK_MAXIMUM])
{
    uint32_t count = 0;
    for (const char *next = proof->psk; next != NULL && *next != '\0'; next += 2) {
        char pair[3] = {next[0], next[1], '\0'};
        char *end = NULL;
        unsigned long byte = strtoul(pair, &end, 16);
        if (end != pair + 2 || count == MRT_PSK_MAXIMUM) {
            return 0;
        }
        key[count++] = (uint8_t)byte;
    }
    return count;
}

const mrt_transport *mrt_server_transport(
    mrt_socket *socket, const char *server, const mrt_proof *proof)
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
        return mrt_tls_transport(socket, proof);
    }
    tcp.context = socket;
    return &tcp;
}
