// HMAC-SHA-256 of one short message with a key of 32 bytes: four blocks, no buffer between them.
// A board with a hash unit, or with a library that has one, replaces `compress`.

#include "wake.h"

#include <string.h>

enum { BLOCK = 64, DIGEST = 32, PROVEN = MRT_WAKE_DATAGRAM - MRT_WAKE_PROOF };

// FIPS 180-4, section 4.2.2.
static const uint32_t constants[BLOCK] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotated(uint32_t word, uint32_t count)
{
    return word >> count | word << (32 - count);
}

static uint32_t word_at(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void put_word(uint8_t *bytes, uint32_t word)
{
    for (uint32_t i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(word >> (24 - 8 * i));
    }
}

// FIPS 180-4, section 6.2.2. The schedule has 16 words that are renewed on the way.
static void compress(uint32_t state[8], const uint8_t block[BLOCK])
{
    uint32_t words[16];
    uint32_t now[8];
    for (uint32_t i = 0; i < 16; i++) {
        words[i] = word_at(block + 4 * i);
    }
    memcpy(now, state, sizeof now);
    for (uint32_t i = 0; i < BLOCK; i++) {
        if (i >= 16) {
            uint32_t near = words[(i + 14) % 16];
            uint32_t far = words[(i + 1) % 16];
            words[i % 16] += words[(i + 9) % 16]
                + (rotated(near, 17) ^ rotated(near, 19) ^ near >> 10)
                + (rotated(far, 7) ^ rotated(far, 18) ^ far >> 3);
        }
        uint32_t chosen = (now[4] & now[5]) ^ (~now[4] & now[6]);
        uint32_t most = (now[0] & now[1]) ^ (now[0] & now[2]) ^ (now[1] & now[2]);
        uint32_t first = now[7] + chosen + constants[i] + words[i % 16]
            + (rotated(now[4], 6) ^ rotated(now[4], 11) ^ rotated(now[4], 25));
        uint32_t second = most + (rotated(now[0], 2) ^ rotated(now[0], 13) ^ rotated(now[0], 22));
        memmove(now + 1, now, 7 * sizeof *now);
        now[4] += first;
        now[0] = first + second;
    }
    for (uint32_t i = 0; i < 8; i++) {
        state[i] += now[i];
    }
}

// The digest of a first block, the key with `mask` (RFC 2104, section 2), and of the `count` bytes
// after it, at most 55: they and the padding fit into a second block.
static void digest(const uint8_t key[MRT_WAKE_KEY], uint8_t mask, const uint8_t *bytes,
    uint32_t count, uint8_t result[DIGEST])
{
    // FIPS 180-4, section 5.3.3.
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
        0x1f83d9ab, 0x5be0cd19};
    uint8_t block[BLOCK];
    for (uint32_t i = 0; i < BLOCK; i++) {
        block[i] = (uint8_t)((i < MRT_WAKE_KEY ? key[i] : 0) ^ mask);
    }
    compress(state, block);
    memset(block, 0, sizeof block);
    memcpy(block, bytes, count);
    block[count] = 0x80;
    put_word(block + BLOCK - 4, (BLOCK + count) * 8);
    compress(state, block);
    for (uint32_t i = 0; i < 8; i++) {
        put_word(result + 4 * i, state[i]);
    }
}

bool mrt_wake_is_proven(const uint8_t key[MRT_WAKE_KEY], const uint8_t *datagram, uint32_t count,
    uint64_t after, uint64_t *time)
{
    static const uint8_t magic[4] = {'M', 'L', 'W', '1'};
    if (count != MRT_WAKE_DATAGRAM || memcmp(datagram, magic, sizeof magic) != 0) {
        return false;
    }
    uint64_t moment = (uint64_t)word_at(datagram + 4) << 32 | word_at(datagram + 8);
    if (moment <= after) {
        return false;
    }
    uint8_t result[DIGEST];
    digest(key, 0x36, datagram, PROVEN, result);
    uint8_t inner[DIGEST];
    memcpy(inner, result, sizeof inner);
    digest(key, 0x5C, inner, sizeof inner, result);
    uint8_t difference = 0;
    for (uint32_t i = 0; i < MRT_WAKE_PROOF; i++) {
        difference |= (uint8_t)(result[i] ^ datagram[PROVEN + i]);
    }
    if (difference != 0) {
        return false;
    }
    *time = moment;
    return true;
}
