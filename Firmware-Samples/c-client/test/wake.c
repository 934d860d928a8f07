// The proof of wake-up datagrams: the example of docs/operating/push.md, every bit of it flipped,
// and its time.

#include "check.h"
#include "wake.h"

#include <string.h>

static const uint8_t key[MRT_WAKE_KEY] = {0x29, 0x59, 0x4c, 0x83, 0xe3, 0x50, 0x22, 0xe1, 0x92,
    0xb4, 0x71, 0x57, 0xde, 0xe6, 0xd3, 0x78, 0x30, 0xf9, 0xab, 0xae, 0xad, 0x8f, 0x0b, 0xf9, 0x52,
    0x93, 0x0f, 0x99, 0x7b, 0xa3, 0xd3, 0x6e};
static const uint8_t example[MRT_WAKE_DATAGRAM] = {0x4d, 0x4c, 0x57, 0x31, 0x00, 0x00, 0x01, 0xa2,
    0x17, 0x4e, 0x44, 0xd0, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x38, 0xdf, 0xa6, 0x4a,
    0xae, 0x4d, 0xc7, 0x33, 0xf1, 0x1c, 0xe4, 0x72, 0x88, 0x0a, 0xaf, 0x3b};
static const uint64_t moment = 1795687335120u;

static void the_example_of_the_page(void)
{
    uint64_t time = 0;
    CHECK(mrt_wake_is_proven(key, example, sizeof example, 0, &time));
    CHECK(time == moment);
    CHECK(mrt_wake_is_proven(key, example, sizeof example, moment - 1, &time));
}

static void old_datagrams(void)
{
    uint64_t time = 7;
    CHECK(!mrt_wake_is_proven(key, example, sizeof example, moment, &time));
    CHECK(!mrt_wake_is_proven(key, example, sizeof example, UINT64_MAX, &time));
    CHECK(time == 7);
}

static void other_lengths(void)
{
    uint8_t longer[MRT_WAKE_DATAGRAM + 1] = {0};
    uint64_t time = 7;
    memcpy(longer, example, sizeof example);
    for (uint32_t count = 0; count <= sizeof longer; count++) {
        CHECK(mrt_wake_is_proven(key, longer, count, 0, &time) == (count == MRT_WAKE_DATAGRAM));
    }
}

static void every_bit(void)
{
    uint64_t time = 7;
    for (uint32_t bit = 0; bit < 8 * MRT_WAKE_DATAGRAM; bit++) {
        uint8_t changed[MRT_WAKE_DATAGRAM];
        memcpy(changed, example, sizeof changed);
        changed[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(!mrt_wake_is_proven(key, changed, sizeof changed, 0, &time));
    }
    for (uint32_t bit = 0; bit < 8 * MRT_WAKE_KEY; bit++) {
        uint8_t other[MRT_WAKE_KEY];
        memcpy(other, key, sizeof other);
        other[bit / 8] ^= (uint8_t)(1u << bit % 8);
        CHECK(!mrt_wake_is_proven(other, example, sizeof example, 0, &time));
    }
    CHECK(time == 7);
}

int main(void)
{
    RUN(the_example_of_the_page);
    RUN(old_datagrams);
    RUN(other_lengths);
    RUN(every_bit);
    return 0;
}
