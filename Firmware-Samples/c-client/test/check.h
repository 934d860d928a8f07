// The tests' only tool: a condition that must hold, or the place is named and the program fails.

#ifndef MRT_TEST_CHECK_H
#define MRT_TEST_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #condition); \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

// Runs one test and says so.
#define RUN(test)                      \
    do {                               \
        printf("  %s\n", #test);       \
        fflush(stdout);                \
        test();                        \
    } while (0)

#endif
