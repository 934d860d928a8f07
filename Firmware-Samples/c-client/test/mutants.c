// Plays the fuzzer with a seed: the packets of Tests/Vectors, changed and put together at random,
// go through fuzz.c under the sanitizers. Usage: mutants COUNT FILE...; or mutants DIRECTORY
// FILE..., which writes what libFuzzer is to begin with.

#include "fuzz.h"
#include "meaning.h"
#include "wire.h"

#include <string.h>

enum { SEEDS = 400, INPUT_MAXIMUM = 4096 };

static struct {
    // With a length of one byte.
    uint8_t bytes[128];
    uint16_t count;
} seeds[SEEDS];

static unsigned seed_count;

// Packets from the broker, and results of requests, each as the answer to request 1.
static void keep(char *fields[5])
{
    uint8_t bytes[BYTES_MAXIMUM + 4] = {MRT_TYPE_RESPONSE << 4, 0, 1, 0};
    bool is_whole = strchr(fields[1], '/') == NULL;
    uint16_t head_count = is_whole ? 0 : 4;
    uint16_t count = (uint16_t)(from_hex(fields[3], bytes + head_count) + head_count);
    if (strcmp(fields[2], "b>c") != 0 || count >= 128) {
        return;
    }
    if (!is_whole) {
        bytes[1] = (uint8_t)(count - 2);
    }
    CHECK(seed_count < SEEDS);
    memcpy(seeds[seed_count].bytes, bytes, count);
    seeds[seed_count++].count = count;
}

// Xorshift (Marsaglia 2003).
static uint32_t state = 1;

static uint32_t below(uint32_t bound)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % bound;
}

// A step of fuzz.c's: the bytes arrive.
static uint32_t put_arrival(uint8_t *to, const uint8_t *bytes, uint16_t count)
{
    to[0] = 0;
    to[1] = (uint8_t)count;
    memcpy(to + 2, bytes, count);
    return count + 2u;
}

static void run_mutant(void)
{
    static uint8_t bytes[INPUT_MAXIMUM];
    uint32_t count = 0;
    bool is_packet = below(8) == 0;
    bytes[count++] = is_packet ? 0x80 : (uint8_t)below(8);
    if (is_packet) {
        // Without the length, which is no part of what is decoded.
        unsigned seed = below(seed_count);
        bytes[count++] = seeds[seed].bytes[0];
        for (uint16_t i = 2; i < seeds[seed].count; i++) {
            bytes[count++] = seeds[seed].bytes[i];
        }
    } else {
        // Messages to send, and a login, as a rule.
        bytes[count++] = (uint8_t)(below(32) << 3 | 3);
        if (below(8) > 0) {
            bytes[count++] = 2;
        }
        for (uint32_t steps = below(12); steps > 0; steps--) {
            unsigned seed = below(seed_count);
            if (below(3) == 0) {
                bytes[count++] = (uint8_t)(below(32) << 3 | (2 + below(6)));
            } else {
                count += put_arrival(bytes + count, seeds[seed].bytes, seeds[seed].count);
            }
        }
    }
    for (uint32_t changes = below(6); changes > 0; changes--) {
        bytes[below(count)] = (uint8_t)below(256);
    }
    // An allocation of its own, so that the sanitizer knows its end.
    uint8_t *exact = malloc(count);
    CHECK(exact != NULL);
    memcpy(exact, bytes, count);
    LLVMFuzzerTestOneInput(exact, count);
    free(exact);
}

static void write_seeds(const char *directory)
{
    for (unsigned i = 0; i < seed_count; i++) {
        uint8_t bytes[160] = {4, 3 | 1 << 3, 2};
        char path[512];
        uint32_t count = 3 + put_arrival(bytes + 3, seeds[i].bytes, seeds[i].count);
        snprintf(path, sizeof path, "%s/vector-%u", directory, i);
        FILE *file = fopen(path, "w");
        CHECK(file != NULL && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc > 2);
    read_lines(argc - 2, argv + 2, keep);
    // A reader that finds nothing would try nothing.
    CHECK(seed_count >= 50);
    unsigned long runs = strtoul(argv[1], NULL, 10);
    if (runs == 0) {
        write_seeds(argv[1]);
        return 0;
    }
    for (unsigned long i = 0; i < runs; i++) {
        run_mutant();
    }
    printf("mutants: %lu inputs from %u packets\n", runs, seed_count);
    return 0;
}
