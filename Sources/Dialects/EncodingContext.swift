// What every step of encoding passes along, as one value.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// The effects that are encoded, and where their packets go.
///
/// It holds addresses: Swift 6.3 has no type for a borrowed value that can be changed. They are
/// valid while `EffectEncoder.encode` runs, which makes the context and ends it.
struct EncodingContext<Host: ConnectionHost & ~Copyable>: ~Copyable {
    let now: Instant
    private let effects: UnsafePointer<LoopEffects>
    private let conversationTable: UnsafeMutablePointer<ConversationTable>
    private let host: UnsafeMutablePointer<Host>
    private let events: UnsafeMutablePointer<ContiguousArray<Event>>

    @inline(__always)
    init(
        _ effects: UnsafePointer<LoopEffects>, at now: Instant,
        conversations: UnsafeMutablePointer<ConversationTable>, host: UnsafeMutablePointer<Host>,
        events: UnsafeMutablePointer<ContiguousArray<Event>>
    ) {
        self.now = now
        self.effects = effects
        conversationTable = conversations
        self.host = host
        self.events = events
    }
}

extension EncodingContext where Host: ~Copyable {
    /// The effects, with what they refer to.
    var loop: LoopEffects {
        @inline(__always) unsafeAddress { effects }
    }

    /// What the ranges of the effects are in.
    var bytes: UnsafeRawBufferPointer {
        @inline(__always) get { loop.bytes.bytes }
    }

    var conversations: ConversationTable {
        @inline(__always) unsafeAddress { UnsafePointer(conversationTable) }
        @inline(__always) nonmutating unsafeMutableAddress { conversationTable }
    }

    var connections: Host {
        @inline(__always) unsafeAddress { UnsafePointer(host) }
        @inline(__always) nonmutating unsafeMutableAddress { host }
    }

    /// Something comes of an effect that the core has to know.
    @inline(__always)
    func append(_ event: Event) { events.pointee.append(event) }

    /// Writes one packet through `body`: see ``ConversationTable``.
    @inline(__always)
    func write(
        _ byteCount: Int, to connection: ConnectionID, priority: PacketPriority,
        _ body: (inout PacketWriter) -> Void
    ) -> ConversationTable.WriteOutcome {
        conversations.write(
            byteCount, to: connection, priority: priority, through: &connections, body)
    }

    /// Writes a packet whose ranges are in `source`. False where it is larger than its client
    /// takes, also in its shortest form.
    @discardableResult
    func write(
        _ packet: some ShortenablePacket, to connection: ConnectionID,
        from source: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) -> Bool {
        conversations.write(packet, to: connection, from: source, through: &connections)
    }

    /// The last packet of a conversation is written. A channel is over with it, and the channels of
    /// a gateway are lost.
    func close(_ connection: ConnectionID) {
        guard conversations[connection] != nil else { return }
        if connection.isChannel {
            conversations.close(connection)
            return
        }
        conversations[known: connection].phase = .closing
        conversations.closeChannels(of: connection, .closedByBroker, into: &events.pointee)
        connections.closeConnection(connection)
    }

    /// A client has been told that it is let in.
    ///
    /// - Parameter keepAliveSeconds: what it was granted. It may be silent for one and a half times
    ///   as long, as MQTT counts it [MQTT-3.1.2-22].
    func establish(_ connection: ConnectionID, keepAliveSeconds: UInt32) {
        conversations[known: connection].phase = .established
        // Whether a sensor is silent is seen by its gateway.
        if connection.isChannel { return }
        connections.acceptConnection(
            connection, silenceMilliseconds: UInt64(keepAliveSeconds) * 1500)
    }
}
