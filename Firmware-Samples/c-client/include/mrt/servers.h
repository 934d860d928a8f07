// Several addresses of one broker, those of the nodes of a cluster: which of them the transport
// connects to (docs/PROTOCOL.md section 8, "Several addresses"). A program with one address does
// not need it, and then it costs nothing.
//
//     static const char *const names[] = {"a.example:8883", "b.example:8883"};
//     static mrt_servers servers = {.names = names, .count = 2};
//
//     static void happened(void *context, const mrt_event *event)
//     {
//         mrt_servers_next(&servers, &client, event);
//         ... what the program does with the event
//     }
//
// The transport's `link` connects to names[servers.index] when it begins to open a connection.

#ifndef MRT_SERVERS_H
#define MRT_SERVERS_H

#include "mrt/client.h"

enum { MRT_SERVERS_MAXIMUM = 8 };

// The program sets `names` and `count`, reads `index`, and leaves the rest at 0.
typedef struct mrt_servers {
    // HOST:PORT of each, terminated: what a refusal may name.
    const char *const *names;
    // 1 to MRT_SERVERS_MAXIMUM.
    uint8_t count;
    // The server of the present attempt or connection, or of the next one.
    uint8_t index;
    // The servers that were tried in this round, one bit for each.
    uint8_t tried;
    // The failures that the client had counted when the round began.
    uint8_t failures;
    bool is_joined;
} mrt_servers;

// Call it first in the callback, with each event. After a lost connection or attempt it selects the
// next server. Each server is tried once in a round, without a wait; one of `names` that a refusal
// with MRT_USE_ANOTHER_SERVER names is the next, and no other server is connected to. The client's
// wait follows the round, a session that has ended, and every other refusal.
//
// Returns the milliseconds until the next attempt, in place of `as.ended.retry_ms`; 0 for other
// events.
uint32_t mrt_servers_next(mrt_servers *servers, mrt_client *client, const mrt_event *event);

#endif
