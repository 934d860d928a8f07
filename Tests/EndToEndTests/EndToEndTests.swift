// End to end: a real martletd as a child process, a directory of its own, real TLS sockets on this
// machine, and the SDK, the command line or raw bytes as clients.

import Testing

/// One broker at a time: some of the tests measure patience.
@Suite(.serialized) struct EndToEndTests {}

/// What is about HTTP, also with one broker at a time, beside the others: two processors are not
/// too few for two brokers, and the tests wait more than they compute.
@Suite(.serialized) struct EndToEndWebTests {}
