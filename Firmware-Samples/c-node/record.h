// What a node knows after a power cut: one record, in two sectors of flash. An incomplete one is
// passed over, and the one before it counts.

#ifndef NODE_RECORD_H
#define NODE_RECORD_H

#include "mrt/state.h"

// Sectors of flash: the factory's, two for the record, the rest for messages.
enum { RECORD_SECTOR = 1, RING_SECTOR = 3, RING_SECTORS = 8 };

// 48 bytes, programmed at once.
typedef struct node_record {
    // The resume record: docs/PROTOCOL.md section 8.
    mrt_record inbox;
    // Of a node that is woken: the time of the last wake-up that it followed, in Unix milliseconds.
    uint64_t woken;
    // How often this record was written: the highest that is whole is the last.
    uint32_t sequence;
    uint32_t starts;
    // The effect of the commands: how many there were, and their sum.
    uint32_t executed;
    uint32_t sum;
    uint32_t unused;
    uint32_t check;
} node_record;

// Finds the last record that is whole. Without one, `record` keeps its value.
void node_record_load(node_record *record);

// Stores it as the next one.
void node_record_store(node_record *record);

#endif
