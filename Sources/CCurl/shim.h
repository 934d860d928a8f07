// The system's libcurl (Debian: libcurl4-openssl-dev). Swift cannot call functions with variable
// arguments, nor read addresses of all families: that becomes inline functions here, and nothing
// else. No logic lives in this header.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <netinet/in.h>
#include <string.h>

// Names for Swift, which imports them as pointers.
typedef CURL *curl_handle;
typedef CURLM *curl_multi_handle;
typedef struct curl_slist *curl_fields;

typedef size_t (*curl_receiver)(char *bytes, size_t size, size_t count, void *context);

static inline CURLcode curl_set_number(CURL *handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode curl_set_text(CURL *handle, CURLoption option, const char *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode curl_set_list(CURL *handle, CURLoption option, struct curl_slist *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode curl_set_buffer(CURL *handle, CURLoption option, void *value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode curl_set_receiver(CURL *handle, curl_receiver receiver, void *context) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, receiver);
    return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_WRITEDATA, context) : code;
}
static inline CURLcode curl_set_field_receiver(CURL *handle, curl_receiver receiver,
                                               void *context) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, receiver);
    return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_HEADERDATA, context) : code;
}
static inline CURLcode curl_set_tls_preparer(CURL *handle, curl_ssl_ctx_callback preparer) {
    return curl_easy_setopt(handle, CURLOPT_SSL_CTX_FUNCTION, preparer);
}
static inline long curl_status(CURL *handle) {
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
}
static inline CURLcode curl_set_address_opener(CURL *handle, curl_opensocket_callback opener,
                                               void *context) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, opener);
    return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_OPENSOCKETDATA, context) : code;
}
// Called before each request, on a connection that an earlier request has opened too.
static inline CURLcode curl_set_request_check(CURL *handle, curl_prereq_callback check,
                                              void *context) {
    CURLcode code = curl_easy_setopt(handle, CURLOPT_PREREQFUNCTION, check);
    return code == CURLE_OK ? curl_easy_setopt(handle, CURLOPT_PREREQDATA, context) : code;
}
static inline CURLcode curl_set_context(CURL *handle, void *context) {
    return curl_easy_setopt(handle, CURLOPT_PRIVATE, context);
}
static inline void *curl_context(CURL *handle) {
    char *context = NULL;
    curl_easy_getinfo(handle, CURLINFO_PRIVATE, &context);
    return context;
}
static inline curl_off_t curl_retry_after(CURL *handle) {
    curl_off_t seconds = 0;
    curl_easy_getinfo(handle, CURLINFO_RETRY_AFTER, &seconds);
    return seconds;
}
// libcurl copies the bytes.
static inline CURLcode curl_set_copied(CURL *handle, CURLoption option, void *bytes, size_t count) {
    struct curl_blob blob = {bytes, count, CURL_BLOB_COPY};
    return curl_easy_setopt(handle, option, &blob);
}
// The field Date of the answer, in Unix seconds; 0 without one.
static inline long curl_server_seconds(CURL *handle) {
    struct curl_header *field = NULL;
    if (curl_easy_header(handle, "Date", 0, CURLH_HEADER, -1, &field) != CURLHE_OK) return 0;
    time_t seconds = curl_getdate(field->value, NULL);
    return seconds > 0 ? (long)seconds : 0;
}
// The socket of the last request; -1 if its connection is closed.
static inline long curl_active_socket(CURL *handle) {
    curl_socket_t socket = CURL_SOCKET_BAD;
    curl_easy_getinfo(handle, CURLINFO_ACTIVESOCKET, &socket);
    return (long)socket;
}
// Whether there was a connection on which the request could be sent.
static inline int curl_was_connected(CURL *handle) {
    curl_off_t microseconds = 0;
    curl_easy_getinfo(handle, CURLINFO_PRETRANSFER_TIME_T, &microseconds);
    return microseconds > 0;
}
static inline CURLMcode curl_multi_set_number(CURLM *multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}

// The address that a connection is made to: 4 or 16 bytes, or none of another family.
typedef struct {
    unsigned char bytes[16];
    int byte_count;
} curl_address_bytes;
static inline curl_address_bytes curl_bytes_of(const struct curl_sockaddr *address) {
    curl_address_bytes result = {{0}, 0};
    const void *value = &address->addr;
    if (address->family == AF_INET) {
        memcpy(result.bytes, &((const struct sockaddr_in *)value)->sin_addr, 4);
        result.byte_count = 4;
    } else if (address->family == AF_INET6) {
        memcpy(result.bytes, &((const struct sockaddr_in6 *)value)->sin6_addr, 16);
        result.byte_count = 16;
    }
    return result;
}
