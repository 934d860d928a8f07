// The records of a simulated device that survive a loss of power: those of PROTOCOL.md section 8,
// each written at once.

import WireFormat

struct ClientFlash {
    /// The session's epoch and the last number whose message has been processed.
    var inbox: MRT.Resume?
    var cookie: UInt64?
    /// The outbox epoch and numbers.
    var outbox = MRT.Outbox(epoch: 0, resultsSeen: 0, highestUsed: 0)
    /// Sends without a result, in the order of their numbers.
    var sends: [StoredSend] = []
    /// The number of starts of the device.
    var boots = 0
}

/// A send that is stored until its result.
struct StoredSend {
    var number: UInt64
    /// Its name in the oracle.
    var message: Int
    var packet: MRT.Send
    /// The bytes that the packet's ranges refer to.
    var source: [UInt8]
}
