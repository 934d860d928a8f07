// A client's half of an MQTT session (MQTT 4.1): what it has sent and was not answered, and which
// identifiers of QoS 2 it has received. Kept in memory; an honest client with a flash writes every
// change there before it goes on.

import WireFormat

/// A publication of QoS 1 or 2 that its sender has not finished.
struct OutgoingPublication {
    /// Its name in the oracle.
    let message: Int
    var packet: MQTT.Publish
    /// What the packet's ranges point into.
    let source: [UInt8]
    /// It has, or may have, been on the wire in this session.
    var wasSent = false
    /// PUBREC has come: it is not sent again, PUBREL is.
    var isReceived = false
}

struct MQTTSessionState {
    /// In the order in which they were published.
    var outgoing: [OutgoingPublication] = []
    /// Identifiers of QoS 2 whose messages have been processed and that are not released.
    var received: Set<UInt16> = []
    /// The packet identifier that was used last.
    var lastIdentifier: UInt16 = 0
    /// What the broker takes at a time; 0 before the first CONNACK.
    var sendWindow = 0

    func position(of identifier: UInt16) -> Int? {
        outgoing.firstIndex { $0.packet.packetIdentifier == identifier }
    }
}
