// The state machine against a line and a broker that the test plays: bytes are compared, time is
// passed in, and nothing is waited for.

#include "line.h"

// MARK: Logging in

static void the_first_login_takes_over_and_later_ones_do_not(void)
{
    init(0x0123456789abcdef, 1742);
    mrt_start(&client);
    settle_down();
    // Resume and outbox; keep-alive 300, window 16, no packet maximum.
    expect_sent("102000034d52540114ac021000000123456789abcdefce0d00000000000000ff0000");
    broker_says(CONNACK);
    settle_down();
    CHECK(!last_event(MRT_EVENT_CONNECTED)->as.granted.is_new_inbox);
    CHECK(mrt_current_record(&client).number == 1742);
    wire.is_dead = true;
    settle_down();
    CHECK(last_event(MRT_EVENT_DISCONNECTED)->as.ended.retry_ms <= 1000);
    now += 1000;
    settle_down();
    // Automatic re-login, resume, cookie, outbox.
    expect_sent("102800034d5254011eac021000000123456789abcdefce0d"
                "fedcba987654321000000000000000ff0000");
}

static void another_session_begins_a_new_record(void)
{
    init(7, 1742);
    log_in();
    CHECK(last_event(MRT_EVENT_CONNECTED)->as.granted.is_new_inbox);
    CHECK(mrt_current_record(&client).epoch == 0x0123456789abcdef);
    CHECK(mrt_current_record(&client).number == 0);
}

static void a_refusal_that_forbids_retry_stops(void)
{
    init(0, 0);
    mrt_start(&client);
    settle_down();
    broker_says("20028600");
    settle_down();
    CHECK(last_event(MRT_EVENT_DISCONNECTED)->as.ended.is_final);
    CHECK(events[event_count - 1].event.reason == MRT_BAD_USER_NAME_OR_PASSWORD);
    now += 10000000;
    CHECK(mrt_poll(&client, now) == MRT_ERROR_STOPPED);
    CHECK(mrt_idle_ms(&client) > 1000000);
    // The program has another token: it starts anew.
    log_in();
}

static void advice_to_wait_is_followed(void)
{
    init(0, 0);
    mrt_start(&client);
    settle_down();
    broker_says("2011891e746f6f206d616e79206c6f67696e73");
    settle_down();
    CHECK(last_event(MRT_EVENT_DISCONNECTED)->as.ended.retry_ms == 30000);
    CHECK(mrt_idle_ms(&client) == 30000);
    now += 29999;
    CHECK(mrt_poll(&client, now) == MRT_IDLE && !wire.is_up);
    now += 1;
    settle_down();
    CHECK(wire.is_up);
}

static void a_refusal_longer_than_the_buffer_is_understood(void)
{
    init(0, 0);
    mrt_start(&client);
    settle_down();
    // 0x89, 0 s, and 300 bytes of text of which some never come.
    broker_says("20ae028900");
    for (int i = 0; i < 250; i++) {
        broker_says("78");
    }
    settle_down();
    CHECK(last_event(MRT_EVENT_DISCONNECTED)->reason == MRT_SERVER_BUSY);
}

static void waits_grow_are_scattered_and_bounded(void)
{
    init(0, 0);
    wire.state = -1;
    mrt_start(&client);
    uint32_t longest = 0;
    uint32_t distinct = 0;
    uint32_t previous = UINT32_MAX;
    for (uint32_t attempt = 0; attempt < 40; attempt++) {
        event_count = 0;
        settle_down();
        uint32_t wait = last_event(MRT_EVENT_DISCONNECTED)->as.ended.retry_ms;
        uint32_t bound = attempt < 7 ? 1000u << attempt : 120000u;
        CHECK(wait <= bound && wait <= 120000);
        longest = wait > longest ? wait : longest;
        distinct += wait != previous ? 1 : 0;
        previous = wait;
        now += wait;
    }
    CHECK(longest > 60000 && distinct > 35);
}

static void a_line_that_never_comes_up_is_given_up(void)
{
    init(0, 0);
    wire.state = 0;
    mrt_start(&client);
    settle_down();
    now += 29999;
    settle_down();
    CHECK(event_count == 0);
    now += 1;
    CHECK(mrt_poll(&client, now) == MRT_WORKED);
    CHECK(last_event(MRT_EVENT_DISCONNECTED)->reason == MRT_KEEP_ALIVE_TIMEOUT);
}

// MARK: Receiving

// Numbers 1 and 2 from alice, text "x".
#define DELIVER_1 "5110010205616c69636580d8c1a28c340078"
#define DELIVER_2 "5110020205616c69636580d8c1a28c340078"
#define DELIVER_3 "5110030205616c69636580d8c1a28c340078"

static void a_burst_is_acknowledged_once(void)
{
    init(0, 0);
    log_in();
    broker_says(DELIVER_1);
    mrt_poll(&client, now);
    CHECK(last_event(MRT_EVENT_MESSAGE)->number == 1);
    CHECK(strcmp(events[event_count - 1].from, "alice") == 0);
    CHECK(strcmp(events[event_count - 1].body, "x") == 0);
    settle_down();
    // Not processed yet: nothing is said.
    expect_sent("");
    CHECK(mrt_acknowledge(&client, 2) == MRT_ERROR_INVALID);
    CHECK(mrt_acknowledge(&client, 1) == MRT_IDLE);
    settle_down();
    expect_sent("610101");
    CHECK(mrt_current_record(&client).number == 1);
}

static void half_a_window_is_acknowledged_at_once(void)
{
    init(0, 0);
    log_in();
    broker_says(DELIVER_1 DELIVER_2 DELIVER_3);
    mrt_poll(&client, now);
    mrt_acknowledge(&client, 1);
    expect_sent("");
    // More is waiting to be read, but the window of 4 is half used.
    mrt_poll(&client, now);
    expect_sent("610101");
    mrt_acknowledge(&client, 2);
    mrt_poll(&client, now);
    expect_sent("");
    settle_down();
    expect_sent("610102");
}

static void what_was_processed_comes_again_and_is_only_acknowledged(void)
{
    init(0x0123456789abcdef, 2);
    log_in();
    event_count = 0;
    broker_says(DELIVER_1 DELIVER_2 DELIVER_3);
    settle_down();
    CHECK(event_count == 1 && events[0].event.number == 3);
    expect_sent("610102");
}

static void a_message_that_does_not_fit_is_reported(void)
{
    init(0, 0);
    log_in();
    // 300 bytes of body and a next message behind it; all of it in pieces of 7 bytes.
    wire.piece = 7;
    broker_says("51bb02010205616c69636580d8c1a28c3400");
    for (int i = 0; i < 300; i++) {
        broker_says("79");
    }
    broker_says(DELIVER_2);
    settle_down();
    CHECK(events[event_count - 2].event.kind == MRT_EVENT_OVERSIZE);
    CHECK(events[event_count - 2].event.number == 1);
    CHECK(events[event_count - 2].event.missing == 318 - RECEIVE_BYTES);
    CHECK(strcmp(events[event_count - 2].from, "alice") == 0);
    CHECK(strlen(events[event_count - 2].body) > 100);
    CHECK(last_event(MRT_EVENT_MESSAGE)->number == 2);
    mrt_acknowledge(&client, 2);
    settle_down();
    expect_sent("610102");
}

static void a_broken_packet_ends_the_connection(void)
{
    init(0, 0);
    log_in();
    broker_says("0000");
    settle_down();
    CHECK(last_event(MRT_EVENT_DISCONNECTED)->reason == MRT_MALFORMED_PACKET);
    CHECK(!wire.is_up);
}

static void any_bytes_are_survived(void)
{
    uint32_t random = 12345;
    for (int round = 0; round < 3000; round++) {
        init(0, 0);
        log_in();
        send_hello();
        for (int i = 0; i < 400; i++) {
            random = random * 1664525u + 1013904223u;
            wire.in[wire.in_end++] = (uint8_t)(random >> 16);
        }
        // Now and then something that begins like a packet.
        wire.in[0] = (uint8_t)(round % 16 << 4);
        wire.in[1] = (uint8_t)(round % 128);
        wire.piece = 1 + random % 50;
        for (int i = 0; i < 500 && event_count < EVENTS - 2; i++) {
            mrt_poll(&client, now);
        }
    }
}

// MARK: Sending

static void numbers_go_out_within_the_window_and_again_after_a_loss(void)
{
    init(0, 0);
    log_in();
    CHECK(send_hello() == 1 && send_hello() == 2 && send_hello() == 3);
    settle_down();
    // The window is 2.
    expect_sent("310c010003626f620068656c6c6f310c020003626f620068656c6c6f");
    broker_says("400102");
    settle_down();
    CHECK(last_event(MRT_EVENT_RESULT)->number == 2 && mrt_pending_count(&client) == 2);
    expect_sent("");
    wire.is_dead = true;
    settle_down();
    now += 1000;
    settle_down();
    wire.out_count = 0;
    broker_says(CONNACK);
    settle_down();
    // 1 has no result yet, 2 has, 3 is beyond the window as the broker knows it.
    expect_sent("310c010003626f620068656c6c6f");
    broker_says("400101");
    settle_down();
    // Half of the window is seen: that is said, and makes room.
    expect_sent("620102310c030003626f620068656c6c6f");
    broker_says("41020397");
    settle_down();
    CHECK(last_event(MRT_EVENT_RESULT)->reason == MRT_QUOTA_EXCEEDED);
    CHECK(mrt_pending_count(&client) == 0);
    unsigned told = event_count;
    broker_says("400103");
    settle_down();
    CHECK(event_count == told);
}

static void a_slow_line_gets_whole_packets_in_pieces(void)
{
    init(0, 0);
    log_in();
    wire.piece = 3;
    send_hello();
    send_hello();
    settle_down();
    expect_sent("310c010003626f620068656c6c6f310c020003626f620068656c6c6f");
}

static void a_full_store_refuses(void)
{
    init(0, 0);
    mrt_message message = hello();
    uint64_t number = 0;
    unsigned count = 0;
    while (mrt_send(&client, &message, &number) == MRT_IDLE) {
        count++;
    }
    CHECK(count == RAM_BYTES / 30 && mrt_send(&client, &message, NULL) == MRT_ERROR_FULL);
    CHECK(event_count == 0 && mrt_pending_count(&client) == count);
}

static void a_full_store_drops_the_oldest_where_asked(void)
{
    config.when_full = MRT_DROP_OLDEST;
    init(0, 0);
    unsigned room = RAM_BYTES / 30;
    for (unsigned i = 0; i < room + 3; i++) {
        CHECK(send_hello() == i + 1);
    }
    CHECK(event_count == 3 && mrt_pending_count(&client) == room);
    CHECK(events[0].event.kind == MRT_EVENT_DROPPED && events[0].event.number == 1);
    CHECK(events[2].event.number == 3);
    log_in();
    config.when_full = MRT_REFUSE_NEW;
    CHECK(client.announced == 3);
}

static void what_is_larger_than_the_broker_takes_is_refused_here(void)
{
    init(0, 0);
    char body[160];
    memset(body, 'x', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    mrt_message message = hello();
    message.body = mrt_text(body);
    CHECK(mrt_send(&client, &message, NULL) == MRT_IDLE);
    send_hello();
    log_in();
    settle_down();
    CHECK(last_event(MRT_EVENT_RESULT)->number == 1);
    CHECK(events[event_count - 1].event.reason == MRT_PACKET_TOO_LARGE);
    CHECK(mrt_pending_count(&client) == 1);
}

static void arguments_are_checked(void)
{
    init(0, 0);
    mrt_message message = hello();
    message.address.count = 0;
    CHECK(mrt_send(&client, &message, NULL) == MRT_ERROR_INVALID);
    message = hello();
    message.is_raw = true;
    CHECK(mrt_send(&client, &message, NULL) == MRT_ERROR_INVALID);
    message = hello();
    message.target = MRT_TO_LIST;
    CHECK(mrt_send(&client, &message, NULL) == MRT_ERROR_INVALID);
    message = hello();
    message.grade = MRT_TRANSIENT;
    CHECK(mrt_send(&client, &message, NULL) == MRT_ERROR_NOT_CONNECTED);
}

static void a_direct_packet_waits_for_a_gap(void)
{
    init(0, 0);
    log_in();
    send_hello();
    wire.piece = 0;
    char body[100];
    memset(body, 'x', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    mrt_message message = hello();
    message.body = mrt_text(body);
    CHECK(mrt_send(&client, &message, NULL) == MRT_IDLE);
    mrt_poll(&client, now);
    mrt_poll(&client, now);
    message = hello();
    message.grade = MRT_TRANSIENT;
    message.body = mrt_text("a transient one that does not fit behind the others that stand there");
    CHECK(mrt_send(&client, &message, NULL) == MRT_ERROR_BUSY);
    wire.piece = 1000;
    mrt_status status = MRT_ERROR_BUSY;
    for (int i = 0; i < 10 && status == MRT_ERROR_BUSY; i++) {
        mrt_poll(&client, now);
        status = mrt_send(&client, &message, NULL);
    }
    CHECK(status == MRT_IDLE);
}

static void requests_are_spelled_as_the_vectors(void)
{
    uint64_t id = 0;
    init(0, 0);
    log_in();
    CHECK(mrt_subscribe(&client, mrt_text("a/+/#"), MRT_ONCE, &id) == MRT_IDLE && id == 1);
    CHECK(mrt_unsubscribe(&client, mrt_text("a/+/#"), NULL) == MRT_IDLE);
    mrt_message will = {
        .target = MRT_TO_GROUP, .address = mrt_text("fleet-7"), .body = mrt_text("lost")};
    CHECK(mrt_set_will(&client, &will, 30, NULL) == MRT_IDLE);
    CHECK(mrt_clear_will(&client, NULL) == MRT_IDLE);
    settle_down();
    expect_sent("7008010102612f2b2f23"
                "70070202612f2b2f23"
                "701203031e000207666c6565742d37006c6f7374"
                "70020404");
    const uint8_t key[8] = {0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88};
    mrt_bytes users[2] = {mrt_text("alice"), mrt_text("bob")};
    mrt_allow_list allowed = {false, users, 2};
    mrt_bytes group = mrt_text("7h1g2k3m4n5p6");
    CHECK(mrt_create_group(&client, key, mrt_text("Pump house 7"), mrt_text("{\"rate\":60}"),
              &allowed, &id)
        == MRT_IDLE && id == 5);
    CHECK(mrt_join_group(&client, group, NULL) == MRT_IDLE);
    CHECK(mrt_kick(&client, group, mrt_text("bob"), NULL) == MRT_IDLE);
    settle_down();
    expect_sent("702e051011223344556677880c50756d7020686f75736520370b7b2272617465223a36307d"
                "0105616c69636503626f62"
                "701006110d37683167326b336d346e357036"
                "701407130d37683167326b336d346e35703603626f62");
    mrt_list_groups(&client, mrt_text(""), NULL);
    mrt_describe_group(&client, group, mrt_text(""), NULL);
    users[0] = mrt_text("bob");
    users[1] = mrt_text("carol");
    mrt_set_group_allow_list(&client, group, &allowed, NULL);
    settle_down();
    expect_sent("7003081500"
                "701109160d37683167326b336d346e35703600"
                "701b0a180d37683167326b336d346e3570360103626f62056361726f6c");
    broker_says("800c018f6261642066696c746572");
    settle_down();
    CHECK(last_event(MRT_EVENT_ANSWER)->number == 1);
    CHECK(events[event_count - 1].event.reason == MRT_TOPIC_FILTER_INVALID);
}

// MARK: Time

static void silence_is_noticed_also_where_the_clock_wraps(void)
{
    now = UINT32_MAX - 100000;
    init(0, 0);
    log_in();
    CHECK(mrt_idle_ms(&client) == 300000);
    now += 299999;
    settle_down();
    expect_sent("");
    now += 1;
    settle_down();
    expect_sent("c000");
    CHECK(mrt_idle_ms(&client) == 150000);
    broker_says("d000");
    settle_down();
    now += 300000;
    settle_down();
    expect_sent("c000");
    now += 149999;
    settle_down();
    CHECK(mrt_is_connected(&client));
    now += 1;
    settle_down();
    CHECK(last_event(MRT_EVENT_DISCONNECTED)->reason == MRT_KEEP_ALIVE_TIMEOUT);
    now = 0;
}

static void a_good_connection_begins_the_waits_anew(void)
{
    init(0, 0);
    wire.state = -1;
    mrt_start(&client);
    for (int i = 0; i < 10; i++) {
        settle_down();
        now += 120000;
    }
    wire.state = 1;
    settle_down();
    broker_says(CONNACK);
    settle_down();
    CHECK(client.failures > 5);
    now += 60000;
    settle_down();
    wire.is_dead = true;
    settle_down();
    CHECK(last_event(MRT_EVENT_DISCONNECTED)->as.ended.retry_ms <= 1000);
}

// MARK: Leaving

static void after_a_goodbye_nothing_arrives(void)
{
    init(0, 0);
    log_in();
    mrt_leave(&client, MRT_SUCCESS, 0);
    broker_says(DELIVER_1);
    settle_down();
    expect_sent("e0020000");
    unsigned told = event_count;
    broker_says("e00100");
    settle_down();
    CHECK(event_count == told + 1);
    CHECK(last_event(MRT_EVENT_DISCONNECTED)->as.ended.is_final);
    now += 1000000;
    CHECK(mrt_poll(&client, now) == MRT_IDLE && !wire.is_up);
}

static void what_was_acknowledged_is_said_before_the_goodbye(void)
{
    init(0, 0);
    log_in();
    broker_says(DELIVER_1);
    mrt_poll(&client, now);
    mrt_acknowledge(&client, 1);
    mrt_leave(&client, MRT_SUCCESS, MRT_EXPIRY_DEFAULT);
    settle_down();
    expect_sent("610101e000");
}

static void a_takeover_stops(void)
{
    init(0, 0);
    log_in();
    broker_says("e00e8e616e6f74686572206c6f67696e");
    settle_down();
    CHECK(last_event(MRT_EVENT_DISCONNECTED)->as.ended.is_final);
    CHECK(mrt_poll(&client, now) == MRT_ERROR_STOPPED);
}

int main(void)
{
    RUN(the_first_login_takes_over_and_later_ones_do_not);
    RUN(another_session_begins_a_new_record);
    RUN(a_refusal_that_forbids_retry_stops);
    RUN(advice_to_wait_is_followed);
    RUN(a_refusal_longer_than_the_buffer_is_understood);
    RUN(waits_grow_are_scattered_and_bounded);
    RUN(a_line_that_never_comes_up_is_given_up);
    RUN(a_burst_is_acknowledged_once);
    RUN(half_a_window_is_acknowledged_at_once);
    RUN(what_was_processed_comes_again_and_is_only_acknowledged);
    RUN(a_message_that_does_not_fit_is_reported);
    RUN(a_broken_packet_ends_the_connection);
    RUN(any_bytes_are_survived);
    RUN(numbers_go_out_within_the_window_and_again_after_a_loss);
    RUN(a_slow_line_gets_whole_packets_in_pieces);
    RUN(a_full_store_refuses);
    RUN(a_full_store_drops_the_oldest_where_asked);
    RUN(what_is_larger_than_the_broker_takes_is_refused_here);
    RUN(arguments_are_checked);
    RUN(a_direct_packet_waits_for_a_gap);
    RUN(requests_are_spelled_as_the_vectors);
    RUN(silence_is_noticed_also_where_the_clock_wraps);
    RUN(a_good_connection_begins_the_waits_anew);
    RUN(after_a_goodbye_nothing_arrives);
    RUN(what_was_acknowledged_is_said_before_the_goodbye);
    RUN(a_takeover_stops);
    return 0;
}
