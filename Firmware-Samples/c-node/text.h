// Lines of the log: decimal numbers and words, without the weight of printf.

#ifndef NODE_TEXT_H
#define NODE_TEXT_H

#include "mrt/types.h"

typedef struct text_line {
    uint8_t bytes[64];
    uint32_t count;
} text_line;

void text_put(text_line *to, const char *text);
void text_put_number(text_line *to, uint32_t number);

// The decimal number at the beginning of a text, modulo 2^32; 0 without a digit.
uint32_t text_number(mrt_bytes text);

// Writes both, and an end of line.
void text_log(const char *text, const text_line *rest);

#endif
