// A broker's addresses as people write them, tls://HOST:PORT or tcp://HOST:PORT with commas between
// them, become a transport.

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

// The servers of this program: HOST:PORT as they were given, and both apart.
static struct {
    mrt_servers rounds;
    const char *names[MRT_SERVERS_MAXIMUM];
    char texts[MRT_SERVERS_MAXIMUM][264];
    char hosts[MRT_SERVERS_MAXIMUM][256];
    const char *ports[MRT_SERVERS_MAXIMUM];
} list;

// Adds HOST:PORT, which ends at `end`. False if it is none, or one too many.
static bool add_server(const char *text, const char *end)
{
    uint8_t i = list.rounds.count;
    size_t count = (size_t)(end - text);
    if (i == MRT_SERVERS_MAXIMUM || count >= sizeof list.texts[i]) {
        return false;
    }
    memcpy(list.texts[i], text, count);
    list.texts[i][count] = '\0';
    const char *colon = strrchr(list.texts[i], ':');
    if (colon == NULL || colon == list.texts[i]
        || (size_t)(colon - list.texts[i]) >= sizeof list.hosts[i]) {
        return false;
    }
    // The list was cleared, so that the host is terminated.
    memcpy(list.hosts[i], list.texts[i], (size_t)(colon - list.texts[i]));
    list.ports[i] = colon + 1;
    list.names[i] = list.texts[i];
    list.rounds.count++;
    return true;
}

// Reads tls://HOST:PORT,tls://HOST:PORT: all of one kind.
static bool read_servers(const char *text)
{
    static const char tls[] = "tls://", tcp[] = "tcp://";
    const char *kind = strncmp(text, tls, strlen(tls)) == 0 ? tls : tcp;
    memset(&list, 0, sizeof list);
    list.rounds.names = list.names;
    for (;;) {
        const char *end = text + strcspn(text, ",");
        if (strncmp(text, kind, strlen(kind)) != 0 || !add_server(text + strlen(kind), end)) {
            return false;
        }
        if (*end == '\0') {
            return true;
        }
        text = end + 1;
    }
}

const mrt_transport *mrt_server_transport(
    mrt_socket *socket, const char *server, const mrt_proof *proof)
{
    static mrt_transport tcp = {
        NULL, mrt_socket_link, mrt_socket_send, mrt_socket_receive};
    if (!read_servers(server)) {
        fprintf(stderr, "%s: not tls://HOST:PORT or tcp://HOST:PORT, 1 to %d of one kind\n", server,
            MRT_SERVERS_MAXIMUM);
        return NULL;
    }
    mrt_socket_init(socket, list.hosts[0], list.ports[0]);
    if (strncmp(server, "tls://", strlen("tls://")) == 0) {
        return mrt_tls_transport(socket, proof);
    }
    tcp.context = socket;
    return &tcp;
}

uint32_t mrt_server_next(mrt_socket *socket, mrt_client *client, const mrt_event *event)
{
    uint32_t wait = mrt_servers_next(&list.rounds, client, event);
    if (event->kind == MRT_EVENT_DISCONNECTED) {
        // The line is down: the next attempt resolves the name anew.
        socket->host = list.hosts[list.rounds.index];
        socket->port = list.ports[list.rounds.index];
    }
    return wait;
}
