// Reads Tests/Vectors/mrt-parts.txt: parameters of requests are what the functions of
// mrt/requests.h make of their meaning, and results and group events mean what mrt/answers.h reads
// there. Usage: parts FILE...

#include "meaning.h"
#include "mrt/history.h"
#include "mrt/receipts.h"
#include "mrt/requests.h"
#include "wire.h"

#include <inttypes.h>
#include <string.h>

static unsigned encoded, decoded, refused, passed_over;

// MARK: A client that is logged in, and whose packets go nowhere

static const char CONNACK[] = "202d05000123456789abcdeffedcba987654321080d8c1a28c34ac0280f52420"
    "108080048008e8fb0305616c696365";

static mrt_bytes waiting;

static int32_t line_link(void *context, bool wanted)
{
    (void)context;
    return wanted ? 1 : 0;
}

static int32_t line_send(void *context, const uint8_t *bytes, uint32_t count)
{
    (void)context;
    (void)bytes;
    return (int32_t)count;
}

static int32_t line_receive(void *context, uint8_t *bytes, uint32_t count)
{
    (void)context;
    uint32_t part = waiting.count < count ? waiting.count : count;
    if (part > 0) {
        memcpy(bytes, waiting.bytes, part);
        waiting.bytes += part;
        waiting.count -= part;
    }
    return (int32_t)part;
}

static void happened(void *context, const mrt_event *event)
{
    (void)context;
    CHECK(event->kind == MRT_EVENT_CONNECTED);
}

static uint8_t transmit[BYTES_MAXIMUM];

static mrt_client client;

static void log_in(void)
{
    static uint8_t receive[256];
    static uint8_t ram[64];
    static mrt_storage storage;
    static uint8_t connack[64];
    static const mrt_transport transport = {NULL, line_link, line_send, line_receive};
    static mrt_config config = {.transport = &transport,
        .storage = &storage,
        .happened = happened,
        .receive = receive,
        .receive_size = sizeof receive,
        .transmit = transmit,
        .transmit_size = sizeof transmit,
        .inbox_window = 1,
        .session_expiry_seconds = MRT_EXPIRY_DEFAULT};
    static const uint8_t entropy[8] = {1};
    static const mrt_record record = {0, 0};
    storage = mrt_ram_storage(ram, sizeof ram);
    CHECK(mrt_init(&client, &config, &record, entropy) == MRT_IDLE);
    mrt_start(&client);
    // Until its CONNECT is out.
    while (mrt_poll(&client, 0) == MRT_WORKED || client.waiting > 0) {
    }
    // The vector connack-new-session.
    waiting.bytes = connack;
    waiting.count = from_hex(CONNACK, connack);
    while (!mrt_is_connected(&client)) {
        CHECK(waiting.count > 0);
        mrt_poll(&client, 0);
    }
}

// MARK: Requests

static mrt_allow_list allowed_of(const meaning *meaning, mrt_bytes *users)
{
    mrt_allow_list allowed = {.is_open = find(meaning, "everybody") != NULL, .users = users};
    allowed.count = split(bytes_of(meaning, "allowed"), users);
    return allowed;
}

static mrt_message will_of(const meaning *meaning, mrt_bytes *list)
{
    static const struct {
        const char *key;
        mrt_target target;
    } targets[] = {{"user", MRT_TO_USER}, {"list", MRT_TO_LIST}, {"group", MRT_TO_GROUP},
        {"broadcast", MRT_TO_EVERYBODY}, {"topic", MRT_TO_TOPIC}};
    mrt_message will = {.is_raw = find(meaning, "raw") != NULL,
        .body = bytes_of(meaning, "payload"),
        .list = list};
    for (unsigned i = 0; i < 5; i++) {
        if (find(meaning, targets[i].key) != NULL) {
            will.target = targets[i].target;
            will.address = bytes_of(meaning, targets[i].key);
        }
    }
    if (will.target == MRT_TO_LIST) {
        will.list_count = split(will.address, list);
    }
    if (!will.is_raw) {
        will.type = will.body.bytes[0];
        will.body.bytes++;
        will.body.count--;
    }
    return will;
}

// The client reads its inbox and pages of history; it has no functions for what follows.
enum { LAST_OPERATION = 25 };

static mrt_status ask(mrt_client *to, unsigned long operation, const meaning *meaning)
{
    mrt_bytes list[256];
    const mrt_bytes group = bytes_of(meaning, "group");
    const mrt_bytes user = bytes_of(meaning, "user");
    const mrt_bytes after = bytes_of(meaning, "after");
    const mrt_bytes meta = bytes_of(meaning, "meta");
    const mrt_allow_list allowed = allowed_of(meaning, list);
    uint8_t key[BYTES_MAXIMUM];
    switch (operation) {
    case 3: {
        const mrt_message will = will_of(meaning, list);
        return mrt_set_will(to, &will, (uint32_t)number_of(meaning, "delay"), NULL);
    }
    case 16:
        CHECK(from_hex((const char *)find(meaning, "key")->value, key) == 8);
        return mrt_create_group(to, key, bytes_of(meaning, "title"), meta, &allowed, NULL);
    case 17:
        return mrt_join_group(to, group, NULL);
    case 18:
        return mrt_leave_group(to, group, NULL);
    case 19:
        return mrt_kick(to, group, user, NULL);
    case 20:
        return mrt_ban(to, group, user, NULL);
    case 21:
        return mrt_list_groups(to, after, NULL);
    case 22:
        return mrt_describe_group(to, group, after, NULL);
    case 23:
        return mrt_set_group_meta(to, group, meta, NULL);
    case 24:
        return mrt_set_group_allow_list(to, group, &allowed, NULL);
    case 25:
        return mrt_ask_history(to, group.count > 0 ? MRT_TO_GROUP : MRT_TO_USER,
            group.count > 0 ? group : user, number_of(meaning, "before"),
            (uint32_t)number_of(meaning, "count"), NULL);
    default:
        return MRT_ERROR_INVALID;
    }
}

static void check_request(const char *name, unsigned long operation, const uint8_t *bytes,
    uint16_t count, const char *line)
{
    static meaning meaning;
    mrt_client *to = &client;
    read_words(&meaning, line);
    if (find(&meaning, "error") != NULL) {
        // Faults for a broker to find.
        passed_over++;
        return;
    }
    to->waiting = 0;
    to->request_id = 0;
    mrt_status status = ask(to, operation, &meaning);
    mrt_frame frame = {0, 0};
    CHECK(mrt_read_frame(transmit, to->waiting, &frame) == MRT_SUCCESS || status < 0);
    // The id, 1, and the operation stand before the parameters.
    const uint8_t *body = transmit + frame.head_count;
    uint32_t found = to->waiting - frame.head_count - 2;
    encoded++;
    if (status != MRT_IDLE || transmit[0] != MRT_TYPE_REQUEST << 4 || body[0] != 1
        || body[1] != operation || found != count || memcmp(body + 2, bytes, count) != 0) {
        fprintf(stderr, "%s: other bytes, or %d\n", name, status);
        exit(1);
    }
}

// MARK: Answers and events

// A list of strings behind its key, separated by commas.
static void add_list(text *text, const char *key, mrt_bytes list)
{
    mrt_bytes value;
    const char *separator = key;
    add(text, list.count == 0 ? key : "", 0);
    while (mrt_next_string(&list, &value)) {
        add_bytes(text, separator, value.bytes, value.count);
        separator = ",";
    }
}

static void add_string(text *text, const char *key, mrt_bytes value)
{
    add_bytes(text, key, value.bytes, value.count);
}

static bool describe_groups(text *text, mrt_bytes content)
{
    mrt_listed_group group;
    mrt_bytes groups;
    bool more = false;
    if (!mrt_read_groups(content, &more, &groups)) {
        return false;
    }
    add_mark(text, " more", more);
    while (mrt_next_group(&groups, &group)) {
        add_string(text, " group=", group.group);
        add_string(text, ",", group.title);
        add_mark(text, ",own", group.is_own);
    }
    return true;
}

static bool describe_group(text *text, mrt_bytes content)
{
    mrt_group_description group;
    if (!mrt_read_description(content, &group)) {
        return false;
    }
    add_mark(text, " limited", group.has_allow_list);
    add_mark(text, " own", group.is_own);
    add_mark(text, " more", group.has_more);
    add_string(text, " owner=", group.owner);
    add_string(text, " title=", group.title);
    add(text, " count=%" PRIu64, group.member_count);
    add_string(text, " meta=", group.meta);
    add_list(text, " members=", group.members);
    return true;
}

static bool describe_history(text *text, mrt_bytes content)
{
    mrt_kept_message message;
    mrt_bytes messages;
    uint64_t next = 0;
    if (!mrt_read_history(content, &next, &messages)) {
        return false;
    }
    if (next != 0) {
        add(text, " next=%" PRIu64, next);
    }
    while (mrt_next_kept(&messages, &message)) {
        add(text, " #%" PRIu64, message.number);
        add_string(text, ",", message.from);
        add(text, ",%" PRIu64, message.time_ms);
        add_bytes(text, ",", &message.type, 1);
        add_string(text, "", message.body);
    }
    return true;
}

static bool describe_event(text *text, mrt_bytes content)
{
    static const char *const marks[] = {
        "", " joined", " left", " kicked", " allow-list", " meta"};
    mrt_group_event event;
    if (content.count == 0) {
        // The decoder finds this: a delivery has its type.
        return false;
    }
    const mrt_delivery delivery = {
        .type = content.bytes[0], .body = {content.bytes + 1, content.count - 1}};
    if (delivery.type > MRT_GROUP_META) {
        add(text, " unknown", 0);
        return !mrt_read_group_event(&delivery, &event);
    }
    if (!mrt_read_group_event(&delivery, &event)) {
        return false;
    }
    add(text, marks[delivery.type], 0);
    if (delivery.type == MRT_GROUP_META) {
        add_string(text, " meta=", event.content);
    } else if (delivery.type != MRT_GROUP_ALLOW_LIST) {
        add_string(text, " user=", event.content);
    } else if (event.is_open) {
        add(text, " everybody", 0);
    } else {
        add_list(text, " allowed=", event.users);
    }
    return true;
}

static void check_answer(
    const char *name, const char *dialect, mrt_bytes content, const char *wanted)
{
    static text found;
    bool is_error = strncmp(wanted, "error=", 6) == 0;
    bool is_read = true;
    found.count = 0;
    found.characters[0] = '\0';
    if (strcmp(dialect, "MRT1/16") == 0) {
        add_string(&found, " group=", content);
    } else if (strcmp(dialect, "MRT1/21") == 0) {
        is_read = describe_groups(&found, content);
    } else if (strcmp(dialect, "MRT1/22") == 0) {
        is_read = describe_group(&found, content);
    } else if (strcmp(dialect, "MRT1/25") == 0) {
        is_read = describe_history(&found, content);
    } else {
        is_read = describe_event(&found, content);
    }
    if (is_error) {
        refused++;
    } else {
        decoded++;
    }
    // Every word begins with a space.
    const char *text = found.count > 0 ? found.characters + 1 : "";
    if (is_read == is_error || (is_read && strcmp(text, wanted) != 0)) {
        fprintf(stderr, "%s: %s\n  instead of\n  %s\n", name, is_read ? text : "no", wanted);
        exit(1);
    }
}

static void check_line(char *fields[5])
{
    uint8_t bytes[BYTES_MAXIMUM];
    uint16_t count = from_hex(fields[3], bytes);
    if (strcmp(fields[1], "MRT1") == 0) {
        return;
    }
    // 0 for an event of a group.
    unsigned long operation = strtoul(fields[1] + strlen("MRT1/"), NULL, 10);
    // This client does not know the events behind that of the meta, which applications ignore.
    bool is_new = operation == 0 && count > 0 && bytes[0] > MRT_GROUP_META
        && strcmp(fields[4], "unknown") != 0;
    // It joins groups with what they show.
    is_new |= strstr(fields[4], "backlog=") != NULL;
    // It reads the history of users and groups.
    is_new |= operation == LAST_OPERATION && strstr(fields[4], "topic=") != NULL;
    if (operation > LAST_OPERATION || is_new) {
        passed_over++;
    } else if (strcmp(fields[2], "c>b") == 0) {
        check_request(fields[0], operation, bytes, count, fields[4]);
    } else {
        // Exactly so many bytes, for the sanitizer to watch.
        uint8_t *exact = malloc(count > 0 ? count : 1);
        CHECK(exact != NULL);
        memcpy(exact, bytes, count);
        const mrt_bytes content = {exact, count};
        check_answer(fields[0], fields[1], content, fields[4]);
        free(exact);
    }
}

static void presence_is_read(void)
{
    uint8_t bytes[32];
    mrt_presence presence;
    mrt_bytes device;
    // The content of response-presence.
    mrt_bytes content = {bytes, from_hex("0180d8c1a28c34020470756d7000", bytes)};
    CHECK(mrt_read_presence(content, &presence));
    CHECK(presence.is_online && presence.since_ms == 1790000000000u);
    CHECK(mrt_next_string(&presence.devices, &device) && device.count == 4);
    CHECK(mrt_next_string(&presence.devices, &device) && device.count == 0);
    CHECK(!mrt_next_string(&presence.devices, &device));
    content.count--;
    CHECK(!mrt_read_presence(content, &presence));
}

// MARK: Receipts and recalls, whose bytes are whole packets among the vectors

// The delivery of a packet, whose bytes stay until the next one.
static mrt_delivery delivery_of(const char *packet)
{
    static uint8_t *exact;
    uint8_t bytes[256];
    mrt_event event;
    mrt_frame frame;
    uint16_t count = from_hex(packet, bytes);
    CHECK(mrt_read_frame(bytes, count, &frame) == MRT_SUCCESS && frame.needed == count);
    free(exact);
    exact = malloc(count - frame.head_count);
    CHECK(exact != NULL);
    memcpy(exact, bytes + frame.head_count, count - frame.head_count);
    CHECK(mrt_decode(bytes[0], exact, count - frame.head_count, 0, &event) == MRT_SUCCESS);
    CHECK(event.kind == MRT_EVENT_MESSAGE);
    return event.as.delivery;
}

static bool is_text(mrt_bytes bytes, const char *text)
{
    return bytes.count == strlen(text) && memcmp(bytes.bytes, text, bytes.count) == 0;
}

static const uint64_t REFERENCE = 0x7a3c0f9e5b2d4861u;

static void fields_are_taken(void)
{
    mrt_fields fields;
    mrt_bytes key, value;
    // deliver-fields
    mrt_delivery delivery = delivery_of("5122d30d8205616c69636580d8c1a28c340d02087a3c0f9e5b2d4861"
        "040106006f70656e");
    CHECK(delivery.kind == MRT_FROM_USER && delivery.has_fields);
    CHECK(mrt_take_fields(&delivery, &fields));
    CHECK(!delivery.has_fields && delivery.type == 0 && is_text(delivery.body, "open"));
    CHECK(mrt_field_number(fields.values[MRT_FIELD_REFERENCE]) == REFERENCE);
    CHECK(mrt_field_number(fields.values[MRT_FIELD_RECEIPTS])
        == (MRT_ASK_DELIVERED | MRT_ASK_APPLIED));
    CHECK(mrt_field_number(fields.values[MRT_FIELD_LATE]) == 0);
    // deliver-attributes
    delivery = delivery_of("512cd50d8305616c69636580d8c1a28c3407666c6565742d370f060101080704"
        "7369746501370a0101006c6f6f6b");
    CHECK(mrt_take_fields(&delivery, &fields) && is_text(delivery.address, "fleet-7"));
    CHECK(mrt_field_number(fields.values[MRT_FIELD_MENTIONED]) == 1);
    CHECK(mrt_field_number(fields.values[MRT_FIELD_LATE]) == 1);
    CHECK(mrt_next_string(&fields.values[MRT_FIELD_ATTRIBUTES], &key) && is_text(key, "site"));
    CHECK(mrt_next_string(&fields.values[MRT_FIELD_ATTRIBUTES], &value) && is_text(value, "7"));
    CHECK(!mrt_next_string(&fields.values[MRT_FIELD_ATTRIBUTES], &key));
    // Ids that fall, a value beyond the block, a block beyond the packet, no fields at all.
    static const char *const faults[] = {"500d82016101060401020201020078",
        "500a82016101030409020078", "500782016101090401", "500782016101000078"};
    for (unsigned i = 0; i < 4; i++) {
        delivery = delivery_of(faults[i]);
        CHECK(!mrt_take_fields(&delivery, &fields));
    }
}

static void receipts_are_read(void)
{
    mrt_receipt receipt;
    // deliver-receipt-delivered
    mrt_delivery delivery = delivery_of("511fd50d0903626f6280d8c1a28c34017a3c0f9e5b2d4861036d2d32"
        "0470756d70");
    CHECK(mrt_read_receipt(&delivery, &receipt));
    CHECK(receipt.kind == MRT_RECEIPT_DELIVERED && receipt.reference == REFERENCE);
    CHECK(is_text(receipt.message_id, "m-2") && is_text(receipt.address, "pump"));
    delivery.body.count--;
    CHECK(!mrt_read_receipt(&delivery, &receipt));
    // deliver-receipt-applied
    delivery = delivery_of("5127d60d0903626f6280d8c1a28c34027a3c0f9e5b2d4861036d2d320470756d70"
        "83746f6f20686f74");
    CHECK(mrt_read_receipt(&delivery, &receipt) && receipt.kind == MRT_RECEIPT_APPLIED);
    CHECK(receipt.code == 0x83 && is_text(receipt.text, "too hot"));
    delivery.type = 4;
    CHECK(!mrt_read_receipt(&delivery, &receipt));
    // deliver-receipt-counts
    delivery = delivery_of("5132d70d0903626f6280d8c1a28c34037a3c0f9e5b2d4861036d2d3207666c6565"
        "742d370000019c0000000300000001000186a0");
    CHECK(mrt_read_receipt(&delivery, &receipt) && receipt.kind == MRT_RECEIPT_COUNTS);
    CHECK(is_text(receipt.address, "fleet-7") && receipt.counts[MRT_COUNT_DELIVERED] == 412);
    CHECK(receipt.counts[MRT_COUNT_APPLIED] == 3 && receipt.counts[MRT_COUNT_FAILED] == 1);
    CHECK(receipt.counts[MRT_COUNT_MEMBERS] == 100000);
    delivery.body.count--;
    CHECK(!mrt_read_receipt(&delivery, &receipt));
}

static void recalls_are_read(void)
{
    mrt_recall recall;
    // deliver-recall
    mrt_delivery delivery = delivery_of("5129d80d0a05616c69636580d8c1a28c34007a3c0f9e5b2d4861036d"
        "2d32000b77726f6e672076616c7665");
    CHECK(delivery.kind == MRT_FROM_RECALL && mrt_read_recall(&delivery, &recall));
    CHECK(recall.reference == REFERENCE && is_text(recall.message_id, "m-2"));
    CHECK(recall.group.count == 0 && recall.code == 0 && is_text(recall.detail, "wrong valve"));
    delivery.body.count--;
    CHECK(!mrt_read_recall(&delivery, &recall));
    // deliver-update
    delivery = delivery_of("5128d90d0b05616c69636580d8c1a28c3407666c6565742d377a3c0f9e5b2d486100"
        "000000636c6f7365");
    CHECK(delivery.kind == MRT_FROM_UPDATE && mrt_read_recall(&delivery, &recall));
    CHECK(is_text(recall.group, "fleet-7") && recall.message_id.count == 0);
    CHECK(recall.type == MRT_TYPE_TEXT && is_text(recall.body, "close"));
    // Without its content.
    delivery.body.count -= 6;
    CHECK(!mrt_read_recall(&delivery, &recall));
}

static void an_answer_is_told(void)
{
    static const char text[] = "700f01207a3c0f9e5b2d486100646f6e65";
    uint8_t bytes[32];
    uint16_t count = from_hex(text, bytes);
    client.waiting = 0;
    client.request_id = 0;
    // request-applied, but for its id.
    CHECK(mrt_tell_applied(&client, REFERENCE, 0, mrt_text("done"), NULL) == MRT_IDLE);
    CHECK(client.waiting == count && memcmp(transmit, bytes, count) == 0);
    client.waiting = 0;
    CHECK(is_text(mrt_asks(7), "\x01\x01\x07") && is_text(mrt_asks(2), "\x01\x01\x02"));
    CHECK(mrt_ask_history(&client, MRT_TO_LIST, mrt_text("bob"), 0, 1, NULL) == MRT_ERROR_INVALID);
    CHECK(mrt_ask_history(&client, MRT_TO_USER, mrt_text(""), 0, 1, NULL) == MRT_ERROR_INVALID);
    CHECK(mrt_ask_history(&client, MRT_TO_USER, mrt_text("bob"), 0, 0, NULL) == MRT_ERROR_INVALID);
    CHECK(mrt_ask_history(&client, MRT_TO_USER, mrt_text("bob"), 0, 101, NULL)
        == MRT_ERROR_INVALID);
    CHECK(mrt_ask_history(&client, MRT_TO_USER, mrt_text("bob"), 1ull << 32, 1, NULL)
        == MRT_ERROR_INVALID);
}

int main(int argc, char **argv)
{
    log_in();
    presence_is_read();
    fields_are_taken();
    receipts_are_read();
    recalls_are_read();
    an_answer_is_told();
    read_lines(argc - 1, argv + 1, check_line);
    printf("parts: %u encoded, %u decoded, %u refused; %u are not a client's business\n", encoded,
        decoded, refused, passed_over);
    CHECK(encoded >= 20 && decoded >= 15 && refused >= 13);
    return 0;
}
