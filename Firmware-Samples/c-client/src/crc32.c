// The checksum of the log's records and of frames on a serial line.

#include "crc32.h"

uint32_t mrt_crc32(uint32_t crc, const uint8_t *bytes, uint32_t count)
{
    crc = ~crc;
    for (uint32_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (uint8_t bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (0xEDB88320u & (0u - (crc & 1u)));
        }
    }
    return ~crc;
}
