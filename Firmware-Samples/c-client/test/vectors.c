// Reads Tests/Vectors, the packets that all implementations are tested against: what comes from the
// broker is decoded and its meaning compared, what a client sends is encoded from its meaning and
// its bytes compared. Usage: vectors FILE...

#include "meaning.h"
#include "mrt/answers.h"
#include "mrt/receipts.h"
#include "wire.h"

#include <inttypes.h>

static unsigned encoded, decoded, refused, passed_over;

// MARK: From the broker

static void describe_granted(text *text, const mrt_granted *granted)
{
    add_mark(text, " present", granted->is_session_present);
    add_mark(text, " will", granted->has_will);
    add(text, " epoch=%016" PRIx64, granted->session_epoch);
    add(text, " cookie=%016" PRIx64, granted->cookie);
    add(text, " time=%" PRIu64, granted->server_time_ms);
    add(text, " keepalive=%" PRIu64, granted->keep_alive_seconds);
    add(text, " expiry=%" PRIu64, granted->session_expiry_seconds);
    add(text, " sendwindow=%" PRIu64, granted->send_window);
    add(text, " window=%" PRIu64, granted->inbox_window);
    add(text, " packetmax=%" PRIu64, granted->packet_maximum);
    add(text, " messagemax=%" PRIu64, granted->message_maximum);
    add(text, " payloadmax=%" PRIu64, granted->payload_maximum);
    add_bytes(text, " user=", granted->user.bytes, granted->user.count);
}

static void describe_result(text *text, const mrt_event *event)
{
    const mrt_result *result = &event->as.result;
    add(text, "result number=%" PRIu64, event->number);
    add(text, " reason=%" PRIu64, event->reason);
    if (result->message_id.count > 0) {
        add_bytes(text, " messageid=", result->message_id.bytes, result->message_id.count);
    }
    if (result->reference != 0) {
        add(text, " reference=%016" PRIx64, result->reference);
    }
    if (result->refused_count > 0) {
        mrt_bytes rest = result->refusals;
        uint32_t index = UINT32_MAX;
        mrt_reason reason = MRT_SUCCESS;
        const char *separator = "%" PRIu64 ":";
        add(text, " refused=%" PRIu64 " refusals=", result->refused_count);
        while (mrt_next_refusal(&rest, &index, &reason)) {
            add(text, separator, index);
            add(text, "%" PRIu64, reason);
            separator = ",%" PRIu64 ":";
        }
    }
}

static void describe_delivery(text *text, const mrt_event *event)
{
    mrt_delivery taken = event->as.delivery;
    const mrt_delivery *delivery = &taken;
    const mrt_bytes whole = taken.body;
    mrt_fields fields;
    CHECK(mrt_take_fields(&taken, &fields));
    add(text, "deliver grade=%" PRIu64, delivery->grade);
    if (event->number > 0) {
        add(text, " number=%" PRIu64, event->number);
    }
    add_mark(text, " duplicate", delivery->is_possible_duplicate);
    add_mark(text, " raw", delivery->is_raw);
    add(text, " kind=%" PRIu64, delivery->kind);
    add_bytes(text, " from=", delivery->from.bytes, delivery->from.count);
    add(text, " time=%" PRIu64, delivery->time_ms);
    mrt_recall recall;
    if (mrt_read_recall(delivery, &recall)) {
        // Its address is a part of the body.
        taken.address = recall.group;
        taken.body.bytes += 1 + recall.group.count;
        taken.body.count -= 1 + recall.group.count;
    }
    if (delivery->address.count > 0) {
        add_bytes(text, " address=", delivery->address.bytes, delivery->address.count);
    }
    bool has_type = !delivery->is_raw && delivery->kind != MRT_FROM_KICK
        && delivery->kind != MRT_FROM_RECALL && delivery->kind != MRT_FROM_UPDATE
        && delivery->kind != MRT_FROM_BROKER;
    if (event->as.delivery.has_fields) {
        // As they are between their length and the type.
        uint32_t head = whole.bytes[0] < 0x80 ? 1 : 2;
        uint32_t tail = taken.body.count + (has_type ? 1 : 0);
        add_bytes(text, " fields=", whole.bytes + head, whole.count - head - tail);
    }
    add_bytes(text, " payload=", &delivery->type, has_type ? 1 : 0);
    add_bytes(text, "", delivery->body.bytes, delivery->body.count);
}

static void describe(text *text, uint8_t type, const mrt_event *event)
{
    const mrt_bytes *words = &event->as.ended.text;
    switch (event->kind) {
    case MRT_EVENT_CONNECTED:
        add(text, "connack", 0);
        describe_granted(text, &event->as.granted);
        break;
    case MRT_EVENT_DISCONNECTED:
        add(text, type == MRT_TYPE_CONNACK ? "connack" : "disconnect", 0);
        add(text, " reason=%" PRIu64, event->reason);
        if (type == MRT_TYPE_CONNACK) {
            add(text, " retry=%" PRIu64, event->as.ended.retry_ms);
        }
        add_bytes(text, " text=", words->bytes, words->count);
        break;
    case MRT_EVENT_RESULT:
        describe_result(text, event);
        break;
    case MRT_EVENT_MESSAGE:
        describe_delivery(text, event);
        break;
    case MRT_EVENT_ANSWER:
        add(text, "response id=%" PRIu64, event->number);
        add(text, " reason=%" PRIu64, event->reason);
        add_bytes(text, " content=", event->as.content.bytes, event->as.content.count);
        break;
    case MRT_EVENT_AUTHENTICATED:
        add(text, "auth reason=%" PRIu64, event->reason);
        break;
    default:
        add(text, type == MRT_TYPE_PINGRESP ? "pingresp" : "?", 0);
        break;
    }
}

// No cut and no flipped bit may lead the decoder outside of the packet; the sanitizer watches.
static void maltreat(uint8_t header, const uint8_t *body, uint16_t count)
{
    mrt_event event;
    for (uint16_t length = 0; length < count; length++) {
        uint8_t *exact = malloc(length > 0 ? length : 1);
        CHECK(exact != NULL);
        memcpy(exact, body, length);
        mrt_decode(header, exact, length, 0, &event);
        mrt_decode(header, exact, length, 1, &event);
        for (int bit = 0; length > 0 && bit < 8; bit++) {
            exact[length - 1] ^= (uint8_t)(1 << bit);
            mrt_decode(header, exact, length, bit % 2, &event);
        }
        free(exact);
    }
}

// Fields are judged by who reads them, and so is a reference: it is not 0.
static mrt_reason judge_fields(const mrt_event *event)
{
    mrt_delivery delivery = event->as.delivery;
    mrt_fields fields;
    mrt_recall recall;
    bool is_recall = delivery.kind == MRT_FROM_RECALL || delivery.kind == MRT_FROM_UPDATE;
    return mrt_take_fields(&delivery, &fields)
            && (!is_recall || mrt_read_recall(&delivery, &recall))
        ? MRT_SUCCESS
        : MRT_MALFORMED_PACKET;
}

// Refusals too.
static mrt_reason judge_refusals(const mrt_result *result)
{
    mrt_bytes rest = result->refusals;
    uint64_t left = result->refused_count;
    uint32_t index = UINT32_MAX;
    mrt_reason reason = MRT_SUCCESS;
    while (rest.count > 0) {
        if (left == 0 || !mrt_next_refusal(&rest, &index, &reason)) {
            return MRT_MALFORMED_PACKET;
        }
        left--;
    }
    return MRT_SUCCESS;
}

static void check_from_broker(const char *name, uint8_t *bytes, uint16_t count, const char *meaning)
{
    mrt_frame frame;
    mrt_event event;
    mrt_reason verdict = mrt_read_frame(bytes, count, &frame);
    if (verdict == MRT_SUCCESS) {
        CHECK(frame.needed == count);
        const uint8_t *body = bytes + frame.head_count;
        const uint16_t body_count = (uint16_t)(count - frame.head_count);
        verdict = mrt_decode(bytes[0], body, body_count, 0, &event);
        if (verdict == MRT_SUCCESS && event.kind == MRT_EVENT_RESULT) {
            bool has_reference = (bytes[0] & 0x8) != 0;
            verdict = has_reference == (event.as.result.reference != 0)
                ? judge_refusals(&event.as.result)
                : MRT_MALFORMED_PACKET;
        } else if (verdict == MRT_SUCCESS && event.kind == MRT_EVENT_MESSAGE) {
            verdict = judge_fields(&event);
        }
        maltreat(bytes[0], body, body_count);
    }
    if (strncmp(meaning, "error=", 6) == 0 || strncmp(meaning, "channel ", 8) == 0) {
        // CHANNEL is for gateways: to this client it is a packet out of place.
        mrt_reason expected = strcmp(meaning, "error=malformed") == 0 ? MRT_MALFORMED_PACKET
                                                                      : MRT_PROTOCOL_ERROR;
        refused++;
        if (verdict == expected) {
            return;
        }
        fprintf(stderr, "%s: 0x%02X instead of 0x%02X\n", name, verdict, expected);
        exit(1);
    }
    static text found;
    static text wanted;
    const char *loose = strstr(meaning, " loose");
    found.count = 0;
    wanted.count = 0;
    describe(&found, bytes[0] >> 4, &event);
    if (loose != NULL) {
        snprintf(wanted.characters, sizeof wanted.characters, "%.*s%s", (int)(loose - meaning),
            meaning, loose + strlen(" loose"));
    } else {
        snprintf(wanted.characters, sizeof wanted.characters, "%s", meaning);
    }
    // This client does not pull, and ignores the extension that only clients which do get.
    char *unread = strstr(wanted.characters, " unread=");
    if (unread != NULL) {
        *unread = '\0';
    }
    decoded++;
    if (verdict != MRT_SUCCESS || strcmp(found.characters, wanted.characters) != 0) {
        fprintf(stderr, "%s: 0x%02X\n  %s\n  instead of\n  %s\n", name, verdict, found.characters,
            wanted.characters);
        exit(1);
    }
}

// MARK: To the broker

// Numbers separated by commas; the first is an epoch in hexadecimal.
static uint64_t part_of(const meaning *meaning, const char *key, int part)
{
    const word *word = find(meaning, key);
    const char *text = word == NULL ? "0,0,0" : (const char *)word->value;
    for (int i = 0; i < part; i++) {
        text = strchr(text, ',') + 1;
    }
    return strtoull(text, NULL, part == 0 ? 16 : 10);
}

static void encode_connect(mrt_writer *writer, const meaning *meaning)
{
    const uint8_t accepts[] = {
        mrt_accepts[0], mrt_accepts[1], (uint8_t)number_of(meaning, "accepts")};
    mrt_config config = {
        .token = bytes_of(meaning, "token"),
        .app = bytes_of(meaning, "app"),
        .app_key = bytes_of(meaning, "key"),
        .user = bytes_of(meaning, "user"),
        .device = bytes_of(meaning, "device"),
        .info = bytes_of(meaning, "info"),
        .extensions = {accepts, accepts[2] != 0 ? sizeof accepts : 0},
        .keep_alive_seconds = (uint16_t)number_of(meaning, "keepalive"),
        .inbox_window = (uint16_t)number_of(meaning, "window"),
        .packet_maximum = (uint32_t)number_of(meaning, "packetmax"),
        .session_expiry_seconds = find(meaning, "expiry") != NULL
            ? (uint32_t)number_of(meaning, "expiry")
            : MRT_EXPIRY_DEFAULT,
        .is_clean_start = find(meaning, "clean") != NULL,
    };
    mrt_client client = {.config = &config, .cookie = part_of(meaning, "cookie", 0)};
    client.connect_flags = (find(meaning, "reconnect") != NULL ? MRT_CONNECT_AUTOMATIC : 0)
        | (find(meaning, "cookie") != NULL ? MRT_CONNECT_COOKIE : 0)
        | (find(meaning, "resume") != NULL ? MRT_CONNECT_RESUME : 0)
        | (find(meaning, "outbox") != NULL ? MRT_CONNECT_OUTBOX : 0);
    if (find(meaning, "resume") != NULL) {
        client.inbox.epoch = part_of(meaning, "resume", 0);
        client.inbox.number = part_of(meaning, "resume", 1);
    }
    if (find(meaning, "outbox") != NULL) {
        client.log.epoch = part_of(meaning, "outbox", 0);
        client.log.marked = (uint32_t)part_of(meaning, "outbox", 1);
        client.log.transmitted = (uint32_t)part_of(meaning, "outbox", 2);
    }
    mrt_write_packet(writer, mrt_body_connect, &client);
}

static void encode_send(mrt_writer *writer, const meaning *meaning)
{
    static const struct {
        const char *key;
        mrt_target target;
    } targets[] = {{"user", MRT_TO_USER}, {"list", MRT_TO_LIST}, {"group", MRT_TO_GROUP},
        {"broadcast", MRT_TO_EVERYBODY}, {"topic", MRT_TO_TOPIC}};
    mrt_bytes list[256];
    mrt_message message = {
        .grade = (mrt_grade)number_of(meaning, "grade"),
        .is_raw = find(meaning, "raw") != NULL,
        .is_kept = find(meaning, "history") != NULL,
        .is_retained = find(meaning, "retain") != NULL,
        .message_id = bytes_of(meaning, "messageid"),
        .expiry_seconds = (uint32_t)number_of(meaning, "expiry"),
        .time_ms = number_of(meaning, "time"),
        .fields = bytes_of(meaning, "fields"),
        .body = bytes_of(meaning, "payload"),
        .list = list,
    };
    for (unsigned i = 0; i < 5; i++) {
        if (find(meaning, targets[i].key) != NULL) {
            message.target = targets[i].target;
            message.address = bytes_of(meaning, targets[i].key);
        }
    }
    if (message.target == MRT_TO_LIST) {
        message.list_count = split(message.address, list);
    }
    if (!message.is_raw) {
        message.type = message.body.bytes[0];
        message.body.bytes++;
        message.body.count--;
    }
    mrt_numbered_message numbered = {&message, (uint32_t)number_of(meaning, "number")};
    mrt_write_packet(writer, mrt_body_message, &numbered);
}

static bool encode(mrt_writer *writer, const meaning *meaning)
{
    const char *name = meaning->words[0].key;
    if (strcmp(name, "connect") == 0) {
        encode_connect(writer, meaning);
    } else if (strcmp(name, "send") == 0) {
        encode_send(writer, meaning);
    } else if (strcmp(name, "ack") == 0) {
        mrt_ack ack = {number_of(meaning, "inbox"), (uint32_t)number_of(meaning, "results")};
        mrt_write_packet(writer, mrt_body_ack, &ack);
    } else if (strcmp(name, "request") == 0) {
        mrt_bytes parameters = bytes_of(meaning, "parameters");
        mrt_field field = {.form = MRT_FIELD_REST, .as.bytes = &parameters};
        mrt_request request = {
            (uint32_t)number_of(meaning, "id"), (uint8_t)number_of(meaning, "operation"), 1,
            &field};
        mrt_write_packet(writer, mrt_body_request, &request);
    } else if (strcmp(name, "disconnect") == 0) {
        mrt_goodbye goodbye = {(uint8_t)number_of(meaning, "reason"),
            find(meaning, "expiry") != NULL ? (uint32_t)number_of(meaning, "expiry")
                                            : MRT_EXPIRY_DEFAULT};
        mrt_write_packet(writer, mrt_body_goodbye, &goodbye);
    } else if (strcmp(name, "auth") == 0) {
        mrt_config config = {.token = bytes_of(meaning, "token")};
        mrt_write_packet(writer, mrt_body_auth, &config);
    } else if (strcmp(name, "pingreq") == 0) {
        mrt_write_packet(writer, mrt_body_ping, NULL);
    } else {
        return false;
    }
    return true;
}

static void check_to_broker(
    const char *name, const uint8_t *bytes, uint16_t count, const char *line)
{
    static meaning meaning;
    uint8_t room[BYTES_MAXIMUM];
    mrt_writer writer = {.room = room, .capacity = BYTES_MAXIMUM};
    read_words(&meaning, line);
    // What a client does not send: CHANNEL and what gateways say on it, other spellings, faults for
    // a broker to find. This one gives no numbers of more than 32 bits.
    if (find(&meaning, "loose") != NULL || find(&meaning, "error") != NULL
        || find(&meaning, "attached") != NULL || find(&meaning, "no-history") != NULL
        || find(&meaning, "history-only") != NULL || number_of(&meaning, "number") > UINT32_MAX
        || part_of(&meaning, "outbox", 2) > UINT32_MAX
        || !encode(&writer, &meaning)) {
        passed_over++;
        return;
    }
    encoded++;
    if (writer.has_failed || writer.count != count || memcmp(room, bytes, count) != 0) {
        fprintf(stderr, "%s: other bytes:", name);
        for (uint16_t i = 0; i < writer.count; i++) {
            fprintf(stderr, " %02x", room[i]);
        }
        fprintf(stderr, "\n");
        exit(1);
    }
}

static void check_line(char *fields[5])
{
    static const char incomplete[] = "error=incomplete:";
    uint8_t bytes[BYTES_MAXIMUM];
    uint16_t count = from_hex(fields[3], bytes);
    if (strcmp(fields[1], "MRT1") != 0) {
        // A part of a packet: parts.c.
        return;
    }
    if (strncmp(fields[4], incomplete, strlen(incomplete)) == 0) {
        mrt_frame frame;
        CHECK(mrt_read_frame(bytes, count, &frame) == MRT_UNSPECIFIED_ERROR);
        CHECK(frame.needed == strtoul(fields[4] + strlen(incomplete), NULL, 10));
        refused++;
    } else if (strcmp(fields[2], "b>c") == 0) {
        check_from_broker(fields[0], bytes, count, fields[4]);
    } else {
        check_to_broker(fields[0], bytes, count, fields[4]);
    }
}

int main(int argc, char **argv)
{
    read_lines(argc - 1, argv + 1, check_line);
    printf("vectors: %u encoded, %u decoded, %u refused; %u are not a client's business\n", encoded,
        decoded, refused, passed_over);
    // A reader that finds nothing would pass everything.
    CHECK(encoded >= 35 && decoded >= 35 && refused >= 40);
    return 0;
}
