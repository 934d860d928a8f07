// The system's OpenSSL 3 (Debian: libssl-dev). Macros that Swift cannot see become inline functions
// here, and nothing else: no logic lives in this header.
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
