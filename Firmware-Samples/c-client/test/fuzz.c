// Hostile bytes at the client: whatever a broker says, no byte outside of what arrived is read, the
// client comes to rest, and it counts right. libFuzzer enters here (`make fuzz`); without it
// mutants.c plays the fuzzer in every test run.
//
// An input is a byte of options and a row of steps: a byte whose lower three bits say what happens
// and whose upper bits say how, and for bytes that arrive their count and themselves.

#include "fuzz.h"

#include "check.h"
#include "mrt/answers.h"
#include "mrt/history.h"
#include "mrt/receipts.h"
#include "mrt/requests.h"
#include "wire.h"

#include <string.h>

enum { RECEIVE_MAXIMUM = 1400, RAM_BYTES = 600, POLLS_MAXIMUM = 100000 };

// What is left of the input, and of what arrives.
static mrt_bytes input, arriving;
static bool is_up, is_dead, acknowledges;
// Bytes that one call of the line takes or gives.
static uint32_t piece;
static mrt_client client;
// Bytes that were looked at add up here, so that the sanitizer sees them read.
static volatile uint32_t sum;

static void look_at(mrt_bytes bytes)
{
    for (uint32_t i = 0; i < bytes.count; i++) {
        sum += bytes.bytes[i];
    }
}

// MARK: The line

static int32_t line_link(void *context, bool wanted)
{
    (void)context;
    is_up = wanted;
    if (!wanted) {
        arriving.count = 0;
        is_dead = false;
    }
    return 1;
}

static int32_t line_send(void *context, const uint8_t *bytes, uint32_t count)
{
    (void)context;
    CHECK(is_up && count > 0);
    mrt_bytes part = {bytes, count < piece ? count : piece};
    look_at(part);
    return is_dead ? -1 : (int32_t)part.count;
}

static int32_t line_receive(void *context, uint8_t *bytes, uint32_t count)
{
    (void)context;
    CHECK(is_up && count > 0);
    uint32_t part = arriving.count < count ? arriving.count : count;
    part = part < piece ? part : piece;
    if (is_dead) {
        return -1;
    }
    if (part > 0) {
        memcpy(bytes, arriving.bytes, part);
    }
    arriving.bytes += part;
    arriving.count -= part;
    return (int32_t)part;
}

// MARK: The program

// Reads content as everything that it can be an answer to.
static void look_at_content(mrt_bytes content)
{
    mrt_presence presence;
    mrt_bytes groups, value;
    mrt_listed_group group;
    mrt_group_description description;
    mrt_kept_message kept;
    uint64_t next;
    bool more;
    look_at(content);
    if (mrt_read_presence(content, &presence)) {
        while (mrt_next_string(&presence.devices, &value)) {
            look_at(value);
        }
    }
    if (mrt_read_groups(content, &more, &groups)) {
        while (mrt_next_group(&groups, &group)) {
            look_at(group.group);
            look_at(group.title);
        }
    }
    if (mrt_read_history(content, &next, &groups)) {
        while (mrt_next_kept(&groups, &kept)) {
            look_at(kept.from);
            look_at(kept.body);
        }
    }
    if (mrt_read_description(content, &description)) {
        look_at(description.owner);
        look_at(description.title);
        look_at(description.meta);
        while (mrt_next_string(&description.members, &value)) {
            look_at(value);
        }
    }
}

// Reads a delivery as everything that it can be.
static void look_at_delivery(mrt_delivery delivery)
{
    mrt_fields fields;
    mrt_receipt receipt;
    mrt_recall recall;
    if (mrt_take_fields(&delivery, &fields)) {
        look_at(delivery.body);
        for (uint32_t id = 0; id < MRT_FIELD_COUNT; id++) {
            look_at(fields.values[id]);
            sum += (uint32_t)mrt_field_number(fields.values[id]);
        }
    }
    if (mrt_read_receipt(&delivery, &receipt)) {
        look_at(receipt.message_id);
        look_at(receipt.address);
        look_at(receipt.text);
    }
    if (mrt_read_recall(&delivery, &recall)) {
        look_at(recall.message_id);
        look_at(recall.detail);
        look_at(recall.body);
    }
}

static void look_at_id(mrt_bytes id)
{
    CHECK(id.count >= 1 && id.count <= MRT_ID_MAXIMUM);
    look_at(id);
}

static void look_at_event(const mrt_event *event)
{
    const mrt_delivery *delivery = &event->as.delivery;
    mrt_bytes refusals = event->as.result.refusals;
    mrt_group_event change;
    mrt_bytes user;
    uint32_t index = UINT32_MAX;
    mrt_reason reason;
    switch (event->kind) {
    case MRT_EVENT_CONNECTED:
        look_at_id(event->as.granted.user);
        break;
    case MRT_EVENT_DISCONNECTED:
        look_at(event->as.ended.text);
        break;
    case MRT_EVENT_MESSAGE:
    case MRT_EVENT_OVERSIZE:
        look_at_id(delivery->from);
        look_at(delivery->address);
        look_at(delivery->body);
        look_at_delivery(*delivery);
        if (delivery->kind == MRT_FROM_GROUP_EVENT && mrt_read_group_event(delivery, &change)) {
            look_at(change.content);
            while (mrt_next_string(&change.users, &user)) {
                look_at(user);
            }
        }
        break;
    case MRT_EVENT_RESULT:
        look_at(event->as.result.message_id);
        while (mrt_next_refusal(&refusals, &index, &reason)) {
        }
        break;
    case MRT_EVENT_ANSWER:
        look_at_content(event->as.content);
        break;
    default:
        break;
    }
}

static void happened(void *context, const mrt_event *event)
{
    (void)context;
    CHECK(event->kind != MRT_EVENT_NOTHING);
    look_at_event(event);
    if ((event->kind == MRT_EVENT_MESSAGE || event->kind == MRT_EVENT_OVERSIZE)
        && event->number > 0 && acknowledges) {
        CHECK(mrt_acknowledge(&client, event->number) == MRT_IDLE);
    }
}

// MARK: Steps

static uint8_t next_byte(void)
{
    uint8_t byte = 0;
    if (input.count > 0) {
        byte = *input.bytes++;
        input.count--;
    }
    return byte;
}

static void settle_down(uint32_t now)
{
    for (int i = 0; i < POLLS_MAXIMUM; i++) {
        if (mrt_poll(&client, now) <= 0 && arriving.count == 0) {
            return;
        }
        if (!is_up) {
            arriving.count = 0;
        }
    }
    CHECK(!"the client comes to rest");
}

static void arrive(const uint8_t *bytes, uint32_t count, uint32_t now)
{
    // Exactly as large as it is, so that a step beyond it is seen.
    uint8_t *exact = malloc(count > 0 ? count : 1);
    CHECK(exact != NULL);
    if (count > 0) {
        memcpy(exact, bytes, count);
    }
    arriving.bytes = exact;
    arriving.count = count;
    settle_down(now);
    arriving.count = 0;
    free(exact);
}

static void send(uint8_t how)
{
    static const uint8_t text[] = "hello";
    mrt_message message = {.grade = (mrt_grade)(how % 3),
        .target = MRT_TO_USER,
        .address = {(const uint8_t *)"bob", 3},
        .fields = mrt_asks(how / 3),
        .body = {text, sizeof text - 1}};
    mrt_send(&client, &message, NULL);
}

// One packet, decoded as it is: whole, and as one whose end is missing.
static void decode(void)
{
    mrt_event event;
    mrt_frame frame;
    uint8_t header = next_byte();
    uint8_t *exact = malloc(input.count + 1);
    CHECK(exact != NULL);
    memcpy(exact + 1, input.bytes, input.count);
    exact[0] = header;
    for (uint32_t missing = 0; missing < 2; missing++) {
        if (mrt_decode(header, exact + 1, input.count, missing, &event) == MRT_SUCCESS) {
            look_at_event(&event);
        }
    }
    if (mrt_read_frame(exact, input.count + 1, &frame) == MRT_SUCCESS) {
        CHECK(frame.head_count >= 2 && frame.head_count <= frame.needed);
        CHECK(frame.needed <= input.count + 1);
    }
    free(exact);
}

static void log_in(uint32_t now)
{
    // The vector connack-new-session.
    static const uint8_t connack[] = {0x20, 0x2d, 0x05, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab,
        0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10, 0x80, 0xd8, 0xc1, 0xa2, 0x8c,
        0x34, 0xac, 0x02, 0x80, 0xf5, 0x24, 0x20, 0x10, 0x80, 0x80, 0x04, 0x80, 0x08, 0xe8, 0xfb,
        0x03, 0x05, 0x61, 0x6c, 0x69, 0x63, 0x65};
    settle_down(now);
    if (is_up) {
        arrive(connack, sizeof connack, now);
    }
}

static void run(uint8_t options)
{
    static const uint8_t entropy[8] = {0xFF};
    static const mrt_record record = {0, 0};
    static const mrt_transport transport = {NULL, line_link, line_send, line_receive};
    static uint8_t ram[RAM_BYTES];
    static uint8_t transmit[160];
    mrt_storage storage = mrt_ram_storage(ram, sizeof ram);
    uint32_t receive_size = (options & 1) != 0 ? MRT_PACKET_MINIMUM : RECEIVE_MAXIMUM;
    uint8_t *receive = malloc(receive_size);
    CHECK(receive != NULL);
    mrt_config config = {.transport = &transport,
        .storage = &storage,
        .happened = happened,
        .receive = receive,
        .receive_size = receive_size,
        .transmit = transmit,
        .transmit_size = sizeof transmit,
        .extensions = {mrt_accepts, sizeof mrt_accepts},
        .inbox_window = 4,
        .keep_alive_seconds = 300,
        .session_expiry_seconds = MRT_EXPIRY_DEFAULT};
    uint32_t now = 0xFFFF0000u;
    mrt_bytes bob = {(const uint8_t *)"bob", 3};
    piece = (options & 2) != 0 ? 1 : UINT32_MAX;
    acknowledges = (options & 4) != 0;
    is_up = is_dead = false;
    arriving.count = 0;
    CHECK(mrt_init(&client, &config, &record, entropy) == MRT_IDLE);
    mrt_start(&client);
    while (input.count > 0) {
        uint8_t step = next_byte();
        uint8_t how = step >> 3;
        uint32_t count = 0;
        switch (step & 7) {
        case 0:
        case 1:
            count = next_byte();
            count = count < input.count ? count : input.count;
            arrive(input.bytes, count, now);
            input.bytes += count;
            input.count -= count;
            break;
        case 2:
            log_in(now);
            break;
        case 3:
            send(how);
            break;
        case 4:
            now += (uint32_t)1 << how % 20;
            break;
        case 5:
            is_dead = is_up;
            break;
        case 6:
            mrt_ask_presence(&client, bob, NULL);
            mrt_list_groups(&client, bob, NULL);
            mrt_ask_history(&client, MRT_TO_USER, bob, 0, 1 + how, NULL);
            mrt_tell_applied(&client, how, 0, bob, NULL);
            break;
        default:
            if ((how & 1) != 0) {
                mrt_leave(&client, MRT_SUCCESS, MRT_EXPIRY_DEFAULT);
            } else {
                mrt_start(&client);
            }
            break;
        }
        settle_down(now);
        CHECK(mrt_pending_count(&client) <= RAM_BYTES / 16);
        CHECK(mrt_idle_ms(&client) <= INT32_MAX);
        CHECK(client.received <= receive_size && client.waiting <= sizeof transmit);
    }
    free(receive);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    input.bytes = bytes;
    input.count = (uint32_t)count;
    uint8_t options = next_byte();
    if ((options & 0x80) != 0) {
        decode();
    } else {
        run(options);
    }
    return 0;
}
