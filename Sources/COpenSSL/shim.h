// The system's OpenSSL 3 (Debian: libssl-dev). Macros that Swift cannot see become inline functions
// here, and nothing else: no logic lives in this header.
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

static inline int openssl_ctx_set_min_version(SSL_CTX *ctx, int version) {
    return SSL_CTX_set_min_proto_version(ctx, version);
}
static inline int openssl_ctx_set_max_version(SSL_CTX *ctx, int version) {
    return SSL_CTX_set_max_proto_version(ctx, version);
}
static inline void openssl_ctx_set_mode(SSL_CTX *ctx, long mode) {
    SSL_CTX_set_mode(ctx, mode);
}
static inline void openssl_ctx_set_session_cache(SSL_CTX *ctx, long mode) {
    SSL_CTX_set_session_cache_mode(ctx, mode);
}
static inline void openssl_ctx_set_read_ahead(SSL_CTX *ctx, int on) {
    SSL_CTX_set_read_ahead(ctx, on);
}
static inline long openssl_ctx_ticket_key_size(SSL_CTX *ctx) {
    return SSL_CTX_get_tlsext_ticket_keys(ctx, NULL, 0);
}
static inline long openssl_ctx_set_ticket_keys(SSL_CTX *ctx, void *keys, long size) {
    return SSL_CTX_set_tlsext_ticket_keys(ctx, keys, size);
}
static inline long openssl_set_server_name(SSL *ssl, const char *name) {
    return SSL_set_tlsext_host_name(ssl, name);
}
static inline int openssl_push_modulus(OSSL_PARAM_BLD *builder, const BIGNUM *number) {
    return OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, number);
}
static inline int openssl_push_exponent(OSSL_PARAM_BLD *builder, const BIGNUM *number) {
    return OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, number);
}
static inline int openssl_push_p256(OSSL_PARAM_BLD *builder) {
    return OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
}
static inline int openssl_push_point(OSSL_PARAM_BLD *builder, const void *point, size_t count) {
    return OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, count);
}
static inline int openssl_public_key_selection(void) { return EVP_PKEY_PUBLIC_KEY; }
static inline int openssl_error_is_system(unsigned long code) {
    return ERR_SYSTEM_ERROR(code);
}
static inline uint64_t openssl_option_no_renegotiation(void) { return SSL_OP_NO_RENEGOTIATION; }
static inline uint64_t openssl_option_no_compression(void) { return SSL_OP_NO_COMPRESSION; }
static inline uint64_t openssl_option_server_preference(void) {
    return SSL_OP_CIPHER_SERVER_PREFERENCE;
}
static inline uint64_t openssl_option_ignore_unexpected_eof(void) {
    return SSL_OP_IGNORE_UNEXPECTED_EOF;
}
static inline long openssl_mode_for_event_loops(void) {
    return SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
           SSL_MODE_RELEASE_BUFFERS;
}
