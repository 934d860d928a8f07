// The board as the client wants it: its line, and the sectors of flash for messages.

#ifndef NODE_PORTS_H
#define NODE_PORTS_H

#include "mrt/storage.h"
#include "serial.h"

extern const mrt_uart node_uart;
extern const mrt_storage node_storage;

#endif
