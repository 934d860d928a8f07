// The log on real NATS servers, on this machine.

import Testing

/// One set of servers at a time.
@Suite(.serialized) struct NATSLogTests {}
