// A client's half of an MQTT session (MQTT 4.1): its unanswered publications, and the QoS 2
// identifiers that it has received. It is in memory; a correct client with flash writes every
// change there before it continues.

import WireFormat

/// A publication of QoS 1 or 2 whose exchange is not complete.
struct OutgoingPublication {
    /// Its name in the oracle.
    let message: Int
    var packet: MQTT.Publish
    /// The bytes that the packet's ranges refer to.
    let source: [UInt8]
    /// It was, or may have been, transmitted in this session.
    var wasSent = false
    /// PUBREC has arrived: PUBREL is repeated instead of the publication.
    var isReceived = false
}

struct MQTTSessionState {
    /// In the order of publication.
    var outgoing: [OutgoingPublication] = []
    /// QoS 2 identifiers whose messages have been processed and that are not released.
    var received: Set<UInt16> = []
    /// The packet identifier that was used last.
    var lastIdentifier: UInt16 = 0
    /// The broker's receive maximum; 0 before the first CONNACK.
    var sendWindow = 0

    func position(of identifier: UInt16) -> Int? {
        outgoing.firstIndex { $0.packet.packetIdentifier == identifier }
    }
}
