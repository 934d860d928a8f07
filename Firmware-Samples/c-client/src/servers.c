// The rounds through the addresses of a broker. It knows no transport: it changes the client's wait
// and says which address is the next.

#include "mrt/servers.h"

static uint8_t following(const mrt_servers *servers)
{
    return (uint8_t)(servers->index + 1 < servers->count ? servers->index + 1 : 0);
}

static bool is_tried(const mrt_servers *servers, uint8_t server)
{
    return ((uint32_t)servers->tried >> server & 1u) != 0;
}

// The server that a refusal has named, as it is written in the list; `count` if it is none of them.
static uint8_t named(const mrt_servers *servers, const mrt_event *event)
{
    mrt_bytes text = event->as.ended.text;
    uint8_t i = 0;
    if (event->reason != MRT_USE_ANOTHER_SERVER || text.count == 0) {
        return servers->count;
    }
    while (i < servers->count
        && (strlen(servers->names[i]) != text.count
            || memcmp(servers->names[i], text.bytes, text.count) != 0)) {
        i++;
    }
    return i;
}

// Selects a server that was not tried in this round. False if the round is over; the next one
// begins with the server that was named, or with the one that follows.
static bool select_untried(mrt_servers *servers, uint8_t other)
{
    uint8_t last = servers->index;
    servers->tried |= (uint8_t)(1u << last);
    if (other < servers->count && !is_tried(servers, other)) {
        servers->index = other;
        return true;
    }
    do {
        servers->index = following(servers);
    } while (servers->index != last && is_tried(servers, servers->index));
    if (servers->index != last) {
        return true;
    }
    servers->index = other < servers->count ? other : following(servers);
    return false;
}

uint32_t mrt_servers_next(mrt_servers *servers, mrt_client *client, const mrt_event *event)
{
    if (event->kind == MRT_EVENT_CONNECTED) {
        servers->is_joined = true;
    }
    if (event->kind != MRT_EVENT_DISCONNECTED) {
        return 0;
    }
    bool is_within = false;
    // A refusal with another reason may have asked to wait.
    bool is_attempt = event->reason == MRT_SUCCESS || event->reason == MRT_USE_ANOTHER_SERVER
        || event->reason == MRT_KEEP_ALIVE_TIMEOUT;
    if (servers->is_joined || !is_attempt || event->as.ended.is_final) {
        servers->index = following(servers);
    } else {
        is_within = select_untried(servers, named(servers, event));
    }
    servers->is_joined = false;
    if (is_within) {
        client->failures = servers->failures;
        client->phase_ms = 0;
        return 0;
    }
    servers->tried = 0;
    servers->failures = client->failures;
    return event->as.ended.retry_ms;
}
