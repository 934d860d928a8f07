// What is remembered of one connection's protocol, and the table of all of a loop's. A conversation
// knows packets and events; it knows neither sockets nor sessions.

import BrokerCore
import Primitives
import WireFormat

/// One connection's place in its protocol: a few bytes, kept by the loop that owns the connection.
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
    /// What the client speaks, as far as it has said so.
    var dialect = Dialect.unknown
    /// What an MQTT client asked for, until it is told what it was granted.
    var keepAliveRequested: UInt16 = 0
    var sessionExpiryRequested: UInt32 = 0
    /// The listener the connection came from.
    let terms: UInt8
    /// The largest packet the client takes; 0 for any. Until it has said so, only the shortest
    /// CONNACK is certain to be taken.
    var clientPacketMaximum = unreadPacketMaximum
    var traits: Traits = []

    /// Who has not said what it speaks cannot be answered: whatever it was sent would be read in
    /// another dialect.
    enum Dialect: Hashable {
        case unknown
        case mrt
        case mqtt(MQTT.Version)
    }

    /// The version of MQTT that is spoken; nil for MRT, and before CONNECT.
    var version: MQTT.Version? {
        guard case .mqtt(let version) = dialect else { return nil }
        return version
    }

    /// Bytes of a CONNACK of MQTT 5 without properties; those of other dialects are shorter.
    private static let unreadPacketMaximum: UInt32 = 5

    /// What an MQTT client asked for, or was granted, beside numbers.
    struct Traits: OptionSet {
        var rawValue: UInt8
        /// Refusals may come with a text and user properties [MQTT-3.1.2-29].
        static let wantsProblemInformation = Traits(rawValue: 1 << 0)
        /// It named an authentication method, and may authenticate again with it.
        static let authenticates = Traits(rawValue: 1 << 1)
        /// Refused publications are still acknowledged where the protocol version has no negative
        /// acknowledgement, because the app is configured that way.
        static let acknowledgesRefused = Traits(rawValue: 1 << 2)
    }

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

/// The conversations of one loop, by slot.
public struct ConversationTable: ~Copyable {
    private var conversations: ContiguousArray<Conversation?> = []
    /// The conversations of channels, by place.
    private var channelConversations: ContiguousArray<Conversation?> = []
    var channels: ChannelTable
    /// The users of MQTT conversations, by slot: their names are in the topics of messages to them.
    private var users: ContiguousArray<[UInt8]> = []
    /// Topic aliases, by slot; empty until a client uses some.
    private var incomingAliases: ContiguousArray<IncomingAliases> = []
    private var outgoingAliases: ContiguousArray<OutgoingAliases> = []
    /// The smallest packet maximum that any client of this loop has asked for: what is below it
    /// needs no look at the client.
    private(set) var clientPacketMaximumFloor = Int.max

    private let loop: UInt8

    /// - Parameter loop: the loop whose connections these are.
    public init(loop: UInt8) {
        self.loop = loop
        channels = ChannelTable(loop: loop)
    }

    /// A connection has been opened.
    ///
    /// - Parameter terms: index of the listener's ``ListenerTerms``.
    public mutating func open(_ connection: ConnectionID, terms: UInt8) {
        precondition(!connection.isChannel, "\(connection) is a channel, which its gateway opens")
        while conversations.count <= connection.slot { conversations.append(nil) }
        conversations[connection.slot] = Conversation(
            generation: connection.generation, terms: terms)
    }

    /// A connection is gone, and its channels with it.
    public mutating func close(_ connection: ConnectionID) {
        guard self[connection] != nil else { return }
        if connection.isChannel {
            channels.close(connection)
            channelConversations[connection.place] = nil
            return
        }
        conversations[connection.slot] = nil
        if connection.slot < users.count { users[connection.slot] = [] }
        if connection.slot < incomingAliases.count {
            incomingAliases[connection.slot] = IncomingAliases()
        }
        if connection.slot < outgoingAliases.count {
            outgoingAliases[connection.slot] = OutgoingAliases(maximum: 0)
        }
    }

    // MARK: - Topic aliases

    /// The aliases that a client has given.
    func aliases(from connection: ConnectionID) -> IncomingAliases? {
        connection.slot < incomingAliases.count ? incomingAliases[connection.slot] : nil
    }

    /// A burst of a client's packets is read: where its topics lay is over.
    @inline(__always)
    mutating func beginBurst(of connection: ConnectionID) {
        if connection.slot < incomingAliases.count {
            incomingAliases[connection.slot].forgetPlaces()
        }
    }

    /// Changes the aliases that a client has given.
    mutating func withAliases<Result>(
        from connection: ConnectionID, _ body: (inout IncomingAliases) -> Result
    ) -> Result {
        while incomingAliases.count <= connection.slot { incomingAliases.append(IncomingAliases()) }
        return body(&incomingAliases[connection.slot])
    }

    /// Notes how many aliases a client takes.
    mutating func setAliasMaximum(_ maximum: UInt16, for connection: ConnectionID) {
        guard maximum > 0 else { return }
        while outgoingAliases.count <= connection.slot {
            outgoingAliases.append(OutgoingAliases(maximum: 0))
        }
        outgoingAliases[connection.slot] = OutgoingAliases(maximum: maximum)
    }

    /// Whether a client takes aliases.
    @inline(__always)
    func takesAliases(_ connection: ConnectionID) -> Bool {
        connection.slot < outgoingAliases.count && outgoingAliases[connection.slot].maximum > 0
    }

    /// The alias of a topic for a client, and whether the client knows it already; nil for none.
    func alias(
        of topic: UnsafeRawBufferPointer, hash: UInt64, for connection: ConnectionID
    ) -> (alias: UInt16, isKnown: Bool)? {
        let aliases = outgoingAliases[connection.slot]
        if let alias = aliases.alias(of: topic, hash: hash) { return (alias, true) }
        return aliases.nextAlias(for: topic).map { ($0, false) }
    }

    /// A client has been told of the next alias.
    mutating func appendAlias(
        _ topic: UnsafeRawBufferPointer, hash: UInt64, for connection: ConnectionID
    ) {
        outgoingAliases[connection.slot].append(topic, hash: hash)
    }

    // MARK: - Users

    /// Notes who an MQTT client turned out to be.
    mutating func setUser(_ name: [UInt8], of connection: ConnectionID) {
        while users.count <= connection.slot { users.append([]) }
        users[connection.slot] = name
    }

    /// The user of an MQTT conversation; empty for others.
    func user(of connection: ConnectionID) -> [UInt8] {
        connection.slot < users.count ? users[connection.slot] : []
    }

    /// Calls `body` with every connection that has been let in and not been sent away, and the
    /// version of MQTT that it speaks, if any.
    func forEachEstablished(_ body: (ConnectionID, MQTT.Version?) -> Void) {
        for slot in 0..<conversations.count {
            guard let conversation = conversations[slot], conversation.phase == .established else {
                continue
            }
            body(
                ConnectionID(loop: loop, slot: slot, generation: conversation.generation),
                conversation.version)
        }
    }

    /// Notes the largest packet that a client takes; 0 for any. What goes to a channel has to pass
    /// its gateway too.
    mutating func setClientPacketMaximum(_ byteCount: UInt32, for connection: ConnectionID) {
        var byteCount = byteCount
        if let gateway = gateway(of: connection), let outer = self[gateway]?.clientPacketMaximum,
            outer > 0
        {
            let room = outer - UInt32(MRT.Channel.prefixByteCountMaximum)
            byteCount = byteCount == 0 ? room : min(byteCount, room)
        }
        self[known: connection].clientPacketMaximum = byteCount
        if byteCount > 0 {
            clientPacketMaximumFloor = min(clientPacketMaximumFloor, Int(byteCount))
        }
    }

    /// Bytes of the largest packet that a client takes.
    func packetMaximum(of connection: ConnectionID) -> Int {
        guard let maximum = self[connection]?.clientPacketMaximum, maximum > 0 else { return .max }
        return Int(maximum)
    }

    /// Whether a packet is larger than its client takes.
    func isTooLarge(_ byteCount: Int, for connection: ConnectionID) -> Bool {
        byteCount > packetMaximum(of: connection)
    }

    /// The conversation of a connection; nil when the connection is gone or its slot is another's.
    public internal(set) subscript(connection: ConnectionID) -> Conversation? {
        get {
            let place = connection.place
            let known: Conversation?
            if connection.isChannel {
                known = place < channelConversations.count ? channelConversations[place] : nil
            } else {
                known = place < conversations.count ? conversations[place] : nil
            }
            return known?.generation == connection.generation ? known : nil
        }
        set {
            if connection.isChannel {
                channelConversations[connection.place] = newValue
            } else {
                conversations[connection.place] = newValue
            }
        }
    }

    /// The conversation of a connection that was looked up before in the same call.
    subscript(known connection: ConnectionID) -> Conversation {
        get {
            guard let conversation = self[connection] else {
                preconditionFailure("\(connection) has no conversation")
            }
            return conversation
        }
        set {
            precondition(
                self[connection] != nil, "\(connection) has no conversation to be changed")
            self[connection] = newValue
        }
    }

    // MARK: - Channels

    /// The connection that has a socket: a channel's gateway, otherwise the connection itself. Of a
    /// channel that has ended it is known until its place is taken again.
    public func transportConnection(of connection: ConnectionID) -> ConnectionID {
        gateway(of: connection) ?? connection
    }

    /// Who carries a channel; nil for what is no channel.
    func gateway(of connection: ConnectionID) -> ConnectionID? {
        connection.isChannel ? channels.origin(of: connection)?.gateway : nil
    }

    /// Opens a channel. Its conversation may do what the gateway's listener lets its clients do.
    mutating func openChannel(_ number: UInt32, of gateway: ConnectionID) -> ConnectionID {
        let channel = channels.open(number, of: gateway)
        while channelConversations.count <= channel.place { channelConversations.append(nil) }
        var conversation = Conversation(
            generation: channel.generation, terms: self[known: gateway].terms)
        conversation.dialect = .mrt
        channelConversations[channel.place] = conversation
        return channel
    }

    /// Closes what a gateway still carries: its sensors are lost with it.
    public mutating func closeChannels(
        of gateway: ConnectionID, _ cause: CloseCause, into events: inout ContiguousArray<Event>
    ) {
        while let channel = channels.anyChannel(of: gateway) {
            close(channel)
            events.append(.connectionClosed(channel, cause))
        }
    }

    // MARK: - Writing

    /// What became of a packet.
    enum WriteOutcome {
        case written
        /// Its client takes no packet of that size.
        case tooLarge
        /// The connection is gone, or has no room for it.
        case noRoom
    }

    /// Writes one packet through `body`, which fills exactly `byteCount` bytes, to a connection or
    /// into its gateway's. Every packet to a client passes here, and none that is larger than its
    /// client takes.
    @inline(__always)
    func write(
        _ byteCount: Int, to connection: ConnectionID, priority: PacketPriority,
        through host: inout some ConnectionHost & ~Copyable, _ body: (inout PacketWriter) -> Void
    ) -> WriteOutcome {
        if byteCount > clientPacketMaximumFloor, isTooLarge(byteCount, for: connection) {
            return .tooLarge
        }
        let isWritten: Bool
        if connection.isChannel {
            guard self[connection] != nil, let origin = channels.origin(of: connection) else {
                return .noRoom
            }
            let prefix = MRT.Channel.prefixByteCount(
                channel: origin.number, innerByteCount: byteCount)
            isWritten = host.write(
                prefix + byteCount, to: origin.gateway, priority: priority
            ) { writer in
                MRT.Channel.writePrefix(
                    channel: origin.number, innerByteCount: byteCount, to: &writer)
                body(&writer)
            }
        } else {
            isWritten = host.write(byteCount, to: connection, priority: priority, body)
        }
        return isWritten ? .written : .noRoom
    }

    /// Writes a packet whose ranges are in `source`, in a shorter form where its client takes no
    /// larger one. False where even that is larger than the client takes.
    @discardableResult
    func write(
        _ packet: some ShortenablePacket, to connection: ConnectionID,
        from source: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0),
        through host: inout some ConnectionHost & ~Copyable
    ) -> Bool {
        var packet = packet
        let maximum = packetMaximum(of: connection)
        if packet.encodedByteCount > maximum, !packet.shorten(to: maximum, source) { return false }
        _ = write(
            packet.encodedByteCount, to: connection, priority: .required, through: &host
        ) { writer in
            packet.write(to: &writer, from: source.bytes)
        }
        return true
    }
}

extension ConnectionHost where Self: ~Copyable {
    /// Writes one packet through `body`. False when it could not be written.
    @inline(__always)
    fileprivate mutating func write(
        _ byteCount: Int, to connection: ConnectionID, priority: PacketPriority,
        _ body: (inout PacketWriter) -> Void
    ) -> Bool {
        guard let room = reservePacket(byteCount, for: connection, priority) else { return false }
        var writer = PacketWriter(
            UnsafeMutableRawBufferPointer(start: room, count: byteCount).mutableBytes)
        body(&writer)
        assert(writer.byteCount == byteCount, "a packet of another size than announced")
        commitPacket(byteCount, for: connection)
        return true
    }
}
