// Follows the connections of one event loop that are traced. It sees the bytes of every read before
// the decoder does, and every packet that is written. A login is kept until the core says whose it
// is, so that no trace shows the packets of another user.

import Administration
import BrokerCore
import BrokerTerms
import Dialects
import NetTransport
import Primitives
import WireFormat

/// A connection, or a channel that it carries.
struct TracedPlace: Hashable {
    let transport: ConnectionID
    /// The number of the channel; nil for the connection itself.
    var channel: UInt32?
}

/// The traces of one event loop, used by its thread only.
final class LoopTracer {
    private struct Followed {
        let dialect: TracedDialect
        let name: String
        var traces: [TraceTarget]
        /// The operations of requests that have no answer yet, by number.
        var requests: [UInt64: MRT.Operation] = [:]
        var isClosed = false
    }

    /// A login whose user is not known yet.
    private struct Undecided {
        let dialect: TracedDialect
        let name: String
        /// As the client presents them, unverified.
        let user: String
        let device: String
        var packets: [TracedPacket]
        var isAccepted = false
    }

    /// A received packet, before it is decoded.
    private struct Capture {
        /// Where it ends in the bytes of the read.
        let end: Int
        let place: TracedPlace
        let bytes: [UInt8]
        /// Bytes of the message that became the packet; nil for a packet that the client sent.
        var messageByteCount: Int?
    }

    private let registry: TraceRegistry
    private let shards: Shards
    private let loop: UInt8
    private var version: UInt64 = 0
    private var targets: [TraceTarget] = []
    private var followed: [TracedPlace: Followed] = [:]
    private var undecided: [TracedPlace: Undecided] = [:]
    private var captures: [Capture] = []
    /// Packets that are written while a read is decoded: what they answer is recorded first.
    private var heldAnswers: [(place: TracedPlace, bytes: [UInt8])]?
    /// Packets that were decoded for each trace in a second.
    private var decodedCounts: [UInt64: (second: UInt64, count: Int)] = [:]
    /// The time of the turn.
    private var moment: Moment
    /// The address of the peer whose bytes are read.
    private var address = ""

    init(_ registry: TraceRegistry, shards: Shards, loop: UInt8, at moment: Moment) {
        self.registry = registry
        self.shards = shards
        self.loop = loop
        self.moment = moment
    }

    // MARK: - Targets

    /// Whether the targets have changed since the last refresh.
    var isOutdated: Bool { registry.version != version }

    /// Takes over the targets of the registry, and returns whether there are any. A new one follows
    /// the connections that its user has already.
    func refresh(
        at moment: Moment, conversations: borrowing ConversationTable,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> Bool {
        self.moment = moment
        version = registry.version
        let new = registry.targets
        let added = new.filter { !targets.contains($0) }
        targets = new
        for place in Array(followed.keys) {
            followed[place]?.traces.removeAll { !new.contains($0) }
            if followed[place]?.traces.isEmpty == true { followed[place] = nil }
        }
        decodedCounts = decodedCounts.filter { count in new.contains { $0.trace == count.key } }
        if new.isEmpty { undecided = [:] }
        for target in added { begin(target, conversations: conversations, in: loop) }
        return !new.isEmpty
    }

    private func begin(
        _ target: TraceTarget, conversations: borrowing ConversationTable,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) {
        let owners = shards[target.app].enter(from: self.loop) {
            $0.broker.connections(
                ofUser: target.user, device: target.device, app: target.app, loop: self.loop,
                countMaximum: TraceLimits.connectionCountMaximum + 1)
        }
        for owner in owners {
            guard let place = place(of: owner.connection, in: conversations),
                let conversation = conversations[owner.connection],
                let dialect = TracedDialect(conversation)
            else { continue }
            let name = owner.connection.description
            guard follow(place, dialect, name: name, for: [target]) else { continue }
            var event = TracedPacket(.event, "present")
            event.address = "\(loop.peer(of: place.transport))"
            event.user = String(decoding: owner.user, as: UTF8.self)
            event.device = String(decoding: owner.device, as: UTF8.self)
            event.dialect = dialect.text
            event.detail = "connected before the trace began"
            stamp(&event, name)
            add(event, to: [target])
        }
    }

    /// Follows a connection. False if there are too many.
    private func follow(
        _ place: TracedPlace, _ dialect: TracedDialect, name: String, for traces: [TraceTarget]
    ) -> Bool {
        if let known = followed[place], !known.isClosed {
            followed[place]?.traces += traces.filter { !known.traces.contains($0) }
            return true
        }
        if followed[place] == nil, followed.count >= TraceLimits.connectionCountMaximum {
            guard let closed = followed.first(where: { $0.value.isClosed })?.key else {
                for target in traces { registry.countMissedConnection(in: target.trace) }
                return false
            }
            followed[closed] = nil
        }
        followed[place] = Followed(dialect: dialect, name: name, traces: traces)
        return true
    }

    private func place(
        of connection: ConnectionID, in conversations: borrowing ConversationTable
    ) -> TracedPlace? {
        guard connection.isChannel else { return TracedPlace(transport: connection, channel: nil) }
        return conversations.channelOrigin(of: connection).map {
            TracedPlace(transport: $0.gateway, channel: $0.number)
        }
    }

    // MARK: - Received bytes

    /// Copies the packets of traced connections out of the bytes of a read. The decoder may rewrite
    /// the bytes, and may leave packets for a later read.
    ///
    /// - Parameter messages: decodes the bytes of a JSON socket.
    func beginRead(
        _ bytes: RawSpan, from connection: ConnectionID, _ conversation: Conversation?,
        messages: () -> [(packet: [UInt8], endOffset: Int)], peer: SocketAddress, at moment: Moment
    ) {
        self.moment = moment
        heldAnswers = []
        captures.removeAll(keepingCapacity: true)
        guard let conversation,
            conversation.phase == .awaitingConnect || conversation.phase == .established
        else { return }
        let own = TracedPlace(transport: connection, channel: nil)
        let isFollowed = followed[own] != nil
        let mayCarryChannels =
            conversation.phase == .established && conversation.isMRT
        guard isFollowed || mayCarryChannels || conversation.phase == .awaitingConnect else {
            return
        }
        address = "\(peer)"
        if conversation.jsonForm?.isSocket == true {
            // Nothing after the login is read before its answer.
            let messages = messages()
            let count = conversation.phase == .awaitingConnect ? 1 : messages.count
            var start = 0
            for message in messages.prefix(count) {
                captures.append(
                    Capture(
                        end: message.endOffset, place: own, bytes: message.packet,
                        messageByteCount: message.endOffset - start
                            - FramedText.headerByteCount))
                start = message.endOffset
            }
            return
        }
        var offset = 0
        while case .packet(let frame) = PacketFrame.next(
            in: bytes, at: offset, packetMaximum: .max)
        {
            let packet = bytes.extracting(offset..<frame.endOffset)
            offset = frame.endOffset
            if mayCarryChannels, frame.type == MRT.PacketType.channel.rawValue {
                captureChannel(frame.body.bytes(in: bytes), of: connection, end: offset)
            } else if isFollowed || conversation.phase == .awaitingConnect {
                captures.append(Capture(end: offset, place: own, bytes: Self.copy(packet)))
            }
            // Nothing after CONNECT is read before its answer.
            if conversation.phase == .awaitingConnect { break }
        }
    }

    private func captureChannel(_ body: RawSpan, of gateway: ConnectionID, end: Int) {
        guard let channel = try? MRT.Channel(body: body) else { return }
        let place = TracedPlace(transport: gateway, channel: channel.channel)
        let inner = channel.inner.bytes(in: body)
        let isConnect = inner[0] >> 4 == MRT.PacketType.connect.rawValue
        guard isConnect || followed[place] != nil else { return }
        captures.append(Capture(end: end, place: place, bytes: Self.copy(inner)))
    }

    private static func copy(_ span: RawSpan) -> [UInt8] { span.withUnsafeBytes { Array($0) } }

    /// Records the packets that the decoder has read, and then what it wrote.
    func endRead(consumed: Int, conversations: borrowing ConversationTable) {
        for capture in captures where capture.end <= consumed {
            let bytes = capture.bytes.span.bytes
            let isConnect = bytes[0] >> 4 == MRT.PacketType.connect.rawValue
            if isConnect, followed[capture.place]?.isClosed ?? true {
                received(capture, conversations[capture.place.transport])
            } else {
                record(
                    bytes, at: capture.place, from: .client, byteCount: capture.messageByteCount)
            }
        }
        captures.removeAll(keepingCapacity: true)
        let answers = heldAnswers ?? []
        heldAnswers = nil
        for answer in answers {
            record(answer.bytes.span.bytes, at: answer.place, from: .broker)
        }
        decide(conversations)
    }

    /// A login begins.
    private func received(_ capture: Capture, _ conversation: Conversation?) {
        let (bytes, place) = (capture.bytes.span.bytes, capture.place)
        guard
            case .packet(let frame) = PacketFrame.next(in: bytes, at: 0, packetMaximum: .max),
            let name = try? ProtocolName.read(frame.body.bytes(in: bytes))
        else { return }
        let dialect: TracedDialect
        if conversation?.jsonForm != nil {
            dialect = .json
        } else if case .mrt = name {
            dialect = .mrt
        } else if let version = MQTT.Version(name) {
            dialect = .mqtt(version)
        } else {
            return
        }
        guard undecided.count < TraceLimits.undecidedCountMaximum else {
            for target in targets { registry.countMissedConnection(in: target.trace) }
            return
        }
        followed[place] = nil
        var packet = PacketSummary.packet(bytes, dialect: dialect, from: .client)
        packet.address = address
        packet.dialect = dialect.text
        if let byteCount = capture.messageByteCount { packet.byteCount = UInt64(byteCount) }
        let text = place.channel.map { "\(place.transport)/\($0)" } ?? "\(place.transport)"
        stamp(&packet, text)
        undecided[place] = Undecided(
            dialect: dialect, name: text, user: packet.user ?? "", device: packet.device ?? "",
            packets: [packet])
    }

    // MARK: - Written packets

    /// The effects of a turn are carried out.
    func beginWriting(at moment: Moment) { self.moment = moment }

    /// All of them are written.
    func endWriting(conversations: borrowing ConversationTable) { decide(conversations) }

    /// A packet is written to a connection, or to one of its channels.
    func sent(_ bytes: RawSpan, to connection: ConnectionID) {
        if bytes.isEmpty { return }
        var place = TracedPlace(transport: connection, channel: nil)
        var packet = bytes
        if bytes[0] == MRT.PacketType.channel.rawValue << 4,
            case .packet(let frame) = PacketFrame.next(in: bytes, at: 0, packetMaximum: .max),
            let channel = try? MRT.Channel(body: frame.body.bytes(in: bytes))
        {
            place.channel = channel.channel
            packet = channel.inner.bytes(in: frame.body.bytes(in: bytes))
        }
        if heldAnswers != nil {
            // A refused login is not known yet: its CONNECT is recorded after the read.
            heldAnswers?.append((place, Self.copy(packet)))
            return
        }
        record(packet, at: place, from: .broker)
    }

    // MARK: - Records

    /// - Parameter byteCount: bytes of the message that became the packet; nil for a packet.
    private func record(
        _ bytes: RawSpan, at place: TracedPlace, from peer: MRT.Peer, byteCount: Int? = nil
    ) {
        if let known = followed[place], !known.isClosed {
            guard let traces = admitting(known.traces) else { return }
            var packet = PacketSummary.packet(bytes, dialect: known.dialect, from: peer)
            if known.dialect == .mrt { nameRequest(&packet, bytes, at: place) }
            if let byteCount { packet.byteCount = UInt64(byteCount) }
            stamp(&packet, known.name)
            add(packet, to: traces)
        } else if let known = undecided[place] {
            guard known.packets.count < TraceLimits.undecidedPacketCountMaximum else { return }
            var packet = PacketSummary.packet(bytes, dialect: known.dialect, from: peer)
            stamp(&packet, known.name)
            undecided[place]?.packets.append(packet)
            let isAccepted =
                packet.packet == "connected"
                || packet.packet == "CONNACK" && packet.code.map { $0 < 0x80 } == true
            guard isAccepted else { return }
            undecided[place]?.isAccepted = true
            // Deliveries follow in the same turn. The names of a channel are known after it.
            if place.channel == nil { decide(place, connection: place.transport) }
        }
    }

    /// Says with an answer what was asked, and which grade a subscription was granted.
    private func nameRequest(_ packet: inout TracedPacket, _ bytes: RawSpan, at place: TracedPlace)
    {
        guard case .packet(let frame) = PacketFrame.next(in: bytes, at: 0, packetMaximum: .max)
        else { return }
        let body = frame.body.bytes(in: bytes)
        if packet.direction == .in, frame.type == MRT.PacketType.request.rawValue,
            let request = try? MRT.Request(body: body), let operation = request.operation
        {
            guard let known = followed[place],
                known.requests.count < TraceLimits.requestCountMaximum
            else { return }
            followed[place]?.requests[request.identifier] = operation
        } else if packet.direction == .out, frame.type == MRT.PacketType.response.rawValue,
            let response = try? MRT.Response(body: body),
            let operation = followed[place]?.requests.removeValue(forKey: response.identifier)
        {
            packet.detail = packet.detail.map { "\(operation), \($0)" } ?? "\(operation)"
            if operation == .subscribe, !response.reason.isFailure, response.content.count == 1 {
                packet.codes = [PacketSummary.codeText(response.content.bytes(in: body)[0])]
            }
        }
    }

    private func stamp(_ packet: inout TracedPacket, _ name: String) {
        packet.unixMilliseconds = moment.unixMilliseconds
        packet.connection = name
    }

    /// The traces that may decode another packet in this second; nil if none may. The packet is
    /// counted for the others.
    private func admitting(_ traces: [TraceTarget]) -> [TraceTarget]? {
        let second = moment.instant.milliseconds / 1_000
        let admitted = traces.filter { target in
            var known = decodedCounts[target.trace] ?? (second, 0)
            if known.second != second { known = (second, 0) }
            guard known.count < TraceLimits.packetsPerSecondMaximum else {
                registry.countMissed(in: target.trace)
                return false
            }
            known.count += 1
            decodedCounts[target.trace] = known
            return true
        }
        return admitted.isEmpty ? nil : admitted
    }

    private func add(_ packet: TracedPacket, to traces: [TraceTarget]) {
        for target in traces {
            var packet = packet
            if !target.showsPayloads { (packet.payload, packet.hex) = (nil, nil) }
            registry.append(packet, to: target.trace)
        }
    }

    // MARK: - Whose a login is

    /// Decides about the logins of channels that were accepted.
    private func decide(_ conversations: borrowing ConversationTable) {
        for (place, login) in undecided where login.isAccepted {
            guard let number = place.channel,
                let channel = conversations.channel(number, of: place.transport)
            else {
                undecided[place] = nil
                continue
            }
            decide(place, connection: channel)
        }
    }

    /// Asks the core for the user of an accepted login.
    private func decide(_ place: TracedPlace, connection: ConnectionID) {
        guard let owner = shards.owner(of: connection) else {
            // It has ended already.
            undecided[place] = nil
            return
        }
        follow(undecided: place, for: targets.filter { $0.matches(owner) })
    }

    /// Shows a login that was not accepted to the traces whose user it names.
    private func decide(_ place: TracedPlace, names: [(user: String, device: String)]) {
        follow(
            undecided: place,
            for: targets.filter { target in
                names.contains { target.isNamed(user: $0.user, device: $0.device) }
            })
    }

    private func follow(undecided place: TracedPlace, for traces: [TraceTarget]) {
        guard let login = undecided.removeValue(forKey: place), !traces.isEmpty,
            follow(place, login.dialect, name: login.name, for: traces)
        else { return }
        for packet in login.packets {
            if let traces = admitting(traces) { add(packet, to: traces) }
        }
    }

    // MARK: - Events

    /// Shows what the log says about traced connections: refusals and ends with their reasons.
    func take(_ notes: [ConnectionLog.Note], conversations: borrowing ConversationTable) {
        for note in notes {
            guard let place = place(of: note.connection, in: conversations) else { continue }
            if let login = undecided[place], note.isEnd {
                // The log names the id of an unknown token, or the user of a known one.
                decide(place, names: [(login.user, login.device), (note.user, note.device)])
            }
            guard let known = followed[place] else { continue }
            var event = TracedPacket(.event, note.event.rawValue)
            event.reason = note.reason.name.description
            event.code = UInt64(note.reason.rawValue)
            if !note.detail.isEmpty {
                event.detail = PacketSummary.text(Array(note.detail.utf8).span.bytes)
            }
            stamp(&event, known.name)
            if let traces = admitting(known.traces) { add(event, to: traces) }
            if note.isEnd { followed[place]?.isClosed = true }
        }
    }

    /// A connection has closed.
    func closed(
        _ connection: ConnectionID, _ cause: TransportCloseCause, detail: String, at moment: Moment
    ) {
        self.moment = moment
        let place = TracedPlace(transport: connection, channel: nil)
        if let login = undecided[place] {
            decide(place, names: [(login.user, login.device)])
        }
        undecided = undecided.filter { $0.key.transport != connection }
        guard let known = followed[place] else { return }
        var event = TracedPacket(.event, "closed")
        event.detail = detail.isEmpty ? "\(cause)" : "\(cause), \(detail)"
        stamp(&event, known.name)
        if let traces = admitting(known.traces) { add(event, to: traces) }
    }
}

extension TracedDialect {
    /// What a client speaks; nil if that is not known yet.
    init?(_ conversation: Conversation) {
        if conversation.isMRT {
            self = .mrt
        } else if conversation.jsonForm != nil {
            self = .json
        } else if let version = conversation.version {
            self = .mqtt(version)
        } else {
            return nil
        }
    }
}

extension TraceTarget {
    /// Whether a client presents the names of the target: its user or, with an app key, `app/user`;
    /// without a user the client id is one.
    fileprivate func isNamed(user name: String, device presented: String) -> Bool {
        let name = Array(name.utf8)
        let presented = Array(presented.utf8)
        let isUser =
            name == user || name == app + [UInt8(ascii: "/")] + user
            || name.isEmpty && presented == user
        return isUser && (device == nil || device == presented)
    }
}
