// A node on a POSIX system: sends lines, prints received messages, and survives being killed at any
// moment, because the resume record and the unsent messages are in files. See usage() for its
// options.
//
// It shows the order that makes a loss of power harmless: store effect and record together, then
// acknowledge.

#define _POSIX_C_SOURCE 200809L

#include "mrt/requests.h"
#include "posix.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RECEIVE_BYTES = 1400, TRANSMIT_BYTES = 512, SECTORS = 8, RAM_BYTES = 4096 };

typedef struct node_state {
    mrt_client client;
    mrt_socket socket;
    const char *state_directory;
    // The number of messages that are still expected, and of results.
    unsigned long listen_count;
    bool listens_for_ever;
    bool has_failed;
} node_state;

typedef struct node_options {
    const char *server;
    mrt_proof proof;
    const char *token;
    const char *device;
    const char *state_directory;
    const char *subscribe;
    const char *will_to;
    mrt_message message;
    const char *text;
    unsigned long send_count;
    unsigned long listen_count;
    unsigned long receive_bytes;
    bool listens_for_ever;
    bool is_offline;
} node_options;

static void usage(void)
{
    fputs("node: sends and receives over MRT\n\n"
          "  --server tls://HOST:PORT or tcp://HOST:PORT; several with commas between them\n"
          "  --ca FILE              the authority that signed the broker's certificate\n"
          "  --token TOKEN\n"
          "  --psk-identity NAME    in place of both: a key that the broker has too\n"
          "  --psk HEX\n"
          "  --device NAME          tells the devices of one user apart\n"
          "  --state DIRECTORY      keeps record and unsent messages over a restart\n"
          "  --to USER | --group ID | --everybody | --topic T\n"
          "  --text TEXT            what to send, numbered where --count says how often\n"
          "  --grade 0|1|2          transient, durable (default), once\n"
          "  --count N\n"
          "  --listen N             wait for N messages; 0 for ever\n"
          "  --subscribe FILTER     receive these topics too\n"
          "  --will-to USER         a last will, \"gone\"\n"
          "  --receive-bytes N      receive buffer, 128 to 1400\n"
          "  --offline              only store what is to be sent, connect to nothing\n",
        stderr);
    exit(2);
}

// MARK: The record

// Written to a new file and renamed, so that one complete record always exists. On a device the
// record is in the same flash page or transaction as the effect of the message.
static bool store_record(const char *directory, mrt_record record)
{
    char path[512];
    char beside[520];
    snprintf(path, sizeof path, "%s/record", directory);
    snprintf(beside, sizeof beside, "%s.new", path);
    int descriptor = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        return false;
    }
    bool is_stored = write(descriptor, &record, sizeof record) == (ssize_t)sizeof record
        && fsync(descriptor) == 0;
    close(descriptor);
    return is_stored && rename(beside, path) == 0;
}

static mrt_record load_record(const char *directory)
{
    char path[512];
    mrt_record record = {0, 0};
    snprintf(path, sizeof path, "%s/record", directory);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor >= 0) {
        if (read(descriptor, &record, sizeof record) != (ssize_t)sizeof record) {
            record.epoch = 0;
            record.number = 0;
        }
        close(descriptor);
    }
    return record;
}

// MARK: Events

static void print_bytes(const char *label, mrt_bytes bytes)
{
    printf("%s%.*s", label, (int)bytes.count, (const char *)bytes.bytes);
}

static void print_delivery(const mrt_event *event)
{
    const mrt_delivery *delivery = &event->as.delivery;
    printf("%s number=%" PRIu64 " kind=%d", event->missing > 0 ? "oversize" : "message",
        event->number, (int)delivery->kind);
    print_bytes(" from=", delivery->from);
    if (delivery->address.count > 0) {
        print_bytes(" address=", delivery->address);
    }
    if (delivery->is_possible_duplicate) {
        printf(" duplicate");
    }
    if (event->missing > 0) {
        printf(" missing=%" PRIu32 "\n", event->missing);
    } else {
        print_bytes(" text=", delivery->body);
        printf("\n");
    }
}

static void arrived(node_state *node, const mrt_event *event)
{
    print_delivery(event);
    fflush(stdout);
    if (event->number > 0) {
        mrt_record record = mrt_current_record(&node->client);
        record.number = event->number;
        if (node->state_directory != NULL && !store_record(node->state_directory, record)) {
            fprintf(stderr, "record: %s\n", strerror(errno));
            exit(1);
        }
        mrt_acknowledge(&node->client, event->number);
    }
    if (node->listen_count > 0) {
        node->listen_count--;
    }
}

static void happened(void *context, const mrt_event *event)
{
    node_state *node = context;
    uint32_t retry_ms = mrt_server_next(&node->socket, &node->client, event);
    switch (event->kind) {
    case MRT_EVENT_CONNECTED:
        print_bytes("connected user=", event->as.granted.user);
        printf(" new_inbox=%d\n", event->as.granted.is_new_inbox);
        if (event->as.granted.is_new_inbox && node->state_directory != NULL) {
            store_record(node->state_directory, mrt_current_record(&node->client));
        }
        break;
    case MRT_EVENT_DISCONNECTED:
        printf("disconnected reason=\"%s\" retry_ms=%" PRIu32, mrt_reason_text(event->reason),
            retry_ms);
        print_bytes(" text=", event->as.ended.text);
        printf("\n");
        break;
    case MRT_EVENT_MESSAGE:
    case MRT_EVENT_OVERSIZE:
        arrived(node, event);
        break;
    case MRT_EVENT_RESULT:
        printf("result number=%" PRIu64 " reason=\"%s\"\n", event->number,
            mrt_reason_text(event->reason));
        node->has_failed |= event->reason != MRT_SENT;
        break;
    case MRT_EVENT_DROPPED:
        printf("dropped number=%" PRIu64 "\n", event->number);
        break;
    case MRT_EVENT_ANSWER:
        printf("answer id=%" PRIu64 " reason=\"%s\"\n", event->number,
            mrt_reason_text(event->reason));
        break;
    default:
        break;
    }
    fflush(stdout);
}

// MARK: The loop

static bool ask(node_state *node, const node_options *options)
{
    mrt_status status = MRT_IDLE;
    if (options->subscribe != NULL) {
        status = mrt_subscribe(&node->client, mrt_text(options->subscribe), MRT_ONCE, NULL);
    }
    if (status == MRT_IDLE && options->will_to != NULL) {
        mrt_message will = {.address = mrt_text(options->will_to), .body = mrt_text("gone")};
        status = mrt_set_will(&node->client, &will, 0, NULL);
    }
    return status == MRT_IDLE;
}

// Passes the next message of a series on; false if it must wait.
static bool send_next(node_state *node, const node_options *options, unsigned long index)
{
    char text[1100];
    mrt_message message = options->message;
    if (options->send_count > 1) {
        snprintf(text, sizeof text, "%s %lu", options->text, index + 1);
    } else {
        snprintf(text, sizeof text, "%s", options->text);
    }
    message.body = mrt_text(text);
    uint64_t number = 0;
    mrt_status status = mrt_send(&node->client, &message, &number);
    if (status == MRT_IDLE) {
        printf("stored number=%" PRIu64 "\n", number);
        fflush(stdout);
    } else if (status != MRT_ERROR_FULL && status != MRT_ERROR_BUSY
        && status != MRT_ERROR_NOT_CONNECTED) {
        fprintf(stderr, "send: %s\n", mrt_status_text(status));
        exit(1);
    }
    return status == MRT_IDLE;
}

static void run(node_state *node, const node_options *options)
{
    unsigned long sent = 0;
    bool has_asked = false;
    bool is_leaving = false;
    for (;;) {
        mrt_status status = mrt_poll(&node->client, mrt_clock_ms());
        if (status < 0) {
            fprintf(stderr, "node: %s\n", mrt_status_text(status));
            exit(1);
        }
        if (mrt_is_connected(&node->client) && !has_asked) {
            has_asked = ask(node, options);
        }
        bool has_sent = sent < options->send_count && send_next(node, options, sent);
        sent += has_sent ? 1 : 0;
        bool is_done = has_asked && sent == options->send_count
            && mrt_pending_count(&node->client) == 0 && node->listen_count == 0
            && !node->listens_for_ever;
        if (is_done && !is_leaving) {
            is_leaving = true;
            mrt_leave(&node->client, MRT_SUCCESS, MRT_EXPIRY_DEFAULT);
        } else if (is_leaving && mrt_is_stopped(&node->client)) {
            return;
        }
        if (status == MRT_IDLE && !has_sent) {
            uint32_t idle = mrt_idle_ms(&node->client);
            mrt_socket_wait(&node->socket, idle < 20 ? idle : 20);
        }
    }
}

static void read_target(node_options *options, mrt_target target, const char *address)
{
    options->message.target = target;
    options->message.address = mrt_text(address);
}

// One option with a value. False if there is no such option.
static bool read_value(node_options *options, const char *name, const char *value)
{
    const struct {
        const char *name;
        const char **place;
    } texts[] = {
        {"--server", &options->server},
        {"--ca", &options->proof.authority_file},
        {"--psk-identity", &options->proof.psk_identity},
        {"--psk", &options->proof.psk},
        {"--token", &options->token},
        {"--device", &options->device},
        {"--state", &options->state_directory},
        {"--text", &options->text},
        {"--subscribe", &options->subscribe},
        {"--will-to", &options->will_to},
    };
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(name, texts[i].name) == 0) {
            *texts[i].place = value;
            return true;
        }
    }
    if (strcmp(name, "--to") == 0) {
        read_target(options, MRT_TO_USER, value);
    } else if (strcmp(name, "--group") == 0) {
        read_target(options, MRT_TO_GROUP, value);
    } else if (strcmp(name, "--topic") == 0) {
        read_target(options, MRT_TO_TOPIC, value);
    } else if (strcmp(name, "--grade") == 0) {
        options->message.grade = (mrt_grade)strtoul(value, NULL, 10);
    } else if (strcmp(name, "--count") == 0) {
        options->send_count = strtoul(value, NULL, 10);
    } else if (strcmp(name, "--listen") == 0) {
        options->listen_count = strtoul(value, NULL, 10);
        options->listens_for_ever = options->listen_count == 0;
    } else if (strcmp(name, "--receive-bytes") == 0) {
        options->receive_bytes = strtoul(value, NULL, 10);
    } else {
        return false;
    }
    return true;
}

static void read_options(node_options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--everybody") == 0) {
            options->message.target = MRT_TO_EVERYBODY;
        } else if (strcmp(argv[i], "--offline") == 0) {
            options->is_offline = true;
        } else if (i + 1 < argc && read_value(options, argv[i], argv[i + 1])) {
            i++;
        } else {
            usage();
        }
    }
    if (options->text != NULL && options->send_count == 0) {
        options->send_count = 1;
    }
}

int main(int argc, char **argv)
{
    static node_state node;
    static uint8_t receive[RECEIVE_BYTES];
    static uint8_t transmit[TRANSMIT_BYTES];
    static uint8_t ram[RAM_BYTES];
    node_options options = {
        .server = "tls://localhost:8883",
        .proof = {.authority_file = "ca.pem"},
        .device = "",
        .message = {.grade = MRT_DURABLE},
        .receive_bytes = RECEIVE_BYTES,
    };
    read_options(&options, argc, argv);
    if (options.receive_bytes > RECEIVE_BYTES || (options.send_count > 0 && options.text == NULL)) {
        usage();
    }
    mrt_storage storage = mrt_ram_storage(ram, sizeof ram);
    mrt_record record = {0, 0};
    uint8_t entropy[8];
    if (options.state_directory != NULL) {
        char path[512];
        snprintf(path, sizeof path, "%s/unsent", options.state_directory);
        if (!mrt_file_storage(&storage, path, SECTORS)) {
            fprintf(stderr, "%s: %s\n", path, strerror(errno));
            return 1;
        }
        record = load_record(options.state_directory);
    }
    node.state_directory = options.state_directory;
    node.listen_count = options.listen_count;
    node.listens_for_ever = options.listens_for_ever;
    mrt_config config = {
        .transport = mrt_server_transport(&node.socket, options.server, &options.proof),
        .storage = &storage,
        .happened = happened,
        .context = &node,
        .receive = receive,
        .receive_size = (uint32_t)options.receive_bytes,
        .transmit = transmit,
        .transmit_size = sizeof transmit,
        .token = mrt_text(options.token != NULL ? options.token : ""),
        .device = mrt_text(options.device),
        .info = mrt_text("{\"fw\":\"node 1\"}"),
        .keep_alive_seconds = 60,
        .inbox_window = 16,
        .session_expiry_seconds = MRT_EXPIRY_DEFAULT,
    };
    if (config.transport == NULL || !mrt_random(entropy, sizeof entropy)) {
        return 1;
    }
    mrt_status status = mrt_init(&node.client, &config, &record, entropy);
    if (status != MRT_IDLE) {
        fprintf(stderr, "node: %s\n", mrt_status_text(status));
        return 1;
    }
    if (options.is_offline) {
        for (unsigned long i = 0; i < options.send_count; i++) {
            if (!send_next(&node, &options, i)) {
                return 1;
            }
        }
        return 0;
    }
    mrt_start(&node.client);
    run(&node, &options);
    return node.has_failed ? 1 : 0;
}
