// A device that keeps no rule, at the far end of a line of the gateway's: noise, OPEN and OPEN
// again, logins under other names, packets that no device may send, floods. It begins anew for as
// long as somebody connects to its port, and says how many bytes the line has taken.
//
//   hostile PORT

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 0, DATA = 2, PIECES = 6 };

static uint8_t line[65536];
static size_t count;

static uint32_t crc32(const uint8_t *bytes, size_t length) {
    uint32_t remainder = UINT32_MAX;
    for (size_t at = 0; at < length; at++) {
        remainder ^= bytes[at];
        for (int bit = 0; bit < 8; bit++)
            remainder = remainder >> 1 ^ (remainder & 1 ? 0xEDB88320u : 0);
    }
    return ~remainder;
}

// One frame: COBS of counter, kind, payload and checksum.
static void frame(uint8_t counter, uint8_t kind, const void *payload, size_t length) {
    uint8_t bytes[80] = {counter, kind};
    memcpy(bytes + 2, payload, length);
    uint32_t check = crc32(bytes, length + 2);
    for (int at = 0; at < 4; at++) bytes[length + 2 + at] = (uint8_t)(check >> (8 * at));
    size_t block = count;
    line[count++] = 0;
    for (size_t at = 0; at < length + 6; at++) {
        if (bytes[at] == 0) {
            line[block] = (uint8_t)(count - block);
            block = count;
        }
        line[count++] = bytes[at];
    }
    line[block] = (uint8_t)(count - block);
    line[count++] = 0;
}

// OPEN and a CONNECT that claims little, of a device with this name.
static void log_in(const char *name) {
    uint8_t packet[64] = {0x10, 0, 0, 3, 'M', 'R', 'T', 1, 0, 0, 1, 0};
    size_t end = 12;
    size_t length = strlen(name);
    packet[end++] = (uint8_t)length;
    memcpy(packet + end, name, length);
    end += length;
    packet[1] = (uint8_t)(end - 2);
    frame(0, OPEN, "", 0);
    frame(1, DATA, packet, end);
}

static void fill(int piece) {
    count = 0;
    switch (piece % PIECES) {
    case 0:
        for (; count < 8192; count++) line[count] = (uint8_t)rand();
        break;
    case 1:
        for (int at = 0; at < 200; at++) frame(0, OPEN, "", 0);
        break;
    case 2:
        for (int at = 0; at < 100; at++) log_in("plant7-1");
        break;
    case 3:
        // A CHANNEL of its own.
        log_in("");
        frame(2, DATA, "\xA0\x04\x01\xC0\x00\x00", 6);
        break;
    case 4:
        // A length that never ends, then what was sent before anybody said so.
        log_in("");
        frame(2, DATA, "\xC0\x80\x80\x80\x80\x01", 6);
        for (int at = 3; at < 250; at++) frame((uint8_t)at, DATA, "\xC0\x00", 2);
        break;
    default:
        // A gap in the counters, and no 00 any more.
        log_in("");
        frame(99, DATA, "\xC0\x00", 2);
        memset(line + count, 0x55, 4096);
        count += 4096;
    }
}

int main(int argc, char **argv) {
    struct sockaddr_in place = {.sin_family = AF_INET};
    if (argc != 2) return 1;
    place.sin_port = htons((uint16_t)atoi(argv[1]));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&place, sizeof place) || listen(listener, 4)) {
        perror("hostile");
        return 1;
    }
    long long taken = 0;
    for (;;) {
        int peer = accept(listener, NULL, NULL);
        if (peer < 0) continue;
        // It never reads. A line of 2 MBaud takes so much.
        for (int piece = 0;; piece++) {
            fill(piece);
            ssize_t sent = send(peer, line, count, MSG_NOSIGNAL);
            if (sent < 0) break;
            taken += sent;
            printf("taken %lld\n", taken);
            fflush(stdout);
            struct timespec pause = {.tv_nsec = (long)sent * 5000};
            nanosleep(&pause, NULL);
        }
        close(peer);
    }
}
