// What is remembered of one connection's protocol, and the table of all of a lane's. A conversation
// knows packets and events; it knows neither sockets nor sessions.

import BrokerCore
import Primitives

/// One connection's place in its protocol: a few bytes, kept by the lane that owns the connection.
public struct Conversation: Sendable {
    /// Where the conversation stands.
    ///
    ///     awaitingConnect ──CONNECT──► awaitingAnswer ──accepted──► established
    ///            │                          │                          │
    ///            └──── anything else ───────┴── refused, violation ────┴──► closing
    public enum Phase: UInt8, Hashable, Sendable {
        /// Nothing but CONNECT may come.
        case awaitingConnect
        /// The core decides; what comes meanwhile stays unread, so that no answer can overtake
        /// CONNACK.
        case awaitingAnswer
        case established
        /// The last packet is written; whatever else comes is thrown away.
        case closing
    }

    /// Which use of the connection's slot this is.
    let generation: UInt32
    public internal(set) var phase = Phase.awaitingConnect
    public internal(set) var dialect = SessionDialect.mrt
    /// The listener the connection came from.
    let terms: UInt8
    /// The largest packet the client takes; 0 for any.
    var clientPacketMaximum: UInt32 = 0

    init(generation: UInt32, terms: UInt8) {
        self.generation = generation
        self.terms = terms
    }
}

/// What a listener lets its clients do.
public struct ListenerTerms: Sendable {
    /// Clients without credentials are let in as the user they name: their client id.
    public var allowsAnonymous: Bool

    public init(allowsAnonymous: Bool = false) {
        self.allowsAnonymous = allowsAnonymous
    }
}

/// The conversations of one lane, by slot.
public struct ConversationTable: ~Copyable {
    private var conversations: ContiguousArray<Conversation?> = []
    /// The smallest packet maximum that any client of this lane has asked for: what is below it
    /// needs no look at the client.
    private(set) var clientPacketMaximumFloor = Int.max

    private let lane: UInt8

    /// - Parameter lane: the lane whose connections these are.
    public init(lane: UInt8) {
        self.lane = lane
    }

    /// A connection has been opened.
    ///
    /// - Parameter terms: index of the listener's ``ListenerTerms``.
    public mutating func open(_ connection: ConnectionID, terms: UInt8) {
        while conversations.count <= connection.slot { conversations.append(nil) }
        conversations[connection.slot] = Conversation(
            generation: connection.generation, terms: terms)
    }

    /// A connection is gone.
    public mutating func close(_ connection: ConnectionID) {
        guard self[connection] != nil else { return }
        conversations[connection.slot] = nil
    }

    /// Calls `body` with every connection that has been let in and not been sent away.
    func forEachEstablished(_ body: (ConnectionID) -> Void) {
        for slot in 0..<conversations.count {
            guard let conversation = conversations[slot], conversation.phase == .established else {
                continue
            }
            body(ConnectionID(lane: lane, slot: slot, generation: conversation.generation))
        }
    }

    /// Notes the largest packet that a client takes; 0 for any.
    mutating func setClientPacketMaximum(_ byteCount: UInt32, for connection: ConnectionID) {
        self[connection]!.clientPacketMaximum = byteCount
        if byteCount > 0 {
            clientPacketMaximumFloor = min(clientPacketMaximumFloor, Int(byteCount))
        }
    }

    /// Whether a packet is larger than its client takes.
    func isTooLarge(_ byteCount: Int, for connection: ConnectionID) -> Bool {
        guard let maximum = self[connection]?.clientPacketMaximum, maximum > 0 else { return false }
        return byteCount > Int(maximum)
    }

    /// The conversation of a connection; nil when the connection is gone or its slot is another's.
    public internal(set) subscript(connection: ConnectionID) -> Conversation? {
        get {
            guard connection.slot < conversations.count,
                let conversation = conversations[connection.slot],
                conversation.generation == connection.generation
            else { return nil }
            return conversation
        }
        set { conversations[connection.slot] = newValue }
    }
}
