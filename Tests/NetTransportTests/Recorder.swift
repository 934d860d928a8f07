// The handler of the tests: it echoes or collects bytes, and records its calls. Both ends of a
// connection are on one loop, so that a test is one thread and controls every turn.
import BrokerTerms
import NetTransport
import Primitives
import WireFormat
import Testing

struct Recorder: LoopHandler {
    /// What is done with bytes that arrive at accepted connections.
    enum Manner {
        case echo
        /// Echoes only whole frames of that many bytes.
        case echoFrames(byteCount: Int)
        /// Collects and consumes.
        case collect
        /// Consumes nothing, and awaits a packet of that many bytes.
        case await(byteCount: Int)
        /// Collects, consumes nothing and pauses until the test resumes.
        case pause
    }

    struct End {
        let connection: ConnectionID
        let cause: TransportCloseCause
        let detail: String
    }

    var manner = Manner.echo
    var accepted: [ConnectionID] = []
    var connected: [ConnectionID] = []
    /// Bytes that arrived at our own connects, and at accepted connections when collecting.
    var received: [ConnectionID: [UInt8]] = [:]
    /// How often bytes were shown.
    var showings = 0
    var ends: [End] = []
    var deadlines: [ConnectionDeadline] = []
    var closesAtDeadline = true
    var turnedAway: [RefusalCause] = []
    var wakes = 0
    var drains = 0
    var goodbye: [UInt8] = []
    /// Accepted connections that speak WebSocket after their first bytes, which are answered with
    /// the greeting.
    var upgrades: Set<ConnectionID> = []
    var greeting: [UInt8] = []
    var form = WebSocketForm.binary

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        switch origin {
        case .listener: accepted.append(connection)
        case .connect: connected.append(connection)
        }
    }

    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        showings += 1
        let buffer = bytes.bytes(in: loop.arena)
        guard accepted.contains(connection) else {
            received[connection, default: []].append(contentsOf: buffer)
            return Consumption(consumed: buffer.count)
        }
        if upgrades.remove(connection) != nil {
            greeting.withUnsafeBytes { append($0, to: connection, in: &loop) }
            loop.startWebSocket(connection, form)
            return Consumption(consumed: buffer.count)
        }
        switch manner {
        case .echo:
            append(buffer, to: connection, in: &loop)
            return Consumption(consumed: buffer.count)
        case .echoFrames(let byteCount):
            let whole = buffer.count / byteCount * byteCount
            let frames = UnsafeRawBufferPointer(rebasing: buffer[0..<whole])
            if whole > 0 { append(frames, to: connection, in: &loop) }
            return Consumption(consumed: whole)
        case .collect:
            received[connection, default: []].append(contentsOf: buffer)
            return Consumption(consumed: buffer.count)
        case .await(let byteCount):
            guard buffer.count >= byteCount else {
                return Consumption(consumed: 0, awaiting: byteCount)
            }
            received[connection, default: []].append(contentsOf: buffer)
            return Consumption(consumed: buffer.count)
        case .pause:
            received[connection] = Array(buffer)
            loop.pauseReading(connection)
            return Consumption(consumed: 0)
        }
    }

    private func append(
        _ bytes: UnsafeRawBufferPointer, to connection: ConnectionID, in loop: inout EventLoop
    ) {
        let isTaken = loop.append(bytes, to: connection, .required)
        #expect(isTaken)
    }

    mutating func outgoingDrained(_ connection: ConnectionID, in loop: inout EventLoop) {
        drains += 1
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {
        deadlines.append(deadline)
        if closesAtDeadline { loop.close(connection, afterFlush: false) }
    }

    mutating func closed(
        _ connection: ConnectionID, _ cause: TransportCloseCause, in loop: inout EventLoop
    ) {
        ends.append(
            End(connection: connection, cause: cause, detail: loop.closeDetail(of: connection)))
    }

    mutating func turnEnded(in loop: inout EventLoop) {}

    mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout EventLoop
    ) {
        turnedAway.append(cause)
    }

    mutating func woken(in loop: inout EventLoop) {
        wakes += 1
    }

    mutating func stopping(in loop: inout EventLoop) {
        for connection in accepted where !goodbye.isEmpty {
            _ = goodbye.withUnsafeBytes { loop.append($0, to: connection, .required) }
        }
    }

    /// How the connection ended; nil while it lives.
    func end(of connection: ConnectionID) -> End? {
        ends.first { $0.connection == connection }
    }
}

/// What a test connection is protected by.
enum Security: CaseIterable {
    case plain
    case tls12
    case tls13
}

/// A loop with its recorder and one listener on 127.0.0.1.
struct Bench: ~Copyable {
    var loop: EventLoop
    var recorder = Recorder()
    let address: SocketAddress
    let clientContext: ClientTLSContext?

    init(
        _ security: Security = .plain, _ configuration: EventLoop.Configuration = .init()
    ) throws {
        switch security {
        case .plain: try self.init(tls: nil, configuration)
        case .tls12: try self.init(tls: serverTLS(newest: .tls12), configuration)
        case .tls13: try self.init(tls: serverTLS(), configuration)
        }
    }

    init(
        tls: ServerTLSContext?, _ configuration: EventLoop.Configuration = .init(),
        proxies: ProxyNetworks = ProxyNetworks()
    ) throws {
        var configuration = configuration
        // Where they are not what a test checks, no busy machine reaches them.
        if configuration.authenticationMilliseconds == TransportLimits.authenticationMilliseconds {
            configuration.authenticationMilliseconds = 300_000
        }
        if configuration.connectMilliseconds == TransportLimits.connectMilliseconds {
            configuration.connectMilliseconds = 300_000
        }
        let listener = try Listener(on: .loopback(port: 0), tls: tls, tag: 5, proxies: proxies)
        let clientContext = try tls.map { _ in try clientTLS() }
        var loop = try EventLoop(configuration, handle: LoopHandle())
        try loop.listen(on: listener)
        self.loop = loop
        self.clientContext = clientContext
        address = listener.address
    }

    /// Turns until `condition` holds; fails the test after a minute, which a sanitizer on a crowded
    /// machine does not need.
    mutating func turn(
        until condition: (borrowing EventLoop, Recorder) -> Bool,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let end = loop.now.advanced(byMilliseconds: 60_000)
        while !condition(loop, recorder) {
            guard loop.now < end else {
                Issue.record("nothing after a minute", sourceLocation: sourceLocation)
                return
            }
            _ = loop.turn(&recorder, waitMaximum: 100)
        }
    }

    /// Connects and turns until both ends are open.
    mutating func connect() throws -> (client: ConnectionID, server: ConnectionID) {
        let expected = recorder.accepted.count + 1
        let client = try loop.connect(to: address, tls: clientContext, serverName: "localhost")
        turn { _, recorder in
            recorder.accepted.count >= expected && recorder.connected.contains(client)
        }
        let server = try #require(recorder.accepted.last)
        return (client, server)
    }

    mutating func send(_ bytes: [UInt8], to connection: ConnectionID) {
        let isTaken = bytes.withUnsafeBytes { loop.append($0, to: connection, .required) }
        #expect(isTaken)
    }
}

/// Bytes that differ from place to place, so that a lost or doubled one shows.
func pattern(_ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
}

/// The usual contexts over ``TestCertificates``.
func serverTLS(
    newest: TLSVersion = .tls13, clients: ServerTLSContext.ClientCertificates = .notRequested
) throws -> ServerTLSContext {
    let files = TestCertificates.shared
    var options = ServerTLSContext.Options(
        certificateChainFile: files.server, keyFile: files.serverKey)
    options.newestVersion = newest
    options.clientCertificates = clients
    return try ServerTLSContext(options)
}

func clientTLS() throws -> ClientTLSContext {
    try ClientTLSContext(trust: .authorityFile(TestCertificates.shared.authority))
}
