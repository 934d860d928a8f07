// Lines of the log (text.h). It knows no UART but the board's.

#include "text.h"

#include "board.h"

void text_put(text_line *to, const char *text)
{
    while (*text != '\0') {
        to->bytes[to->count++] = (uint8_t)*text++;
    }
}

void text_put_number(text_line *to, uint32_t number)
{
    uint8_t digits[10];
    uint32_t count = 0;
    do {
        digits[count++] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (count > 0) {
        to->bytes[to->count++] = digits[--count];
    }
}

uint32_t text_number(mrt_bytes text)
{
    uint32_t number = 0;
    for (uint32_t i = 0; i < text.count && text.bytes[i] >= '0' && text.bytes[i] <= '9'; i++) {
        number = number * 10 + (uint32_t)(text.bytes[i] - '0');
    }
    return number;
}

void text_log(const char *text, const text_line *rest)
{
    board_log((const uint8_t *)text, (uint32_t)strlen(text));
    board_log(rest->bytes, rest->count);
    board_log((const uint8_t *)"\n", 1);
}
