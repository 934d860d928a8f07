// TLS by OpenSSL 3, in steps. The last session ticket is kept in memory, so that a reconnect is a
// short handshake; who the broker is, is checked each time all the same.

#define _POSIX_C_SOURCE 200809L

#include "posix.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct tls_line {
    mrt_socket *socket;
    SSL_CTX *context;
    SSL *session;
    SSL_SESSION *ticket;
    // The host that gave the ticket, as the socket has it.
    const char *ticket_host;
    bool is_up;
} tls_line;

static tls_line line;

// The pre-shared key, where there is one. OpenSSL takes it for TLS 1.2 and 1.3 alike.
static struct {
    const char *identity;
    uint8_t key[MRT_PSK_MAXIMUM];
    uint32_t count;
} psk;

static unsigned give_psk(SSL *session, const char *hint, char *identity, unsigned identity_room,
    unsigned char *key, unsigned key_room)
{
    (void)session;
    (void)hint;
    if (strlen(psk.identity) >= identity_room || psk.count > key_room) {
        return 0;
    }
    strcpy(identity, psk.identity);
    memcpy(key, psk.key, psk.count);
    return psk.count;
}

// Whether the proof can be read.
static bool take_proof(const mrt_proof *proof)
{
    if (proof->psk_identity == NULL) {
        return SSL_CTX_load_verify_locations(line.context, proof->authority_file, NULL) == 1;
    }
    psk.identity = proof->psk_identity;
    psk.count = mrt_psk_bytes(proof, psk.key);
    SSL_CTX_set_psk_client_callback(line.context, give_psk);
    // A broker that wants to prove itself otherwise has no key.
    return psk.count > 0 && SSL_CTX_set_cipher_list(line.context, "PSK") == 1;
}

// 0 where the library waits for the socket, -1 where the line is dead.
static int32_t outcome(int result)
{
    int error = SSL_get_error(line.session, result);
    ERR_clear_error();
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

static int keep_ticket(SSL *session, SSL_SESSION *ticket)
{
    (void)session;
    SSL_SESSION_free(line.ticket);
    line.ticket = ticket;
    line.ticket_host = line.socket->host;
    return 1;
}

static bool begin(void)
{
    line.session = SSL_new(line.context);
    if (line.session == NULL || SSL_set_fd(line.session, line.socket->descriptor) != 1) {
        return false;
    }
    X509_VERIFY_PARAM *rules = SSL_get0_param(line.session);
    // A host in digits is checked against the addresses in the certificate, and has no server name.
    if (X509_VERIFY_PARAM_set1_ip_asc(rules, line.socket->host) != 1) {
        ERR_clear_error();
        if (SSL_set1_host(line.session, line.socket->host) != 1
            || SSL_set_tlsext_host_name(line.session, line.socket->host) != 1) {
            return false;
        }
    }
    if (line.ticket != NULL && line.ticket_host == line.socket->host) {
        SSL_set_session(line.session, line.ticket);
    }
    return true;
}

static void take_down(void)
{
    if (line.is_up) {
        // Says goodbye if the socket takes it; the answer is not waited for.
        SSL_shutdown(line.session);
        ERR_clear_error();
    }
    SSL_free(line.session);
    line.session = NULL;
    line.is_up = false;
    mrt_socket_link(line.socket, false);
}

static int32_t tls_link(void *context, bool wanted)
{
    (void)context;
    if (!wanted) {
        take_down();
        return 0;
    }
    if (line.session == NULL) {
        int32_t state = mrt_socket_link(line.socket, true);
        if (state <= 0) {
            return state;
        }
        if (!begin()) {
            take_down();
            return -1;
        }
    }
    int result = SSL_connect(line.session);
    if (result == 1) {
        line.is_up = true;
        return 1;
    }
    long verdict = SSL_get_verify_result(line.session);
    int32_t state = outcome(result);
    if (state < 0) {
        if (verdict != X509_V_OK) {
            fprintf(stderr, "tls: %s\n", X509_verify_cert_error_string(verdict));
        }
        take_down();
    }
    return state;
}

static int32_t tls_send(void *context, const uint8_t *bytes, uint32_t count)
{
    (void)context;
    size_t sent = 0;
    int result = SSL_write_ex(line.session, bytes, count, &sent);
    return result == 1 ? (int32_t)sent : outcome(result);
}

static int32_t tls_receive(void *context, uint8_t *bytes, uint32_t count)
{
    (void)context;
    size_t received = 0;
    int result = SSL_read_ex(line.session, bytes, count, &received);
    return result == 1 ? (int32_t)received : outcome(result);
}

const mrt_transport *mrt_tls_transport(mrt_socket *socket, const mrt_proof *proof)
{
    static const mrt_transport transport = {NULL, tls_link, tls_send, tls_receive};
    // OpenSSL writes to sockets that the peer has closed.
    signal(SIGPIPE, SIG_IGN);
    line.socket = socket;
    line.context = SSL_CTX_new(TLS_client_method());
    if (line.context == NULL || !take_proof(proof)) {
        fprintf(stderr, "tls: no authority and no key to believe the broker by\n");
        return NULL;
    }
    SSL_CTX_set_min_proto_version(line.context, TLS1_2_VERSION);
    SSL_CTX_set_verify(line.context, SSL_VERIFY_PEER, NULL);
    // The client's transmit buffer moves between two attempts to send.
    SSL_CTX_set_mode(
        line.context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(
        line.context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(line.context, keep_ticket);
    return &transport;
}
