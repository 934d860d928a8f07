// In place of a TLS library, for programs that are built without one: there is no such transport.

#include "posix.h"

#include <stdio.h>

const mrt_transport *mrt_tls_transport(mrt_socket *socket, const mrt_proof *proof)
{
    (void)socket;
    (void)proof;
    fprintf(stderr, "tls: this program was built without it\n");
    return NULL;
}
