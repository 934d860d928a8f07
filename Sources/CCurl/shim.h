// The system's libcurl (Debian: libcurl4-openssl-dev). Swift cannot call functions with variable
// arguments: they become inline functions here, and nothing else. No logic lives in this header.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

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
static inline long curl_status(CURL *handle) {
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
}
