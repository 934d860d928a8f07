// Contacts in firmware: three devices that know each other's names from the factory. The controller
// creates a group for the others and invites each by name. A device joins, reports to the
// controller, and sends to the group. No names are entered or downloaded.
//
// On a device SELF is compiled in, and the token is in its flash; here both are arguments:
//
//     contacts USER SERVER CA TOKEN

#define _POSIX_C_SOURCE 200809L

#include "mrt/requests.h"
#include "posix.h"

#include <stdio.h>

// MARK: Names

typedef enum contact_role { CONTROLLER, SENSOR } contact_role;

typedef struct contact {
    const char *user;
    contact_role role;
} contact;

static const contact contacts[] = {
    {"alice", CONTROLLER},
    {"bob", SENSOR},
};
enum { CONTACT_COUNT = sizeof contacts / sizeof contacts[0] };

// The application's own message types, from 5 on.
enum { TYPE_INVITATION = 5, TYPE_READING = 6, TYPE_ORDER = 7 };

typedef struct contact_device {
    mrt_client client;
    mrt_socket socket;
    const contact *self;
    // The group's id, which the broker created and an invitation contains.
    char group[65];
    uint8_t group_key[8];
    uint64_t pending_request;
    bool has_asked;
    bool is_done;
} contact_device;

static bool is_contact(mrt_bytes user, contact_role role)
{
    for (unsigned i = 0; i < CONTACT_COUNT; i++) {
        if (contacts[i].role == role && strlen(contacts[i].user) == user.count
            && memcmp(contacts[i].user, user.bytes, user.count) == 0) {
            return true;
        }
    }
    return false;
}

// MARK: Messages

static void say(contact_device *device, mrt_target target, const char *address, uint8_t type,
    const char *text)
{
    const mrt_message message = {
        .grade = MRT_DURABLE,
        .target = target,
        .address = mrt_text(address),
        .type = type,
        .body = mrt_text(text),
    };
    mrt_status status = mrt_send(&device->client, &message, NULL);
    if (status != MRT_IDLE) {
        fprintf(stderr, "send: %s\n", mrt_status_text(status));
    }
}

static void invite_all(contact_device *device)
{
    for (unsigned i = 0; i < CONTACT_COUNT; i++) {
        if (&contacts[i] != device->self) {
            say(device, MRT_TO_USER, contacts[i].user, TYPE_INVITATION, device->group);
        }
    }
}

static void create_group(contact_device *device)
{
    mrt_bytes siblings[CONTACT_COUNT];
    for (unsigned i = 0; i < CONTACT_COUNT; i++) {
        siblings[i] = mrt_text(contacts[i].user);
    }
    const mrt_allow_list allowed = {.users = siblings, .count = CONTACT_COUNT};
    device->has_asked = mrt_create_group(&device->client, device->group_key, mrt_text("Pump house"),
                            mrt_text(""), &allowed, &device->pending_request)
        == MRT_IDLE;
}

static void keep_group(contact_device *device, mrt_bytes id)
{
    snprintf(device->group, sizeof device->group, "%.*s", (int)id.count, (const char *)id.bytes);
}

// The type is the meaning of a message; the sender decides whether it is permitted: an order is
// accepted only from the controller.
static void message_arrived(contact_device *device, const mrt_event *event)
{
    const mrt_delivery *delivery = &event->as.delivery;
    bool is_from_controller = is_contact(delivery->from, CONTROLLER);
    bool is_invitation = delivery->kind == MRT_FROM_USER && delivery->type == TYPE_INVITATION;
    if (is_invitation && is_from_controller) {
        keep_group(device, delivery->body);
        device->has_asked = false;
    } else if (delivery->type == TYPE_ORDER && is_from_controller) {
        printf("order: %.*s\n", (int)delivery->body.count, (const char *)delivery->body.bytes);
        device->is_done = true;
    } else if (delivery->type == TYPE_READING && is_contact(delivery->from, SENSOR)) {
        bool is_to_group = delivery->kind == MRT_FROM_GROUP;
        printf("%s from %.*s: %.*s\n", is_to_group ? "group reading" : "reading",
            (int)delivery->from.count, (const char *)delivery->from.bytes,
            (int)delivery->body.count, (const char *)delivery->body.bytes);
        if (is_to_group) {
            say(device, MRT_TO_GROUP, device->group, TYPE_ORDER, "close valve 3");
            device->is_done = true;
        }
    }
    fflush(stdout);
    // On a device the record is stored first (see posix-node).
    mrt_acknowledge(&device->client, event->number);
}

static void request_answered(contact_device *device, const mrt_event *event)
{
    if (event->number != device->pending_request) {
        return;
    }
    if (event->reason >= MRT_UNSPECIFIED_ERROR) {
        fprintf(stderr, "request: %s\n", mrt_reason_text(event->reason));
    } else if (device->self->role == CONTROLLER) {
        keep_group(device, event->as.content);
        invite_all(device);
    } else {
        say(device, MRT_TO_USER, contacts[0].user, TYPE_READING, "21.5");
        say(device, MRT_TO_GROUP, device->group, TYPE_READING, "7.2 bar");
    }
}

static void happened(void *context, const mrt_event *event)
{
    contact_device *device = context;
    mrt_server_next(&device->socket, &device->client, event);
    switch (event->kind) {
    case MRT_EVENT_CONNECTED:
        // An answer may have been lost with the last connection: both requests may be repeated.
        device->has_asked = false;
        break;
    case MRT_EVENT_MESSAGE:
        message_arrived(device, event);
        break;
    case MRT_EVENT_ANSWER:
        request_answered(device, event);
        break;
    case MRT_EVENT_RESULT:
        if (event->reason != MRT_SENT) {
            fprintf(stderr, "not sent: %s\n", mrt_reason_text(event->reason));
        }
        break;
    default:
        break;
    }
}

// MARK: The loop

static void ask(contact_device *device)
{
    if (device->self->role == CONTROLLER) {
        create_group(device);
    } else if (device->group[0] != '\0') {
        device->has_asked = mrt_join_group(&device->client, mrt_text(device->group),
                                &device->pending_request)
            == MRT_IDLE;
    }
}

int main(int argc, char **argv)
{
    static contact_device device;
    static uint8_t receive[1400];
    static uint8_t transmit[256];
    static uint8_t ram[1024];
    uint8_t entropy[8];
    if (argc != 5) {
        fprintf(stderr, "contacts USER SERVER CA TOKEN\n");
        return 2;
    }
    for (unsigned i = 0; i < CONTACT_COUNT; i++) {
        if (strcmp(contacts[i].user, argv[1]) == 0) {
            device.self = &contacts[i];
        }
    }
    mrt_storage storage = mrt_ram_storage(ram, sizeof ram);
    const mrt_record record = {0, 0};
    const mrt_proof proof = {.authority_file = argv[3]};
    const mrt_config config = {
        .transport = mrt_server_transport(&device.socket, argv[2], &proof),
        .storage = &storage,
        .happened = happened,
        .context = &device,
        .receive = receive,
        .receive_size = sizeof receive,
        .transmit = transmit,
        .transmit_size = sizeof transmit,
        .token = mrt_text(argv[4]),
        .device = mrt_text("node"),
        .keep_alive_seconds = 60,
        .inbox_window = 8,
        .session_expiry_seconds = MRT_EXPIRY_DEFAULT,
    };
    if (device.self == NULL || config.transport == NULL || !mrt_random(entropy, sizeof entropy)
        || !mrt_random(device.group_key, sizeof device.group_key)
        || mrt_init(&device.client, &config, &record, entropy) != MRT_IDLE) {
        fprintf(stderr, "contacts: cannot start\n");
        return 1;
    }
    mrt_start(&device.client);
    bool is_leaving = false;
    for (;;) {
        mrt_status status = mrt_poll(&device.client, mrt_clock_ms());
        if (status < 0) {
            fprintf(stderr, "contacts: %s\n", mrt_status_text(status));
            return 1;
        }
        if (mrt_is_connected(&device.client) && !device.has_asked) {
            ask(&device);
        }
        if (device.is_done && !is_leaving && mrt_pending_count(&device.client) == 0) {
            mrt_leave(&device.client, MRT_SUCCESS, MRT_EXPIRY_DEFAULT);
            is_leaving = true;
        } else if (is_leaving && mrt_is_stopped(&device.client)) {
            return 0;
        }
        if (status == MRT_IDLE) {
            mrt_socket_wait(&device.socket, 20);
        }
    }
}
