// What a connection costs: bytes on the air and bytes of heap of a TLS handshake by mbedTLS, with a
// certificate, with a ticket, with a pre-shared key; then bytes on the air of a login, of a reading
// with its result, and of a ping. Measured at the broker. The linker puts the functions here
// between the library and its memory, and between the library and the socket (-Wl,--wrap=...).
//
//     cost SERVER TOKEN AUTHORITY-FILE
//     cost SERVER "" PSK-IDENTITY PSK
//
// Prints rows of: what, bytes sent, bytes received, and of handshakes: heap at most, heap while it
// stands. The two buffers of a record are not counted, since a device chooses their size.

#define _POSIX_C_SOURCE 200809L

#include "check.h"
#include "mrt/client.h"
#include "posix.h"

#include <string.h>

// The size of a record buffer is chosen when the library is compiled: 16,384 bytes of content and
// what stands around them.
enum { RECORD_BYTES = 16384, HEAD = 16 };

static size_t heap, heap_maximum, records;
static uint32_t sent, received;

void *__real_calloc(size_t count, size_t size);
void __real_free(void *memory);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *memory);
int32_t __real_mrt_socket_send(void *context, const uint8_t *bytes, uint32_t count);
int32_t __real_mrt_socket_receive(void *context, uint8_t *bytes, uint32_t count);
int32_t __wrap_mrt_socket_send(void *context, const uint8_t *bytes, uint32_t count);
int32_t __wrap_mrt_socket_receive(void *context, uint8_t *bytes, uint32_t count);

void *__wrap_calloc(size_t count, size_t size)
{
    size_t bytes = count * size;
    uint8_t *memory = __real_calloc(1, bytes + HEAD);
    CHECK(memory != NULL);
    memcpy(memory, &bytes, sizeof bytes);
    if (bytes > RECORD_BYTES) {
        records++;
    } else {
        heap += bytes;
    }
    heap_maximum = heap > heap_maximum ? heap : heap_maximum;
    return memory + HEAD;
}

void __wrap_free(void *memory)
{
    size_t bytes = 0;
    if (memory == NULL) {
        return;
    }
    uint8_t *start = (uint8_t *)memory - HEAD;
    memcpy(&bytes, start, sizeof bytes);
    if (bytes > RECORD_BYTES) {
        records--;
    } else {
        heap -= bytes;
    }
    __real_free(start);
}

int32_t __wrap_mrt_socket_send(void *context, const uint8_t *bytes, uint32_t count)
{
    int32_t part = __real_mrt_socket_send(context, bytes, count);
    sent += part > 0 ? (uint32_t)part : 0;
    return part;
}

int32_t __wrap_mrt_socket_receive(void *context, uint8_t *bytes, uint32_t count)
{
    int32_t part = __real_mrt_socket_receive(context, bytes, count);
    received += part > 0 ? (uint32_t)part : 0;
    return part;
}

// MARK: Handshakes

// At most 20 s.
static void shake_hands(const mrt_transport *tls, const mrt_socket *socket, const char *name)
{
    uint32_t start = mrt_clock_ms();
    sent = received = 0;
    heap_maximum = heap;
    int32_t state = 0;
    while (state == 0) {
        CHECK(mrt_clock_ms() - start < 20000);
        state = tls->link(tls->context, true);
        mrt_socket_wait(socket, 10);
    }
    CHECK(state > 0 && records == 2);
    printf("%s %u %u %zu %zu\n", name, sent, received, heap_maximum, heap);
    tls->link(tls->context, false);
    CHECK(records == 0);
}

// MARK: A client

static mrt_event_kind last;

static void happened(void *context, const mrt_event *event)
{
    (void)context;
    last = event->kind;
    CHECK(event->kind != MRT_EVENT_DISCONNECTED);
}

// Polls until there was such an event, or for so long, and prints what that took.
static void run(mrt_client *client, const mrt_socket *socket, const char *name, mrt_event_kind kind,
    uint32_t ms)
{
    uint32_t start = mrt_clock_ms();
    last = MRT_EVENT_NOTHING;
    while (mrt_clock_ms() - start < ms && (kind == MRT_EVENT_NOTHING || last != kind)) {
        if (mrt_poll(client, mrt_clock_ms()) == MRT_IDLE) {
            mrt_socket_wait(socket, 10);
        }
    }
    CHECK(last == kind);
    printf("%s %u %u\n", name, sent, received);
    sent = received = 0;
}

static void be_a_client(const mrt_transport *line, const mrt_socket *socket, const char *token)
{
    static uint8_t receive[512], transmit[512], ram[512];
    const mrt_storage storage = mrt_ram_storage(ram, sizeof ram);
    const mrt_record record = {0, 0};
    uint8_t entropy[8];
    const mrt_config config = {.transport = line,
        .storage = &storage,
        .happened = happened,
        .receive = receive,
        .receive_size = sizeof receive,
        .transmit = transmit,
        .transmit_size = sizeof transmit,
        .token = mrt_text(token),
        .device = mrt_text("cost"),
        .keep_alive_seconds = 2,
        .inbox_window = 16,
        .session_expiry_seconds = MRT_EXPIRY_DEFAULT};
    const mrt_message reading = {
        .grade = MRT_DURABLE, .address = mrt_text("bob"), .body = mrt_text("21.5 degrees")};
    static mrt_client client;
    CHECK(mrt_random(entropy, sizeof entropy));
    CHECK(mrt_init(&client, &config, &record, entropy) == MRT_IDLE);
    // What goes beyond this is the client's.
    while (line->link(line->context, true) == 0) {
        mrt_socket_wait(socket, 10);
    }
    sent = received = 0;
    mrt_start(&client);
    run(&client, socket, "login", MRT_EVENT_CONNECTED, 20000);
    CHECK(mrt_send(&client, &reading, NULL) == MRT_IDLE);
    run(&client, socket, "reading", MRT_EVENT_RESULT, 20000);
    // The first ping comes after the 2 s of keep-alive.
    run(&client, socket, "ping", MRT_EVENT_NOTHING, 3000);
    line->link(line->context, false);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4 || argc == 5);
    static mrt_socket socket;
    const mrt_proof proof = {.authority_file = argv[3],
        .psk_identity = argc == 5 ? argv[3] : NULL,
        .psk = argc == 5 ? argv[4] : NULL};
    const mrt_transport *line = mrt_server_transport(&socket, argv[1], &proof);
    CHECK(line != NULL);
    if (strncmp(argv[1], "tls:", 4) == 0) {
        shake_hands(line, &socket, "handshake");
        shake_hands(line, &socket, "ticket");
    }
    be_a_client(line, &socket, argv[2]);
    return 0;
}
