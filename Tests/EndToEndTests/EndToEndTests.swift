// End to end: a real martletd as a child process, a directory of its own, real TLS sockets on this
// machine, and the SDK, the command line or raw bytes as clients.

import Testing

/// One broker at a time: some of the tests measure patience.
@Suite(.serialized) struct EndToEndTests {}

/// The tests of HTTP, with one broker at a time too. They run beside the others: both wait more
/// than they compute, so two processors suffice for two brokers.
@Suite(.serialized) struct EndToEndWebTests {}
