// The client's needs on a POSIX system: a connection to the broker, a clock, random bytes, and
// files that behave like flash. Everything except the connection is for the examples; a device has
// its own.

#ifndef MRT_POSIX_H
#define MRT_POSIX_H

#include "mrt/servers.h"
#include "mrt/storage.h"
#include "mrt/transport.h"

struct addrinfo;

// A TCP connection that never blocks.
typedef struct mrt_socket {
    const char *host;
    const char *port;
    // Addresses of the host, and the one that is being tried.
    struct addrinfo *addresses;
    struct addrinfo *address;
    int descriptor;
    bool is_connected;
} mrt_socket;

// `host` and `port` must stay valid. The system's resolver, which may block, resolves a name;
// numeric addresses and localhost do not block.
void mrt_socket_init(mrt_socket *socket, const char *host, const char *port);

// The three functions of mrt/transport.h, with a mrt_socket as context.
int32_t mrt_socket_link(void *context, bool wanted);
int32_t mrt_socket_send(void *context, const uint8_t *bytes, uint32_t count);
int32_t mrt_socket_receive(void *context, uint8_t *bytes, uint32_t count);

// The mutual authentication of broker and device.
typedef struct mrt_proof {
    // The broker must prove `host` with a certificate that an authority in this file (PEM) signed;
    // the device has a token.
    const char *authority_file;
    // Or, if there is an identity, both have the same key, and the device needs no token. In
    // hexadecimal, as in the broker's file of keys; 16 to 32 bytes.
    const char *psk_identity;
    const char *psk;
} mrt_proof;

enum { MRT_PSK_MAXIMUM = 32 };

// The bytes of a pre-shared key; 0 if it is invalid.
uint32_t mrt_psk_bytes(const mrt_proof *proof, uint8_t key[MRT_PSK_MAXIMUM]);

// TLS over such a socket, by OpenSSL (openssl.c) or mbedTLS (mbedtls.c): a program links one of
// them, and has one connection. A reconnect is a short handshake where the broker gave a ticket.
// NULL, with a line on standard error, where the proof cannot be read.
const mrt_transport *mrt_tls_transport(mrt_socket *socket, const mrt_proof *proof);

// The transport for "tls://HOST:PORT" or "tcp://HOST:PORT", or for several of one kind with commas
// between them, the nodes of a cluster; one per program. NULL, with a line on standard error, where
// that cannot be.
const mrt_transport *mrt_server_transport(
    mrt_socket *socket, const char *server, const mrt_proof *proof);

// Selects the server of the next attempt: call it in the callback, with each event. Returns the
// milliseconds until then, as mrt_servers_next.
uint32_t mrt_server_next(mrt_socket *socket, mrt_client *client, const mrt_event *event);

// Milliseconds of the monotonic clock, which wraps.
uint32_t mrt_clock_ms(void);

// Bytes from the system's cryptographic source.
bool mrt_random(uint8_t *bytes, uint32_t count);

// Waits until the line has something, or so many milliseconds.
void mrt_socket_wait(const mrt_socket *socket, uint32_t ms);

// Flash in a file: of `sector_count` sectors of 4,096 bytes, programmed in units of 8 bytes, each
// once between erasures. A file that is not there yet is made. False with errno.
bool mrt_file_storage(mrt_storage *storage, const char *path, uint32_t sector_count);

#endif
