// The system's client library of NATS (Debian: libnats-dev). Texts that the library returns by
// pointer, and structures whose members Swift would have to fill by pointer, become inline
// functions here. No logic lives in this header.
#include <nats/nats.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Names for Swift, which imports them as pointers.
typedef natsConnection *nats_connection;
typedef natsOptions *nats_options;
typedef natsMsg *nats_message;
typedef natsSubscription *nats_subscription;
typedef jsCtx *nats_jetstream;
typedef void *nats_context;

// What a request for an append came to.
typedef struct {
    natsStatus status;
    int error;
    uint64_t sequence;
    bool is_duplicate;
} nats_append_result;

static inline natsStatus nats_set_servers(natsOptions *options, char **servers, int count) {
    return natsOptions_SetServers(options, (const char **)servers, count);
}

// The text of the last error of this thread; valid until its next call of the library.
static inline const char *nats_last_error(void) {
    const char *text = nats_GetLastError(NULL);
    return text == NULL ? "" : text;
}

// The same of a connection; empty without one.
static inline const char *nats_connection_error(natsConnection *connection) {
    const char *text = NULL;
    natsConnection_GetLastError(connection, &text);
    return text == NULL ? "" : text;
}

static inline natsStatus nats_make_jetstream(nats_jetstream *context, natsConnection *connection,
                                             int64_t milliseconds) {
    jsOptions options;
    natsStatus status = jsOptions_Init(&options);
    if (status != NATS_OK) return status;
    options.Wait = milliseconds;
    return natsConnection_JetStream(context, connection, &options);
}

// A message with one header field.
static inline natsStatus nats_make_message(nats_message *message, const char *subject,
                                           const void *bytes, int count, const char *name,
                                           const char *value) {
    natsStatus status = natsMsg_Create(message, subject, NULL, (const char *)bytes, count);
    if (status != NATS_OK) return status;
    status = natsMsgHeader_Set(*message, name, value);
    if (status != NATS_OK) natsMsg_Destroy(*message);
    return status;
}

static inline nats_append_result nats_append(jsCtx *context, natsMsg *message, const char *stream,
                                             int64_t milliseconds) {
    nats_append_result result = {NATS_OK, 0, 0, false};
    jsPubOptions options;
    jsPubAck *acknowledgement = NULL;
    jsErrCode error = 0;
    result.status = jsPubOptions_Init(&options);
    if (result.status != NATS_OK) return result;
    options.MaxWait = milliseconds;
    options.ExpectStream = stream;
    result.status = js_PublishMsg(&acknowledgement, context, message, &options, &error);
    result.error = (int)error;
    if (acknowledgement != NULL) {
        result.sequence = acknowledgement->Sequence;
        result.is_duplicate = acknowledgement->Duplicate;
        jsPubAck_Destroy(acknowledgement);
    }
    return result;
}

static inline natsStatus nats_read(nats_message *message, jsCtx *context, const char *stream,
                                   uint64_t sequence, int64_t milliseconds, int *error) {
    jsOptions options;
    jsErrCode code = 0;
    natsStatus status = jsOptions_Init(&options);
    if (status != NATS_OK) return status;
    options.Wait = milliseconds;
    status = js_GetMsg(message, context, stream, sequence, &options, &code);
    *error = (int)code;
    return status;
}

// Removes what is before the sequence.
static inline natsStatus nats_purge(jsCtx *context, const char *stream, uint64_t sequence,
                                    int64_t milliseconds, int *error) {
    jsOptions options;
    jsErrCode code = 0;
    natsStatus status = jsOptions_Init(&options);
    if (status != NATS_OK) return status;
    options.Wait = milliseconds;
    options.Stream.Purge.Sequence = sequence;
    status = js_PurgeStream(context, stream, &options, &code);
    *error = (int)code;
    return status;
}

static inline natsStatus nats_follow(nats_subscription *subscription, jsCtx *context,
                                     const char *stream, const char *subject, uint64_t sequence,
                                     int64_t heartbeat_nanoseconds, int64_t milliseconds,
                                     int *error) {
    jsOptions options;
    jsSubOptions subscribe;
    jsErrCode code = 0;
    natsStatus status = jsOptions_Init(&options);
    if (status == NATS_OK) status = jsSubOptions_Init(&subscribe);
    if (status != NATS_OK) return status;
    options.Wait = milliseconds;
    subscribe.Ordered = true;
    subscribe.Stream = stream;
    subscribe.Config.DeliverPolicy = js_DeliverByStartSequence;
    subscribe.Config.OptStartSeq = sequence;
    subscribe.Config.Heartbeat = heartbeat_nanoseconds;
    status = js_SubscribeSync(subscription, context, subject, &options, &subscribe, &code);
    *error = (int)code;
    return status;
}

// The sequence of a delivered message in its stream; 0 if it has none.
static inline uint64_t nats_stream_sequence(natsMsg *message) {
    jsMsgMetaData *data = NULL;
    if (natsMsg_GetMetaData(&data, message) != NATS_OK) return 0;
    uint64_t sequence = data->Sequence.Stream;
    jsMsgMetaData_Destroy(data);
    return sequence;
}

static inline const void *nats_message_bytes(natsMsg *message) { return natsMsg_GetData(message); }

static inline natsStatus nats_request(nats_message *reply, natsConnection *connection,
                                      const char *subject, const void *bytes, int count,
                                      int64_t milliseconds) {
    return natsConnection_Request(reply, connection, subject, (const char *)bytes, count,
                                  milliseconds);
}
