// The porting guide of the connection: three functions, none of which may block. Whoever implements
// them has ported the client; nothing else of it knows a network.
//
// port/ holds four implementations to read: sockets, OpenSSL, mbedTLS, and a framed serial line.

#ifndef MRT_TRANSPORT_H
#define MRT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mrt_transport {
    // Handed to all three functions.
    void *context;

    // Bring the line up (`wanted`) or take it down.
    //
    // Up: called on each poll until it is up, TLS handshake included. Does a bounded piece of work.
    //   > 0  up: a reliable, ordered stream of bytes to the broker, whose certificate was checked
    //   0    on the way, call again
    //   < 0  failed; a later call begins anew
    // Down: drops what was not sent, releases everything, and is done when it returns. It is called
    // also where the line was never up. The result is not looked at.
    //
    // Name resolution, waiting for a modem and the like belong here, in steps.
    int32_t (*link)(void *context, bool wanted);

    // Send some of `count` bytes, at least 1.
    //   > 0  so many were taken; they may still be on their way
    //   0    none now, call again later
    //   < 0  the line is dead
    // The same bytes come again until they are taken, maybe with more behind them, and maybe from
    // another address.
    int32_t (*send)(void *context, const uint8_t *bytes, uint32_t count);

    // Receive at most `count` bytes, at least 1.
    //   > 0  so many arrived
    //   0    none now
    //   < 0  the line is dead, or the broker closed it
    int32_t (*receive)(void *context, uint8_t *bytes, uint32_t count);
} mrt_transport;

#endif
