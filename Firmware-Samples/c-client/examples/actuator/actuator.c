// An actuator: a valve that is told its position, 0 to 100 %, as text. It waits a moment before it
// moves; in that time the sender may take the command back or change it. Then it moves or refuses,
// and answers: the sender gets a receipt with "done" or the reason.
//
// A power cut at any moment moves the valve once and answers at least once, which the broker counts
// once: position, plan, answers and resume record are one record, which is stored before anything
// is acknowledged.
//
//     actuator SERVER CA TOKEN STATE-FILE MILLISECONDS

#define _POSIX_C_SOURCE 200809L

#include "mrt/receipts.h"
#include "posix.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TEXT_BYTES = 24, ANSWER_COUNT = 4, PERCENT_MAXIMUM = 100 };

// The application's own codes of an answer.
enum { CODE_DONE = 0, CODE_REFUSED = 0x80, CODE_SUPERSEDED = 0x81, CODE_RECALLED = 0x82 };

// MARK: The record

typedef struct actuator_command {
    // 0 if its sender asked for no answer.
    uint64_t reference;
    bool is_planned;
    bool wants_answer;
    char text[TEXT_BYTES + 1];
} actuator_command;

typedef struct actuator_answer {
    uint64_t reference;
    uint8_t code;
} actuator_answer;

typedef struct actuator_record {
    mrt_record inbox;
    uint32_t position;
    uint32_t answer_count;
    actuator_command plan;
    // The oldest first; a fifth one pushes it out.
    actuator_answer answers[ANSWER_COUNT];
} actuator_record;

typedef struct actuator_device {
    mrt_client client;
    mrt_socket socket;
    const char *path;
    actuator_record record;
    // When the plan is carried out.
    uint32_t due_ms;
    uint32_t wait_ms;
    // The request that is under way; 0 for none.
    uint64_t request;
} actuator_device;

// Written beside and renamed, so that one whole record always exists. On a device it is one page of
// flash, as in c-node.
static void store(actuator_device *device)
{
    char beside[520];
    snprintf(beside, sizeof beside, "%s.new", device->path);
    int descriptor = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool is_stored = descriptor >= 0
        && write(descriptor, &device->record, sizeof device->record)
            == (ssize_t)sizeof device->record
        && fsync(descriptor) == 0;
    close(descriptor);
    if (!is_stored || rename(beside, device->path) != 0) {
        perror(device->path);
        exit(1);
    }
}

static void load(actuator_device *device)
{
    int descriptor = open(device->path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0
        || read(descriptor, &device->record, sizeof device->record)
            != (ssize_t)sizeof device->record) {
        memset(&device->record, 0, sizeof device->record);
    }
    if (descriptor >= 0) {
        close(descriptor);
    }
}

// MARK: Commands

// The plan is over: it has an answer, which leaves with the next connection.
static void end_plan(actuator_device *device, uint8_t code)
{
    actuator_record *record = &device->record;
    if (record->plan.wants_answer) {
        if (record->answer_count == ANSWER_COUNT) {
            record->answer_count--;
            memmove(record->answers, record->answers + 1, sizeof record->answers[0]
                    * record->answer_count);
        }
        record->answers[record->answer_count].reference = record->plan.reference;
        record->answers[record->answer_count++].code = code;
    }
    record->plan.is_planned = false;
}

// The valve moves, or not, and the record has both.
static void carry_out(actuator_device *device)
{
    actuator_record *record = &device->record;
    char *end = NULL;
    unsigned long percent = strtoul(record->plan.text, &end, 10);
    bool is_possible = record->plan.text[0] >= '0' && record->plan.text[0] <= '9' && *end == '\0'
        && percent <= PERCENT_MAXIMUM;
    if (is_possible) {
        record->position = (uint32_t)percent;
    }
    end_plan(device, is_possible ? CODE_DONE : CODE_REFUSED);
    store(device);
    printf(is_possible ? "valve at %s\n" : "refused %s\n", record->plan.text);
}

static void plan(actuator_device *device, mrt_bytes text)
{
    snprintf(device->record.plan.text, sizeof device->record.plan.text, "%.*s", (int)text.count,
        (const char *)text.bytes);
    device->due_ms = mrt_clock_ms() + device->wait_ms;
    printf("planned %s\n", device->record.plan.text);
}

static void command_arrived(actuator_device *device, mrt_delivery delivery)
{
    actuator_command *next = &device->record.plan;
    mrt_fields fields;
    if (!mrt_take_fields(&delivery, &fields) || delivery.type != MRT_TYPE_TEXT) {
        return;
    }
    if (next->is_planned) {
        end_plan(device, CODE_SUPERSEDED);
    }
    next->is_planned = true;
    next->reference = mrt_field_number(fields.values[MRT_FIELD_REFERENCE]);
    next->wants_answer =
        (mrt_field_number(fields.values[MRT_FIELD_RECEIPTS]) & MRT_ASK_APPLIED) != 0;
    plan(device, delivery.body);
}

// The sender has thought better of it. What was carried out, stays.
static void recall_arrived(actuator_device *device, const mrt_delivery *delivery)
{
    mrt_recall recall;
    if (!mrt_read_recall(delivery, &recall) || !device->record.plan.is_planned
        || recall.reference != device->record.plan.reference) {
        return;
    }
    if (delivery->kind == MRT_FROM_UPDATE) {
        plan(device, recall.body);
    } else {
        end_plan(device, CODE_RECALLED);
        printf("recalled %s\n", device->record.plan.text);
    }
}

static void happened(void *context, const mrt_event *event)
{
    actuator_device *device = context;
    const mrt_delivery *delivery = &event->as.delivery;
    mrt_server_next(&device->socket, &device->client, event);
    switch (event->kind) {
    case MRT_EVENT_CONNECTED:
        // An answer without a response is repeated.
        device->request = 0;
        if (event->as.granted.is_new_inbox) {
            device->record.inbox = mrt_current_record(&device->client);
            store(device);
        }
        break;
    case MRT_EVENT_MESSAGE:
        if (delivery->kind == MRT_FROM_USER) {
            command_arrived(device, *delivery);
        } else {
            recall_arrived(device, delivery);
        }
        if (event->number > 0) {
            device->record.inbox.number = event->number;
            store(device);
            mrt_acknowledge(&device->client, event->number);
        }
        break;
    case MRT_EVENT_ANSWER:
        // Also a refusal is final: the broker has forgotten the message.
        if (device->request != 0 && event->number == device->request) {
            device->request = 0;
            device->record.answer_count--;
            memmove(device->record.answers, device->record.answers + 1,
                sizeof device->record.answers[0] * device->record.answer_count);
            store(device);
            printf("answered %s\n", mrt_reason_text(event->reason));
        }
        break;
    default:
        break;
    }
    fflush(stdout);
}

// MARK: The loop

static void answer(actuator_device *device)
{
    static const char *const texts[] = {"refused: out of range", "superseded", "recalled"};
    const actuator_answer *first = &device->record.answers[0];
    const char *text = first->code == CODE_DONE ? "done" : texts[first->code - CODE_REFUSED];
    // Where there is no room now, the next turn tries again.
    mrt_tell_applied(
        &device->client, first->reference, first->code, mrt_text(text), &device->request);
}

int main(int argc, char **argv)
{
    static actuator_device device;
    static uint8_t receive[1400];
    static uint8_t transmit[256];
    static uint8_t ram[64];
    uint8_t entropy[8];
    if (argc != 6) {
        fprintf(stderr, "actuator SERVER CA TOKEN STATE-FILE MILLISECONDS\n");
        return 2;
    }
    device.path = argv[4];
    device.wait_ms = (uint32_t)strtoul(argv[5], NULL, 10);
    load(&device);
    // After a power cut the wait begins anew.
    device.due_ms = mrt_clock_ms() + device.wait_ms;
    // It sends no messages; answers are requests.
    mrt_storage storage = mrt_ram_storage(ram, sizeof ram);
    const mrt_proof proof = {.authority_file = argv[2]};
    const mrt_config config = {
        .transport = mrt_server_transport(&device.socket, argv[1], &proof),
        .storage = &storage,
        .happened = happened,
        .context = &device,
        .receive = receive,
        .receive_size = sizeof receive,
        .transmit = transmit,
        .transmit_size = sizeof transmit,
        .token = mrt_text(argv[3]),
        .device = mrt_text("valve"),
        .extensions = {mrt_accepts, sizeof mrt_accepts},
        .keep_alive_seconds = 60,
        .inbox_window = 4,
        .session_expiry_seconds = MRT_EXPIRY_DEFAULT,
    };
    if (config.transport == NULL || !mrt_random(entropy, sizeof entropy)
        || mrt_init(&device.client, &config, &device.record.inbox, entropy) != MRT_IDLE) {
        fprintf(stderr, "actuator: cannot start\n");
        return 1;
    }
    mrt_start(&device.client);
    for (;;) {
        mrt_status status = mrt_poll(&device.client, mrt_clock_ms());
        if (status < 0) {
            fprintf(stderr, "actuator: %s\n", mrt_status_text(status));
            return 1;
        }
        if (device.record.plan.is_planned && (int32_t)(mrt_clock_ms() - device.due_ms) >= 0) {
            carry_out(&device);
            fflush(stdout);
        }
        if (device.record.answer_count > 0 && device.request == 0
            && mrt_is_connected(&device.client)) {
            answer(&device);
        }
        if (status == MRT_IDLE) {
            mrt_socket_wait(&device.socket, 20);
        }
    }
}
