// The proof of a wake-up datagram (docs/operating/push.md, "Datagram"): whether the relay of the
// device's owner has sent it. It knows no network and no client.
//
//     datagram   "MLW1", time (8), nonce (8), proof (16); numbers big-endian
//     proof      the first 16 bytes of the HMAC-SHA-256 of the 20 bytes before it
//
// A device sleeps until a datagram is proven, connects, and sleeps again when nothing more arrives.
// It stores the time of the datagram when it has connected: the relay repeats a datagram until
// then.

#ifndef MRT_WAKE_H
#define MRT_WAKE_H

#include <stdbool.h>
#include <stdint.h>

enum { MRT_WAKE_DATAGRAM = 36, MRT_WAKE_KEY = 32, MRT_WAKE_PROOF = 16 };

// Whether a datagram of `count` bytes has the proof of `key`, and a time after `after`, in Unix
// milliseconds. `time` gets it then. The key is that of the device: `martlet-gateway push
// device-key` prints it.
//
// The proof is compared in constant time. A datagram costs four blocks of SHA-256: a device whose
// network has enemies counts what it refuses, and sleeps with its network off.
bool mrt_wake_is_proven(const uint8_t key[MRT_WAKE_KEY], const uint8_t *datagram, uint32_t count,
    uint64_t after, uint64_t *time);

#endif
