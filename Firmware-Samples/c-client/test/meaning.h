// Lines of Tests/Vectors: five fields, bytes in hexadecimal, and what they mean as words.

#ifndef MEANING_H
#define MEANING_H

#include "check.h"
#include "mrt/types.h"

#include <stddef.h>

enum { BYTES_MAXIMUM = 2048, LINE_MAXIMUM = 8192 };

// Appends to the text that is being built.
typedef struct text {
    char characters[LINE_MAXIMUM];
    size_t count;
} text;

void add(text *text, const char *format, uint64_t number);
void add_bytes(text *text, const char *key, const uint8_t *bytes, size_t count);
void add_mark(text *text, const char *mark, bool is_set);

uint16_t from_hex(const char *text, uint8_t *bytes);

// A meaning as its words, with percent signs undone.
typedef struct word {
    char key[32];
    uint8_t value[BYTES_MAXIMUM];
    uint16_t count;
} word;

typedef struct meaning {
    word words[20];
    unsigned count;
} meaning;

void read_words(meaning *meaning, const char *line);
const word *find(const meaning *meaning, const char *key);
mrt_bytes bytes_of(const meaning *meaning, const char *key);
uint64_t number_of(const meaning *meaning, const char *key);

// Parts of a value, at most 256, that stand between commas; an empty value has none.
uint16_t split(mrt_bytes text, mrt_bytes *parts);

// Calls `check` with the fields of each line of the files.
void read_lines(int count, char **files, void (*check)(char *fields[5]));

#endif
