// The system's libargon2 (Debian: libargon2-dev), the reference implementation of RFC 9106.
#include <argon2.h>

// argon2id_hash_raw with memory of the caller: `allocate` gives it, and `release` takes it back.
static inline int martlet_argon2id_hash(
    uint32_t passes, uint32_t memory_kibibytes, uint32_t parallelism,
    const uint8_t *password, uint32_t password_length, const uint8_t *salt, uint32_t salt_length,
    uint8_t *hash, uint32_t hash_length, allocate_fptr allocate, deallocate_fptr release) {
  // In the order of argon2.h. libargon2 writes to inputs only with a flag that is not set.
  argon2_context context = {
      hash, hash_length, (uint8_t *)password, password_length, (uint8_t *)salt, salt_length,
      NULL, 0, NULL, 0,  // No secret, no associated data.
      passes, memory_kibibytes, parallelism, parallelism, ARGON2_VERSION_13,
      allocate, release, ARGON2_DEFAULT_FLAGS};
  return argon2id_ctx(&context);
}
