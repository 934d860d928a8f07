// End to end: a real martletd as a child process, a directory of its own, real TLS sockets on this
// machine, and the SDK, the command line or raw bytes as clients.

import Testing

/// One broker at a time: the tests share two cores, and some of them measure patience.
@Suite(.serialized) struct EndToEndTests {}
