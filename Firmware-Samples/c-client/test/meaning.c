// How lines of vectors are read.

#include "meaning.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static int digit(char character)
{
    return isdigit((unsigned char)character) ? character - '0' : (toupper(character) - 'A' + 10);
}

uint16_t from_hex(const char *text, uint8_t *bytes)
{
    uint16_t count = 0;
    for (; text[0] != '\0' && text[1] != '\0'; text += 2) {
        CHECK(count < BYTES_MAXIMUM);
        bytes[count++] = (uint8_t)(digit(text[0]) * 16 + digit(text[1]));
    }
    return count;
}

void add(text *text, const char *format, uint64_t number)
{
    text->count += (size_t)snprintf(
        text->characters + text->count, sizeof text->characters - text->count, format, number);
    CHECK(text->count < sizeof text->characters);
}

void add_bytes(text *text, const char *key, const uint8_t *bytes, size_t count)
{
    add(text, key, 0);
    for (size_t i = 0; i < count; i++) {
        bool is_plain = bytes[i] >= '!' && bytes[i] <= '~' && bytes[i] != '%';
        if (is_plain) {
            text->characters[text->count++] = (char)bytes[i];
            text->characters[text->count] = '\0';
            CHECK(text->count + 1 < sizeof text->characters);
        } else {
            add(text, "%%%02" PRIX64, bytes[i]);
        }
    }
}

void add_mark(text *text, const char *mark, bool is_set)
{
    if (is_set) {
        add(text, mark, 0);
    }
}

void read_words(meaning *meaning, const char *line)
{
    meaning->count = 0;
    while (*line != '\0') {
        CHECK(meaning->count < 20);
        word *word = &meaning->words[meaning->count++];
        memset(word, 0, sizeof *word);
        size_t key = strcspn(line, "= ");
        snprintf(word->key, sizeof word->key, "%.*s", (int)key, line);
        line += key;
        if (*line == '=') {
            for (line++; *line != '\0' && *line != ' '; line++) {
                int value = (unsigned char)*line;
                if (*line == '%') {
                    value = digit(line[1]) * 16 + digit(line[2]);
                    line += 2;
                }
                CHECK(word->count + 1 < BYTES_MAXIMUM);
                word->value[word->count++] = (uint8_t)value;
            }
        }
        line += *line == ' ' ? 1 : 0;
    }
}

const word *find(const meaning *meaning, const char *key)
{
    for (unsigned i = 0; i < meaning->count; i++) {
        if (strcmp(meaning->words[i].key, key) == 0) {
            return &meaning->words[i];
        }
    }
    return NULL;
}

mrt_bytes bytes_of(const meaning *meaning, const char *key)
{
    const word *word = find(meaning, key);
    mrt_bytes bytes = {0};
    if (word != NULL) {
        bytes.bytes = word->value;
        bytes.count = word->count;
    }
    return bytes;
}

uint64_t number_of(const meaning *meaning, const char *key)
{
    const word *word = find(meaning, key);
    return word == NULL ? 0 : strtoull((const char *)word->value, NULL, 10);
}

uint16_t split(mrt_bytes text, mrt_bytes *parts)
{
    uint16_t count = 0;
    uint16_t start = 0;
    for (uint16_t i = 0; i <= text.count && text.count > 0; i++) {
        if (i == text.count || text.bytes[i] == ',') {
            parts[count].bytes = text.bytes + start;
            parts[count++].count = (uint16_t)(i - start);
            start = (uint16_t)(i + 1);
        }
    }
    return count;
}

static void read_line(char *line, void (*check)(char *fields[5]))
{
    char *fields[5];
    for (int i = 0; i < 5; i++) {
        CHECK(line != NULL);
        fields[i] = line;
        line = strchr(line, '\t');
        if (line != NULL) {
            *line++ = '\0';
        }
    }
    check(fields);
}

void read_lines(int count, char **files, void (*check)(char *fields[5]))
{
    static char line[LINE_MAXIMUM];
    for (int i = 0; i < count; i++) {
        FILE *file = fopen(files[i], "r");
        CHECK(file != NULL);
        while (fgets(line, sizeof line, file) != NULL) {
            CHECK(strchr(line, '\n') != NULL);
            line[strcspn(line, "\n")] = '\0';
            if (line[0] != '#' && line[0] != '\0') {
                read_line(line, check);
            }
        }
        fclose(file);
    }
}
