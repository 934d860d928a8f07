// The context that the encoder's functions pass on, as one value.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// The effects that are encoded, and the connections that their packets go to.
///
/// It holds addresses: Swift 6.3 has no type for a borrowed mutable value. They are valid while
/// `EffectEncoder.encode` runs, which creates the context and ends it.
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
    /// The effects, with the bytes that they refer to.
    var loop: LoopEffects {
        @inline(__always) unsafeAddress { effects }
    }

    /// The bytes that the ranges of the effects refer to.
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

    /// Adds an event that an effect causes for the core.
    @inline(__always)
    func append(_ event: Event) { events.pointee.append(event) }

    /// Writes one packet through `body`; see ``ConversationTable``.
    @inline(__always)
    func write(
        _ byteCount: Int, to connection: ConnectionID, priority: PacketPriority,
        _ body: (inout PacketWriter) -> Void
    ) -> ConversationTable.WriteOutcome {
        conversations.write(
            byteCount, to: connection, priority: priority, through: &connections, body)
    }

    /// Writes a packet whose ranges are in `source`. False if even its shortest form is larger than
    /// its client accepts.
    @discardableResult
    func write(
        _ packet: some ShortenablePacket, to connection: ConnectionID,
        from source: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0)
    ) -> Bool {
        conversations.write(packet, to: connection, from: source, through: &connections)
    }

    /// The last packet of a connection is written. A channel ends with it, and the channels of a
    /// gateway are lost.
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

    /// A client was told that its login is accepted.
    ///
    /// - Parameter keepAliveSeconds: the granted keep-alive. The client may be silent for one and a
    ///   half times as long [MQTT-3.1.2-22].
    func establish(_ connection: ConnectionID, keepAliveSeconds: UInt32) {
        conversations[known: connection].phase = .established
        // The gateway detects silent devices.
        if connection.isChannel { return }
        connections.acceptConnection(
            connection, silenceMilliseconds: UInt64(keepAliveSeconds) * 1500)
    }
}
