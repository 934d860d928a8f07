// The rounds through several addresses, with the client of the other tests.

#include "line.h"
#include "mrt/servers.h"

static const char *const names[] = {"a:1", "b:1", "c:1"};
static mrt_servers servers;
// The wait after the last loss, and the number of logins and losses.
static uint32_t wait;
static unsigned told;

static void happened(void *context, const mrt_event *event)
{
    (void)context;
    uint32_t ms = mrt_servers_next(&servers, &client, event);
    if (event->kind == MRT_EVENT_DISCONNECTED) {
        wait = ms;
    }
    told++;
}

static void begin(uint8_t count)
{
    memset(&servers, 0, sizeof servers);
    servers.names = names;
    servers.count = count;
    config.happened = happened;
    init(0, 0);
    mrt_start(&client);
}

// One attempt at a server whose broker says this; nothing for no broker. It ends with the event.
static void attempt(const char *server, const char *answer)
{
    CHECK(strcmp(names[servers.index], server) == 0);
    now += mrt_idle_ms(&client);
    wire.state = answer[0] == '\0' ? -1 : 1;
    unsigned before = told;
    bool has_answered = false;
    for (int i = 0; told == before; i++) {
        CHECK(i < 100);
        mrt_poll(&client, now);
        if (wire.is_up && !has_answered) {
            broker_says(answer);
            has_answered = true;
        }
    }
}

// 0x9C that names no server, b:1, and one that is not in the list.
#define REDIRECTION "20029c00"
#define TO_B "20059c00623a31"
#define TO_STRANGER "20059c00643a31"
#define BUSY "20028905"

static void each_server_is_tried_once_between_two_waits(void)
{
    begin(3);
    for (int round = 0; round < 4; round++) {
        attempt("a:1", "");
        CHECK(wait == 0);
        attempt("b:1", REDIRECTION);
        CHECK(wait == 0);
        attempt("c:1", "");
        CHECK(client.failures == round + 1 && wait == mrt_idle_ms(&client));
        CHECK(wait <= 1000u << round);
    }
}

static void one_server_waits_each_time(void)
{
    begin(1);
    attempt("a:1", "");
    attempt("a:1", TO_B);
    CHECK(client.failures == 2);
}

static void a_redirection_is_followed_within_the_list(void)
{
    begin(3);
    attempt("a:1", TO_STRANGER);
    CHECK(wait == 0);
    attempt("b:1", TO_STRANGER);
    attempt("c:1", TO_STRANGER);
    CHECK(client.failures == 1);
    attempt("a:1", "");
    attempt("b:1", "20059c00633a31");
    attempt("c:1", CONNACK);
    CHECK(mrt_is_connected(&client));
}

static void servers_that_name_each_other_end_the_round(void)
{
    begin(2);
    for (int round = 0; round < 3; round++) {
        attempt("a:1", TO_B);
        CHECK(wait == 0);
        attempt("b:1", "20059c00613a31");
        CHECK(client.failures == round + 1);
    }
}

static void a_session_that_ends_is_followed_by_the_next_server_after_a_wait(void)
{
    begin(3);
    attempt("a:1", CONNACK);
    wire.is_dead = true;
    mrt_poll(&client, now);
    CHECK(client.failures == 1 && wait == mrt_idle_ms(&client));
    attempt("b:1", "");
    CHECK(wait == 0 && client.failures == 1);
    attempt("c:1", BUSY);
    // It has asked to wait.
    CHECK(wait >= 5000);
    attempt("a:1", "");
    CHECK(wait == 0);
}

static void the_wait_stays_at_its_maximum(void)
{
    begin(2);
    for (int round = 0; round < 12; round++) {
        attempt("a:1", "");
        attempt("b:1", "");
    }
    CHECK(client.failures == 7);
}

int main(void)
{
    RUN(each_server_is_tried_once_between_two_waits);
    RUN(one_server_waits_each_time);
    RUN(a_redirection_is_followed_within_the_list);
    RUN(servers_that_name_each_other_end_the_round);
    RUN(a_session_that_ends_is_followed_by_the_next_server_after_a_wait);
    RUN(the_wait_stays_at_its_maximum);
    return 0;
}
