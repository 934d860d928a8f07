// What a command does: its text is a number, which is added to the sum of the record. Number and
// effect are programmed together, and then the command is acknowledged.

#ifndef NODE_COMMAND_H
#define NODE_COMMAND_H

#include "mrt/client.h"
#include "record.h"

// Carries out a numbered message, and logs it.
void node_execute(mrt_client *client, node_record *record, const mrt_event *event);

#endif
