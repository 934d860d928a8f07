// Reads Tests/Vectors/mrt-parts.txt: parameters of requests are what the functions of
// mrt/requests.h make of their meaning, and results and group events mean what mrt/answers.h reads
// there. Usage: parts FILE...

#include "meaning.h"
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

// The client reads its inbox; it has no functions for history and conversations, which follow.
enum { LAST_OPERATION = 24 };

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

int main(int argc, char **argv)
{
    log_in();
    presence_is_read();
    read_lines(argc - 1, argv + 1, check_line);
    printf("parts: %u encoded, %u decoded, %u refused; %u are not a client's business\n", encoded,
        decoded, refused, passed_over);
    CHECK(encoded >= 20 && decoded >= 15 && refused >= 13);
    return 0;
}
