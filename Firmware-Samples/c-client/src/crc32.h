// CRC-32 (ISO-HDLC, as in zlib), bit by bit: a table would cost a kilobyte of flash, and what is
// checked here is short.

#ifndef MRT_CRC32_H
#define MRT_CRC32_H

#include <stdint.h>

// Continues `crc` over more bytes; 0 begins.
uint32_t mrt_crc32(uint32_t crc, const uint8_t *bytes, uint32_t count);

#endif
