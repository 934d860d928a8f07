// TLS by mbedTLS, in steps: the library that fits into the flash of small devices. On one, the
// socket functions are those of its network stack and the seed comes from its random generator.

#define _POSIX_C_SOURCE 200809L

#include "posix.h"

#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/error.h>
#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <string.h>

typedef struct tls_line {
    mrt_socket *socket;
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    mbedtls_x509_crt authority;
    mbedtls_ssl_config config;
    mbedtls_ssl_context session;
    // What makes the next handshake a short one.
    mbedtls_ssl_session ticket;
    // The host that gave it, as the socket has it.
    const char *ticket_host;
    // Bytes that the library has taken but not yet sent: it wants to be asked for exactly these
    // again, while the client may have more by then.
    uint32_t taken;
    bool has_session;
    bool has_ticket;
    bool is_up;
} tls_line;

static tls_line line;

static int raw_send(void *context, const unsigned char *bytes, size_t count)
{
    int32_t sent = mrt_socket_send(context, bytes, (uint32_t)count);
    return sent == 0 ? MBEDTLS_ERR_SSL_WANT_WRITE : sent < 0 ? MBEDTLS_ERR_SSL_CONN_EOF : sent;
}

static int raw_receive(void *context, unsigned char *bytes, size_t count)
{
    int32_t received = mrt_socket_receive(context, bytes, (uint32_t)count);
    return received == 0 ? MBEDTLS_ERR_SSL_WANT_READ : received < 0 ? 0 : received;
}

static bool is_waiting(int result)
{
    return result == MBEDTLS_ERR_SSL_WANT_READ || result == MBEDTLS_ERR_SSL_WANT_WRITE;
}

static void take_down(void)
{
    if (line.has_session) {
        // Says goodbye if the socket takes it; the answer is not waited for.
        mbedtls_ssl_close_notify(&line.session);
        mbedtls_ssl_free(&line.session);
    }
    line.has_session = false;
    line.is_up = false;
    line.taken = 0;
    mrt_socket_link(line.socket, false);
}

static bool begin(void)
{
    mbedtls_ssl_init(&line.session);
    line.has_session = true;
    if (mbedtls_ssl_setup(&line.session, &line.config) != 0
        || mbedtls_ssl_set_hostname(&line.session, line.socket->host) != 0) {
        return false;
    }
    mbedtls_ssl_set_bio(&line.session, line.socket, raw_send, raw_receive, NULL);
    if (!line.has_ticket || line.ticket_host != line.socket->host) {
        return true;
    }
    return mbedtls_ssl_set_session(&line.session, &line.ticket) == 0;
}

static void keep_ticket(void)
{
    mbedtls_ssl_session_free(&line.ticket);
    mbedtls_ssl_session_init(&line.ticket);
    line.has_ticket = mbedtls_ssl_get_session(&line.session, &line.ticket) == 0;
    line.ticket_host = line.socket->host;
}

static int32_t tls_link(void *context, bool wanted)
{
    (void)context;
    if (!wanted) {
        take_down();
        return 0;
    }
    if (!line.has_session) {
        int32_t state = mrt_socket_link(line.socket, true);
        if (state <= 0) {
            return state;
        }
        if (!begin()) {
            take_down();
            return -1;
        }
    }
    int result = mbedtls_ssl_handshake(&line.session);
    if (result == 0) {
        if (!line.is_up) {
            line.is_up = true;
            keep_ticket();
        }
        return 1;
    }
    if (is_waiting(result)) {
        return 0;
    }
    // Whatever was wrong, the next handshake is a whole one.
    line.has_ticket = false;
    char text[120];
    mbedtls_strerror(result, text, sizeof text);
    fprintf(stderr, "tls: %s\n", text);
    take_down();
    return -1;
}

static int32_t tls_send(void *context, const uint8_t *bytes, uint32_t count)
{
    (void)context;
    uint32_t asked = line.taken > 0 && line.taken < count ? line.taken : count;
    int result = mbedtls_ssl_write(&line.session, bytes, asked);
    line.taken = is_waiting(result) ? asked : 0;
    return is_waiting(result) ? 0 : result;
}

static int32_t tls_receive(void *context, uint8_t *bytes, uint32_t count)
{
    (void)context;
    int result = mbedtls_ssl_read(&line.session, bytes, count);
    return is_waiting(result) ? 0 : result > 0 ? result : -1;
}

// Whether the proof can be read.
static bool take_proof(const mrt_proof *proof)
{
    // A broker that wants to prove itself otherwise has no key. The first has forward secrecy, at
    // the price of an exchange of keys.
    static const int psk_suites[] = {MBEDTLS_TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256,
        MBEDTLS_TLS_PSK_WITH_AES_128_GCM_SHA256, MBEDTLS_TLS_PSK_WITH_AES_128_CCM, 0};
    uint8_t key[MRT_PSK_MAXIMUM];
    if (proof->psk_identity == NULL) {
        mbedtls_ssl_conf_authmode(&line.config, MBEDTLS_SSL_VERIFY_REQUIRED);
        mbedtls_ssl_conf_ca_chain(&line.config, &line.authority, NULL);
        return mbedtls_x509_crt_parse_file(&line.authority, proof->authority_file) == 0;
    }
    uint32_t count = mrt_psk_bytes(proof, key);
    mbedtls_ssl_conf_ciphersuites(&line.config, psk_suites);
    return count > 0
        && mbedtls_ssl_conf_psk(&line.config, key, count,
               (const unsigned char *)proof->psk_identity, strlen(proof->psk_identity))
        == 0;
}

const mrt_transport *mrt_tls_transport(mrt_socket *socket, const mrt_proof *proof)
{
    static const mrt_transport transport = {NULL, tls_link, tls_send, tls_receive};
    line.socket = socket;
    mbedtls_entropy_init(&line.entropy);
    mbedtls_ctr_drbg_init(&line.random);
    mbedtls_x509_crt_init(&line.authority);
    mbedtls_ssl_config_init(&line.config);
    mbedtls_ssl_session_init(&line.ticket);
    if (mbedtls_ctr_drbg_seed(&line.random, mbedtls_entropy_func, &line.entropy, NULL, 0) != 0
        || mbedtls_ssl_config_defaults(&line.config, MBEDTLS_SSL_IS_CLIENT,
               MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT)
            != 0) {
        fprintf(stderr, "tls: cannot start\n");
        return NULL;
    }
    if (!take_proof(proof)) {
        fprintf(stderr, "tls: no authority and no key to believe the broker by\n");
        return NULL;
    }
    mbedtls_ssl_conf_min_version(
        &line.config, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_rng(&line.config, mbedtls_ctr_drbg_random, &line.random);
    // The broker sends no larger records then (RFC 6066, section 4): a library that is compiled
    // with MBEDTLS_SSL_IN_CONTENT_LEN and MBEDTLS_SSL_OUT_CONTENT_LEN of 1,024 can read them all.
    if (mbedtls_ssl_conf_max_frag_len(&line.config, MBEDTLS_SSL_MAX_FRAG_LEN_1024) != 0) {
        fprintf(stderr, "tls: cannot ask for small records\n");
        return NULL;
    }
    return &transport;
}
