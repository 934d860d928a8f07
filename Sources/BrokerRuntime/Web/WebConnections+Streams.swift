// Event streams: a request that stands for a login and subscriptions of a JSON client. Its packets
// are given to the decoder as if the client had sent them; the response is the stream.

import BrokerTerms
import Credentials
import Dialects
import NetTransport
import Primitives
import WireFormat

/// What a request for an event stream stands for.
struct EventStreamLogin {
    /// A CONNECT of MRT.
    let connect: [UInt8]
    /// What follows when the login is accepted.
    let subscriptions: StreamSubscriptions
    /// The index of the terms of its packets.
    let terms: UInt8
    /// Which pages of other origins may read the stream; nil for none.
    let cors: CORSHeaders?

    /// Filters of one request. Each becomes a subscription as from a client's packet.
    static let filterCountMaximum = 64
}

/// The filters of an event stream.
struct StreamSubscriptions {
    var filterCount = 0
    /// A REQUEST of MRT for each.
    var packets: [UInt8] = []

    /// Those that one turn makes, of streams whose login is accepted: as many as it has room and
    /// time for, and at least one stream's.
    ///
    /// - Parameter room: bytes of packets that the turn can take.
    static func next(
        of streams: some Sequence<(key: ConnectionID, value: StreamSubscriptions)>, room: Int,
        isAccepted: (ConnectionID) -> Bool
    ) -> [(connection: ConnectionID, packets: [UInt8])] {
        var taken: [(connection: ConnectionID, packets: [UInt8])] = []
        var room = room
        var filterCount = 0
        for (connection, wanted) in streams where isAccepted(connection) {
            filterCount += wanted.filterCount
            guard wanted.packets.count <= room,
                taken.isEmpty || filterCount <= WebLimits.streamFiltersPerTurnMaximum
            else { break }
            room -= wanted.packets.count
            taken.append((connection, wanted.packets))
        }
        return taken
    }
}

extension WebConnections {
    /// Decides on a request for an event stream.
    func openEventStream(
        _ request: WebRequest, of connection: ConnectionID, isDraining: Bool,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> WebAction {
        if request.head.method == .options, request.head.traits.contains(.isPreflight) {
            return preflight(
                request, methods: ["GET"],
                fields: ["authorization", "last-event-id", "martlet-user"])
        }
        guard request.head.method == .get else {
            var response = HTTPResponse.problem(
                .methodNotAllowed, "only GET", reason: .implementationSpecificError)
            response.allowed = ["GET"]
            return .respond(response)
        }
        guard !request.head.hasContent else {
            return .respond(
                .problem(.contentTooLarge, "no content is read here", reason: .packetTooLarge))
        }
        guard !isStopping(isDraining), let terms = connections[connection]?.terms else {
            return .respond(
                .problem(.unavailable, "the broker is stopping", reason: .serverShuttingDown))
        }
        // A page of another origin cannot send the field, so a page cannot log in with only the
        // connection's client certificate, or without credentials.
        guard request.bearerToken != nil else {
            var response = HTTPResponse.problem(
                .unauthorized, "Authorization: Bearer TOKEN is missing", reason: .notAuthorized)
            response.fields = ["WWW-Authenticate: Bearer realm=\"martlet\""]
            return .respond(response)
        }
        guard allowsOrigin(of: request, on: connection) else {
            return .respond(
                .problem(.forbidden, "the origin is not allowed", reason: .notAuthorized))
        }
        if request.hasOperatorToken {
            if terms.parts.contains(.api) {
                return openLogStream(request, from: connection, in: loop)
            }
            if request.isOfOperator {
                return .respond(
                    .problem(
                        .notFound,
                        "this listener does not serve the API, to which streams of operators "
                            + "belong", reason: .topicNameInvalid))
            }
        }
        if let core = elsewhere(request, in: loop) {
            return .respond(redirection(of: request, to: core))
        }
        // Otherwise the core refuses a wrong credential, as that of any client.
        if request.mustBeVerified {
            do throws(APICredentials.Refusal) {
                _ = try credential(of: request, unixSeconds: clock.moment(at: loop.now).unixSeconds)
            } catch {
                return refuseCredential(request, from: connection, error.detail, in: loop)
            }
        }
        do throws(EventStreamFault) {
            return .eventStream(try EventStreamLogin(request, terms: terms.mrt))
        } catch {
            return .respond(
                .problem(.badRequest, error.detail, reason: .malformedPacket))
        }
    }

    /// Whether a request for a stream must have a valid credential to go on: its address has been
    /// refused too often.
    func mustVerify(
        _ request: WebRequest, on connection: ConnectionID,
        in loop: borrowing some BrokerLoop & ~Copyable
    ) -> Bool {
        services.operators.failures.isExceeded(
            by: peer(of: request, on: connection, in: loop), at: loop.now)
    }

    /// Counts a login of a stream that was refused towards the limit of its address.
    func countRefusal(_ connection: ConnectionID, in loop: borrowing some BrokerLoop & ~Copyable) {
        guard isStream(connection) else { return }
        _ = services.operators.failures.note(loop.peer(of: connection), at: loop.now)
    }

    /// Notes that the response of a connection is an event stream.
    mutating func beginStream(_ connection: ConnectionID, _ login: EventStreamLogin) {
        let subscribes = login.subscriptions.filterCount > 0
        connections[connection]?.phase = .eventStream(subscribes ? login.subscriptions : nil)
        if subscribes { subscribing.insert(connection) }
    }

    func isStream(_ connection: ConnectionID) -> Bool {
        switch connections[connection]?.phase {
        case .eventStream, .logStream: true
        case .head, .content, .metrics, .file, .done, nil: false
        }
    }

    /// Shows a client, and what is between, that its stream has not ended.
    ///
    /// - Parameter isHeld: whether a node of a cluster has no lease: the client is to leave it if
    ///   that lasts.
    mutating func sendComment(
        to connection: ConnectionID, isHeld: Bool, in loop: inout some BrokerLoop & ~Copyable
    ) {
        keepLogStream(connection, in: &loop)
        if !isHeld { loop.write(HTTPEventStream.comment, to: connection) }
        loop.acceptConnection(connection, silenceMilliseconds: JSONLimits.heartbeatMilliseconds)
    }

    /// Whether a stream whose login is accepted has not subscribed yet.
    func awaitsSubscribing(_ conversations: borrowing ConversationTable) -> Bool {
        for connection in subscribing
        where conversations[connection]?.phase == .established {
            return true
        }
        return false
    }

    /// Takes the subscriptions of streams whose login is accepted, as many as the turn has room and
    /// time for.
    mutating func takeSubscriptions(
        room: Int, isAccepted: (ConnectionID) -> Bool
    ) -> [(connection: ConnectionID, packets: [UInt8])] {
        let known = connections
        let wanted = subscribing.lazy.compactMap {
            connection -> (key: ConnectionID, value: StreamSubscriptions)? in
            guard case .eventStream(let subscriptions?)? = known[connection]?.phase else {
                return nil
            }
            return (connection, subscriptions)
        }
        let taken = StreamSubscriptions.next(of: wanted, room: room, isAccepted: isAccepted)
        for (connection, _) in taken {
            subscribing.remove(connection)
            connections[connection]?.phase = .eventStream(nil)
        }
        return taken
    }
}

/// What is wrong with a request for an event stream.
private struct EventStreamFault: Error {
    let detail: String

    init(_ detail: String) {
        self.detail = detail
    }
}

extension EventStreamLogin {
    fileprivate init(_ request: WebRequest, terms: UInt8) throws(EventStreamFault) {
        guard let members = request.queryMembers else {
            throw EventStreamFault("the query is malformed: NAME=VALUE, joined by &")
        }
        var connect = MRT.Connect()
        connect.inboxWindow = JSONLimits.windowDefault
        var text: [UInt8] = []
        var (app, user) = (ByteRange.empty, ByteRange.empty)
        var seen: Set<String> = []
        var packets: [UInt8] = []
        var filterCount = 0
        for member in members {
            if member.name == "subscribe" {
                filterCount += 1
                guard filterCount <= Self.filterCountMaximum else {
                    throw EventStreamFault("more than \(Self.filterCountMaximum) filters")
                }
                packets += try Self.subscription(member.value, number: UInt64(filterCount))
                continue
            }
            guard seen.insert(member.name).inserted else {
                throw EventStreamFault("\"\(member.name)\" is repeated")
            }
            switch member.name {
            case "device": connect.device = try text.append(short: member)
            case "app": app = try text.append(short: member)
            case "user": user = try text.append(short: member)
            case "cleanStart": connect.isCleanStart = try member.flag()
            case "sync":
                guard member.value == "push" || member.value == "pull" else {
                    throw EventStreamFault("\"sync\" is not push or pull")
                }
                if member.value == "pull" { connect.accepts = .pull }
            case "window":
                connect.inboxWindow = UInt16(
                    try member.number(in: 1...UInt64(WireLimits.windowMaximum)))
            case "sessionExpirySeconds":
                connect.sessionExpirySeconds = UInt32(
                    try member.number(in: 0...UInt64(UInt32.max)))
            default: throw EventStreamFault("\"\(member.name)\" is no member of this request")
            }
        }
        // A client that can set fields names the user there, others in the query.
        let named: String?
        do throws(ActingUserFault) {
            named = try request.actingUser
        } catch {
            throw EventStreamFault(error.detail)
        }
        if let named, user.isEmpty {
            guard named.utf8.count <= UInt8.max else {
                throw EventStreamFault("Martlet-User has more than 255 bytes")
            }
            user = text.append(named.utf8)
        }
        if let token = request.bearerToken {
            let range = text.append(token.bytes(in: request.bytes))
            let isKey = text[range.offsets].starts(with: AppKey.prefix.utf8)
            connect.credential =
                isKey ? .appKey(app: app, key: range, user: user) : .token(range)
            if isKey {
                guard range.count <= WireLimits.appKeyByteCountMaximum else {
                    throw EventStreamFault("the app key is too long")
                }
                guard !app.isEmpty else {
                    throw EventStreamFault("\"app\" is missing: an app key needs it")
                }
                guard !user.isEmpty else {
                    throw EventStreamFault("\"user\" or the field Martlet-User is missing")
                }
            }
        }
        if let place = request.head.lastEventID, !place.isEmpty {
            connect.resume = try Self.position(place.bytes(in: request.bytes).bytes)
        }
        self.connect = connect.encoded(from: text)
        subscriptions = StreamSubscriptions(filterCount: filterCount, packets: packets)
        self.terms = terms
        cors = request.cors
    }

    /// The REQUEST that subscribes to a filter.
    private static func subscription(
        _ filter: String, number: UInt64
    ) throws(EventStreamFault) -> [UInt8] {
        let text = Array(filter.utf8)
        guard (1...WireLimits.topicByteCountMaximum).contains(text.count) else {
            throw EventStreamFault("\"subscribe\" is empty or too long")
        }
        return MRT.OutgoingRequest(
            identifier: number, operation: .subscribe,
            part: MRT.Subscribe(
                highestGrade: .once, filter: ByteRange(offset: 0, count: text.count))
        ).encoded(from: text)
    }

    /// A position in an inbox: the id of the last event that the client has.
    private static func position(_ text: RawSpan) throws(EventStreamFault) -> MRT.Resume {
        guard text.byteCount > 17, text[16] == UInt8(ascii: "-"),
            let epoch = UInt64(hexadecimal: text.extracting(first: 16)), epoch != 0,
            (0x30...0x39).contains(text[17]),
            let number = UInt64(
                String(
                    decoding: text.extracting(droppingFirst: 17).withUnsafeBytes { Array($0) },
                    as: UTF8.self)),
            number <= WireLimits.varIntMaximum
        else { throw EventStreamFault("Last-Event-ID is not the id of an event") }
        return MRT.Resume(epoch: epoch, lastNumber: number)
    }
}

extension WirePacket {
    func encoded(from source: [UInt8]) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: encodedByteCount)
        bytes.withUnsafeMutableBytes {
            var writer = PacketWriter($0.mutableBytes)
            write(to: &writer, from: source.span.bytes)
        }
        return bytes
    }
}

extension HTTPTarget.Member {
    fileprivate func flag() throws(EventStreamFault) -> Bool {
        switch value {
        case "true": true
        case "false": false
        default: throw EventStreamFault("\"\(name)\" is not true or false")
        }
    }

    fileprivate func number(in range: ClosedRange<UInt64>) throws(EventStreamFault) -> UInt64 {
        guard let number = UInt64(value), range.contains(number) else {
            throw EventStreamFault(
                "\"\(name)\" is not a whole number of \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ bytes: some Sequence<UInt8>) -> ByteRange {
        let start = count
        append(contentsOf: bytes)
        return ByteRange(offset: start, count: count - start)
    }

    /// Appends text whose length has one byte in a packet.
    fileprivate mutating func append(
        short member: HTTPTarget.Member
    ) throws(EventStreamFault) -> ByteRange {
        guard member.value.utf8.count <= UInt8.max else {
            throw EventStreamFault("\"\(member.name)\" has more than 255 bytes")
        }
        return append(member.value.utf8)
    }
}
