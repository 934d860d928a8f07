// The system's libargon2 (Debian: libargon2-dev), the reference implementation of RFC 9106.
#include <argon2.h>
