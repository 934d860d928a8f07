// A publisher and a collector on Paho C that outlive the broker: what is lost is connected again,
// and nothing is forgotten. It prints what it was told, and knows nothing of the broker.
//
//   exchange publish  SERVER CLIENT-ID TOPIC QOS COUNT   numbers 0 to COUNT - 1, then "end"
//   exchange collect  SERVER CLIENT-ID TOPIC QOS         prints every payload until "end"
//
// SIGUSR1 says that the broker was started again.

#define _POSIX_C_SOURCE 200809L
#include <MQTTClient.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Connection attempts, at most a second apart: minutes, which no restart needs.
enum {
    ATTEMPTS = 240, WAIT_SECONDS = 1, ANSWER_MILLISECONDS = 500, COMMAND_MILLISECONDS = 60000
};
static sigset_t restarted;

static void fail(const char *what) {
    fprintf(stderr, "exchange: %s\n", what);
    exit(1);
}

// Connects, and goes on with the session there was.
static void keepConnected(MQTTClient client) {
    for (int attempt = 0; !MQTTClient_isConnected(client); attempt++) {
        if (attempt == ATTEMPTS) fail("no broker");
        MQTTClient_connectOptions options = MQTTClient_connectOptions_initializer;
        options.cleansession = 0;
        options.reliable = 0;
        options.keepAliveInterval = 20;
        options.connectTimeout = 5;
        if (MQTTClient_connect(client, &options) != MQTTCLIENT_SUCCESS) {
            const struct timespec wait = {.tv_sec = WAIT_SECONDS};
            sigtimedwait(&restarted, NULL, &wait);
        }
    }
}

static void publishOne(MQTTClient client, const char *topic, int qos, const char *text) {
    MQTTClient_deliveryToken token;
    keepConnected(client);
    // Once it is handed over, Paho sends it until it is acknowledged.
    while (MQTTClient_publish(client, topic, (int)strlen(text), text, qos, 0, &token)
           != MQTTCLIENT_SUCCESS) {
        keepConnected(client);
    }
    for (int attempt = 0;; attempt++) {
        if (attempt == ATTEMPTS) fail("no acknowledgement");
        if (MQTTClient_waitForCompletion(client, token, ANSWER_MILLISECONDS)
            == MQTTCLIENT_SUCCESS) {
            return;
        }
        MQTTClient_deliveryToken *pending = NULL;
        keepConnected(client);
        if (MQTTClient_getPendingDeliveryTokens(client, &pending) == MQTTCLIENT_SUCCESS) {
            int isPending = 0;
            for (int index = 0; pending && pending[index] != -1; index++) {
                if (pending[index] == token) isPending = 1;
            }
            MQTTClient_free(pending);
            if (!isPending) return;
        }
    }
}

static void collect(MQTTClient client, const char *topic, int qos) {
    keepConnected(client);
    if (MQTTClient_subscribe(client, topic, qos) != MQTTCLIENT_SUCCESS) fail("no subscription");
    printf("subscribed\n");
    fflush(stdout);
    for (;;) {
        char *name = NULL;
        int nameLength = 0;
        MQTTClient_message *message = NULL;
        int result = MQTTClient_receive(client, &name, &nameLength, &message, ANSWER_MILLISECONDS);
        if (message) {
            printf("%.*s\n", message->payloadlen, (char *)message->payload);
            fflush(stdout);
            int isEnd = message->payloadlen == 3 && !memcmp(message->payload, "end", 3);
            MQTTClient_freeMessage(&message);
            MQTTClient_free(name);
            if (isEnd) return;
        }
        if (result != MQTTCLIENT_SUCCESS) keepConnected(client);
    }
}

int main(int count, char **words) {
    if (count < 6) fail("too few arguments");
    // Before Paho starts its threads, so that the signal waits for keepConnected.
    sigemptyset(&restarted);
    sigaddset(&restarted, SIGUSR1);
    sigprocmask(SIG_BLOCK, &restarted, NULL);
    MQTTClient client;
    int qos = atoi(words[5]);
    if (MQTTClient_create(&client, words[2], words[3], MQTTCLIENT_PERSISTENCE_NONE, NULL)
        != MQTTCLIENT_SUCCESS) {
        fail("no client");
    }
    MQTTClient_setCommandTimeout(client, COMMAND_MILLISECONDS);
    if (!strcmp(words[1], "collect")) {
        collect(client, words[4], qos);
    } else {
        int total = count > 6 ? atoi(words[6]) : 0;
        for (int number = 0; number < total; number++) {
            char text[16];
            snprintf(text, sizeof text, "%d", number);
            publishOne(client, words[4], qos, text);
            printf("acknowledged %d\n", number);
            fflush(stdout);
        }
        publishOne(client, words[4], qos, "end");
    }
    MQTTClient_disconnect(client, 1000);
    MQTTClient_destroy(&client);
    return 0;
}
