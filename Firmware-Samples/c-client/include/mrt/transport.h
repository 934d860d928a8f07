// The porting guide of the connection: three functions, none of which may block. They are all that
// a port needs; no other code of the client uses a network.
//
// port/ has four implementations: sockets, OpenSSL, mbedTLS, and a framed serial line.

#ifndef MRT_TRANSPORT_H
#define MRT_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mrt_transport {
    // Passed to all three functions.
    void *context;

    // Open the connection (`wanted`) or close it.
    //
    // Open: called on each poll until it is open, including the TLS handshake. Does a bounded
    // amount of work.
    //   > 0  open: a reliable, ordered byte stream to the broker, whose certificate was verified
    //   0    in progress, call again
    //   < 0  failed; a later call begins again
    // Close: discards unsent bytes, releases all resources, and is complete when it returns. It is
    // also called if the connection was never open. The result is ignored.
    //
    // Resolve names, wait for a modem and so on here, in steps.
    int32_t (*link)(void *context, bool wanted);

    // Send some of `count` bytes, at least 1.
    //   > 0  this many were accepted; they may still be in transit
    //   0    none now, call again later
    //   < 0  the connection has failed
    // The same bytes are passed again until they are accepted, possibly followed by more, and
    // possibly at another address.
    int32_t (*send)(void *context, const uint8_t *bytes, uint32_t count);

    // Receive at most `count` bytes, at least 1.
    //   > 0  this many arrived
    //   0    none now
    //   < 0  the connection has failed, or the broker closed it
    int32_t (*receive)(void *context, uint8_t *bytes, uint32_t count);
} mrt_transport;

#endif
