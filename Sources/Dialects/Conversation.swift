// The protocol state of one connection, and the table of a loop's connections. It contains no
// sockets and no sessions.

import BrokerCore
import BrokerTerms
import WireFormat

/// The protocol state of one connection: a few bytes, owned by the loop of the connection.
public struct Conversation: Sendable {
    /// The phase.
    ///
    ///     awaitingConnect ──CONNECT──► awaitingAnswer ──accepted──► established
    ///            │                          │                          │
    ///            └──── anything else ───────┴── refused, violation ────┴──► closing
    public enum Phase: UInt8, Hashable, Sendable {
        /// Only CONNECT is allowed.
        case awaitingConnect
        /// The core decides. Further packets stay unread, so that no answer can overtake CONNACK.
        case awaitingAnswer
        case established
        /// The last packet is written; everything received after it is discarded.
        case closing
    }

    /// The generation of the connection's slot.
    let generation: UInt32
    public internal(set) var phase = Phase.awaitingConnect
    /// The dialect of the client, if it is known yet.
    var dialect = Dialect.unknown
    /// What an MQTT client requested, until its CONNACK is written.
    var keepAliveRequested: UInt16 = 0
    var sessionExpiryRequested: UInt32 = 0
    /// The index of the terms of the listener that accepted the connection.
    public let terms: UInt8
    /// The largest packet that the client accepts; 0 for any. Until the client has stated it, only
    /// the shortest CONNACK is certain to be accepted.
    var clientPacketMaximum = unreadPacketMaximum
    var traits: Traits = []

    /// A client whose dialect is unknown gets no answer: it would read the answer in another
    /// dialect.
    enum Dialect: Hashable {
        case unknown
        case mrt
        case mqtt(MQTT.Version)
        case json(JSONForm)
    }

    /// Whether the client speaks MRT.
    public var isMRT: Bool { dialect == .mrt }

    /// The version of MQTT; nil for other dialects, and before CONNECT.
    public var version: MQTT.Version? {
        guard case .mqtt(let version) = dialect else { return nil }
        return version
    }

    /// How a JSON client sends and receives; nil for other dialects.
    public var jsonForm: JSONForm? {
        guard case .json(let form) = dialect else { return nil }
        return form
    }

    /// Size of a CONNACK of MQTT 5 without properties; those of other dialects are shorter.
    private static let unreadPacketMaximum: UInt32 = 5

    /// Options that a client requested or was granted.
    struct Traits: OptionSet {
        var rawValue: UInt8
        /// Refusals may carry a reason string and user properties [MQTT-3.1.2-29].
        static let wantsProblemInformation = Traits(rawValue: 1 << 0)
        /// The client named an authentication method, and may authenticate again with it.
        static let authenticates = Traits(rawValue: 1 << 1)
        /// Refused publications are still acknowledged where the protocol version has no negative
        /// acknowledgement, because the app is configured that way.
        static let acknowledgesRefused = Traits(rawValue: 1 << 2)
        /// The client accepts fields in DELIVER (MRT).
        static let acceptsFields = Traits(rawValue: 1 << 3)
        /// The client accepts deliveries that recall or change a message (MRT).
        static let acceptsRevisions = Traits(rawValue: 1 << 4)
    }

    init(generation: UInt32, terms: UInt8) {
        self.generation = generation
        self.terms = terms
    }
}

/// The options of a listener.
public struct ListenerTerms: Sendable {
    /// Clients without credentials are accepted as the user that their client id names.
    public var allowsAnonymous: Bool
    /// What they may speak.
    public var dialects: DialectSet
    /// The app whose user names with passwords MQTT clients may present; nil for none.
    public var passwordApp: [UInt8]?

    /// The dialects of a listener.
    public struct DialectSet: OptionSet, Sendable {
        public let rawValue: UInt8
        public init(rawValue: UInt8) { self.rawValue = rawValue }

        public static let mqtt = DialectSet(rawValue: 1 << 0)
        public static let mrt = DialectSet(rawValue: 1 << 1)
    }

    public init(
        allowsAnonymous: Bool = false, dialects: DialectSet = [.mqtt, .mrt],
        passwordApp: [UInt8]? = nil
    ) {
        self.allowsAnonymous = allowsAnonymous
        self.dialects = dialects
        self.passwordApp = passwordApp
    }
}

/// The protocol states of one loop's connections, by slot.
public struct ConversationTable: ~Copyable {
    private var conversations: ContiguousArray<Conversation?> = []
    /// The protocol states of channels, by slot.
    private var channelConversations: ContiguousArray<Conversation?> = []
    var channels: ChannelTable
    /// The users of MQTT connections, by slot: topics of messages to a user contain its name.
    private var users: ContiguousArray<[UInt8]> = []
    /// The users of channels that accept fields, by place.
    private var channelUsers: ContiguousArray<[UInt8]> = []
    /// Topic aliases, by slot; empty until a client uses some.
    private var incomingAliases: ContiguousArray<IncomingAliases> = []
    private var outgoingAliases: ContiguousArray<OutgoingAliases> = []
    /// The event streams among the connections.
    var streams: [ConnectionID: EventStream] = [:]
    /// The users for whom holders of app keys connect, as the handshakes of JSON sockets name them.
    private(set) var actingUsers: [ConnectionID: [UInt8]] = [:]
    /// Translates messages for clients of other systems; nil without such clients.
    public var relay: (any MessageRelay)?
    /// The requests of MQTT connections that have no reply.
    var awaitedReplies: [ConnectionID: AwaitedReplies] = [:]
    /// Of the last request that a client of this loop published.
    var lastRequestSerial: UInt64 = 0
    /// The smallest packet maximum of any client of this loop: a shorter packet needs no check of
    /// its client.
    private(set) var clientPacketMaximumFloor = Int.max

    private let loop: UInt8

    /// - Parameter loop: the loop that owns the connections.
    public init(loop: UInt8) {
        self.loop = loop
        channels = ChannelTable(loop: loop)
    }

    /// A connection was opened.
    ///
    /// - Parameters:
    ///   - terms: index of the listener's ``ListenerTerms``.
    ///   - json: the form of a connection whose dialect is JSON.
    ///   - cors: which pages of other origins may read an event stream; nil for none.
    public mutating func open(
        _ connection: ConnectionID, terms: UInt8, json: JSONForm? = nil,
        cors: CORSHeaders? = nil
    ) {
        precondition(!connection.isChannel, "\(connection) is a channel, which its gateway opens")
        while conversations.count <= connection.slot { conversations.append(nil) }
        conversations[connection.slot] = Conversation(
            generation: connection.generation, terms: terms)
        if let json { conversations[connection.slot]?.dialect = .json(json) }
        if json == .eventStream { streams[connection] = EventStream(cors: cors) }
    }

    /// Notes the user for whom the holder of an app's key connects, if CONNECT names none.
    ///
    /// - Parameter user: an identifier.
    public mutating func setActingUser(_ user: [UInt8], of connection: ConnectionID) {
        precondition(self[connection] != nil, "\(connection) is not open")
        actingUsers[connection] = user
    }

    /// A connection has ended, and its channels with it.
    public mutating func close(_ connection: ConnectionID) {
        guard self[connection] != nil else { return }
        if connection.isChannel {
            channels.close(connection)
            channelConversations[connection.place] = nil
            if connection.place < channelUsers.count { channelUsers[connection.place] = [] }
            return
        }
        conversations[connection.slot] = nil
        if !streams.isEmpty { streams[connection] = nil }
        if !actingUsers.isEmpty { actingUsers[connection] = nil }
        if !awaitedReplies.isEmpty { awaitedReplies[connection] = nil }
        if connection.slot < users.count { users[connection.slot] = [] }
        if connection.slot < incomingAliases.count {
            incomingAliases[connection.slot] = IncomingAliases()
        }
        if connection.slot < outgoingAliases.count {
            outgoingAliases[connection.slot] = OutgoingAliases(maximum: 0)
        }
    }

    // MARK: - Topic aliases

    /// The aliases that a client has set.
    func aliases(from connection: ConnectionID) -> IncomingAliases? {
        connection.slot < incomingAliases.count ? incomingAliases[connection.slot] : nil
    }

    /// A burst of a client's packets is read: the places of its topics are no longer valid.
    @inline(__always)
    mutating func beginBurst(of connection: ConnectionID) {
        if connection.slot < incomingAliases.count {
            incomingAliases[connection.slot].forgetPlaces()
        }
    }

    /// Changes the aliases that a client has set.
    mutating func withAliases<Result>(
        from connection: ConnectionID, _ body: (inout IncomingAliases) -> Result
    ) -> Result {
        while incomingAliases.count <= connection.slot { incomingAliases.append(IncomingAliases()) }
        return body(&incomingAliases[connection.slot])
    }

    /// Stores the client's topic alias maximum.
    mutating func setAliasMaximum(_ maximum: UInt16, for connection: ConnectionID) {
        guard maximum > 0 else { return }
        while outgoingAliases.count <= connection.slot {
            outgoingAliases.append(OutgoingAliases(maximum: 0))
        }
        outgoingAliases[connection.slot] = OutgoingAliases(maximum: maximum)
    }

    /// Whether a client accepts aliases.
    @inline(__always)
    func takesAliases(_ connection: ConnectionID) -> Bool {
        connection.slot < outgoingAliases.count && outgoingAliases[connection.slot].maximum > 0
    }

    /// The alias of a topic for a client, and whether the client knows it already; nil if there is
    /// none.
    func alias(
        of topic: UnsafeRawBufferPointer, hash: UInt64, for connection: ConnectionID
    ) -> (alias: UInt16, isKnown: Bool)? {
        let aliases = outgoingAliases[connection.slot]
        if let alias = aliases.alias(of: topic, hash: hash) { return (alias, true) }
        return aliases.nextAlias(for: topic).map { ($0, false) }
    }

    /// The next alias was sent to a client.
    mutating func appendAlias(
        _ topic: UnsafeRawBufferPointer, hash: UInt64, for connection: ConnectionID
    ) {
        outgoingAliases[connection.slot].append(topic, hash: hash)
    }

    // MARK: - Users

    /// Stores the user of a client whose deliveries depend on it: of MQTT or JSON, or of MRT if it
    /// accepts fields.
    mutating func setUser(_ name: [UInt8], of connection: ConnectionID) {
        if connection.isChannel {
            while channelUsers.count <= connection.place { channelUsers.append([]) }
            channelUsers[connection.place] = name
            return
        }
        while users.count <= connection.slot { users.append([]) }
        users[connection.slot] = name
    }

    /// The user of such a connection; empty for others.
    func user(of connection: ConnectionID) -> [UInt8] {
        if connection.isChannel {
            return connection.place < channelUsers.count ? channelUsers[connection.place] : []
        }
        return connection.slot < users.count ? users[connection.slot] : []
    }

    /// Calls `body` with every accepted connection that is not closing, and its dialect.
    func forEachEstablished(_ body: (ConnectionID, Conversation.Dialect) -> Void) {
        for slot in 0..<conversations.count {
            guard let conversation = conversations[slot], conversation.phase == .established else {
                continue
            }
            body(
                ConnectionID(loop: loop, slot: slot, generation: conversation.generation),
                conversation.dialect)
        }
    }

    /// Stores the largest packet that a client accepts; 0 for any. Packets of a channel must also
    /// fit its gateway.
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

    /// Size of the largest packet that a client accepts.
    func packetMaximum(of connection: ConnectionID) -> Int {
        guard let maximum = self[connection]?.clientPacketMaximum, maximum > 0 else { return .max }
        return Int(maximum)
    }

    /// Whether a packet is larger than its client accepts.
    func isTooLarge(_ byteCount: Int, for connection: ConnectionID) -> Bool {
        byteCount > packetMaximum(of: connection)
    }

    /// The state of a connection; nil if the connection is gone or its slot has another.
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

    /// The state of a connection that was looked up before in the same call.
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

    /// The connection that has a socket: a channel's gateway, otherwise the connection itself. For
    /// a channel that has ended, this is known until its slot is taken again.
    public func transportConnection(of connection: ConnectionID) -> ConnectionID {
        gateway(of: connection) ?? connection
    }

    /// The connection that carries a channel, or carried it, and the channel's number; nil if the
    /// connection is no channel, or if the slot has a newer one.
    public func channelOrigin(
        of connection: ConnectionID
    ) -> (gateway: ConnectionID, number: UInt32)? {
        connection.isChannel ? channels.origin(of: connection) : nil
    }

    /// The open channel of a gateway with a number.
    public func channel(_ number: UInt32, of gateway: ConnectionID) -> ConnectionID? {
        channels.channel(number, of: gateway)
    }

    /// The connection that carries a channel; nil if the connection is no channel.
    func gateway(of connection: ConnectionID) -> ConnectionID? {
        connection.isChannel ? channels.origin(of: connection)?.gateway : nil
    }

    /// Opens a channel. It has the options of the gateway's listener.
    mutating func openChannel(_ number: UInt32, of gateway: ConnectionID) -> ConnectionID {
        let channel = channels.open(number, of: gateway)
        while channelConversations.count <= channel.place { channelConversations.append(nil) }
        var conversation = Conversation(
            generation: channel.generation, terms: self[known: gateway].terms)
        conversation.dialect = .mrt
        channelConversations[channel.place] = conversation
        return channel
    }

    /// Closes the channels of a gateway that has ended: its devices are lost with it.
    public mutating func closeChannels(
        of gateway: ConnectionID, _ cause: CloseCause, into events: inout ContiguousArray<Event>
    ) {
        while let channel = channels.anyChannel(of: gateway) {
            close(channel)
            events.append(.connectionClosed(channel, cause))
        }
    }

    // MARK: - Writing

    /// What happened to a packet.
    enum WriteOutcome {
        case written
        /// Its client accepts no packet of that size.
        case tooLarge
        /// The connection is gone, or has no room for it.
        case noRoom
    }

    /// Writes one packet through `body`, which fills exactly `byteCount` bytes, to a connection or
    /// into its gateway's. Every packet to a client passes through this function, which drops
    /// packets that are larger than the client accepts.
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

    /// Writes a packet whose ranges are in `source`, shortened if it is larger than its client
    /// accepts. False if even the shortest form is too large.
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
    /// Writes one packet through `body`. False if it could not be written.
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
