// Where libFuzzer, or mutants.c in its place, enters.

#ifndef MRT_TEST_FUZZ_H
#define MRT_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

#endif
