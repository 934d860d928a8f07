// What a simulated device keeps without power: the records of PROTOCOL.md section 8, each written
// as one piece.

import WireFormat

struct ClientFlash {
    /// The session's epoch and the last number whose message has been processed.
    var inbox: MRT.Resume?
    var cookie: UInt64?
    /// The client's own numbering.
    var outbox = MRT.Outbox(epoch: 0, resultsSeen: 0, highestUsed: 0)
    /// Sends without a result, in the order of their numbers.
    var sends: [StoredSend] = []
    /// How often the device has been switched on.
    var boots = 0
}

/// A send as it is kept until its result.
struct StoredSend {
    var number: UInt64
    /// Its name in the oracle.
    var message: Int
    var packet: MRT.Send
    /// What the packet's ranges point into.
    var source: [UInt8]
}
