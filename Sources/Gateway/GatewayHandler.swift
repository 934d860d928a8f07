// Connects a gateway's machine with its event loop: connections and their ids.

import BrokerTerms
import CommandLineOptions
import MartletClient
import NetTransport
import Primitives

/// Connects a gateway's machine with a loop.
struct GatewayHandler: LoopHandler, ~Copyable {
    private let settings: GatewaySettings
    private let control: GatewayControl
    private var machine: GatewayMachine
    private let lookups = PendingLookups()
    private var uplink: ConnectionID?
    /// The connection to the broker is open, and the broker has sent something on it.
    private var isUplinkOpen = false
    private var isUplinkAnswered = false
    /// The broker's name is being resolved, to connect to it then.
    private var isDialing = false
    /// The loop's ids of lines, by line; nil while a line is not open and not being opened.
    private var connections: [ConnectionID?]
    private var lineOf: [ConnectionID: Int] = [:]
    /// Lines whose address is being resolved.
    private var sought: Set<Int> = []
    /// Set when the gateway cannot continue.
    private(set) var failure: String?
    private var isStarted = false
    private var isStopping = false

    init(_ settings: GatewaySettings, _ control: GatewayControl) {
        self.settings = settings
        self.control = control
        connections = Array(repeating: nil, count: settings.lines.count)
        machine = GatewayMachine(
            settings, jitterSeed: .random(in: 0...(.max)), outboxEpoch: .random(in: 1...(.max)))
    }

    // MARK: - Calls of the loop

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        if connection == uplink {
            isUplinkOpen = true
            isUplinkAnswered = false
            machine.uplinkOpened(now: loop.now)
        } else if let index = lineOf[connection] {
            machine.lineOpened(index, now: loop.now)
        }
    }

    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        let received = bytes.bytes(in: loop.arena)
        if connection == uplink {
            isUplinkAnswered = true
            machine.uplinkReceived(received, now: loop.now)
        } else if let index = lineOf[connection] {
            machine.lineReceived(received, index, now: loop.now)
        }
        return Consumption(consumed: received.count)
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {
        preconditionFailure("a gateway sets no deadlines: \(deadline) of \(connection)")
    }

    mutating func closed(
        _ connection: ConnectionID, _ cause: TransportCloseCause, in loop: inout EventLoop
    ) {
        if connection == uplink {
            uplink = nil
            let detail = cause.explanation(
                detail: loop.closeDetail(of: connection), over: machine.server.transport,
                isOpened: isUplinkOpen, isAnswered: isUplinkAnswered)
            isUplinkOpen = false
            machine.uplinkClosed(detail, now: loop.now)
        } else if let index = lineOf.removeValue(forKey: connection) {
            connections[index] = nil
            machine.lineClosed(index, loop.closeDetail(of: connection), now: loop.now)
        }
    }

    // The gateway has no listeners, and writes without waiting for room.
    mutating func outgoingDrained(_ connection: ConnectionID, in loop: inout EventLoop) {}
    mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout EventLoop
    ) {}

    mutating func woken(in loop: inout EventLoop) {
        for request in control.takeRequests() where !isStopping { carryOut(request, loop.now) }
        for (server, result) in lookups.takeDone() where !isStopping {
            if server == machine.server, isDialing { connect(result, &loop) }
            for index in sought.sorted()
            where machine.lines[index].settings.endpoint == .tcp(server) {
                sought.remove(index)
                open(index, in: &loop) { loop throws(TransportError) in
                    try loop.connect(to: try result.get()[0])
                }
            }
        }
    }

    mutating func turnEnded(in loop: inout EventLoop) {
        if !isStarted {
            isStarted = true
            machine.start(now: loop.now)
        }
        machine.work(uplinkByteCount: uplinkByteCount(loop), now: loop.now)
        carryOut(&loop)
        let isSpeaking = send(&loop)
        let isBusy = isSpeaking || machine.hasWork(uplinkByteCount: uplinkByteCount(loop))
        loop.nextWake = isBusy ? loop.now : machine.nextDeadline
    }

    mutating func stopping(in loop: inout EventLoop) {
        isStopping = true
        machine.stop(now: loop.now)
        carryOut(&loop)
        _ = send(&loop)
    }

    private mutating func carryOut(_ request: GatewayControl.Request, _ now: Instant) {
        switch request {
        case .lines(let lines):
            machine.setLines(lines, now: now)
            while connections.count < machine.lines.count { connections.append(nil) }
        case .linesFault(let fault): machine.keepLines(because: fault)
        case .totals: machine.logTotals()
        }
    }

    // MARK: - Effects

    private mutating func carryOut(_ loop: inout EventLoop) {
        for effect in machine.takeEffects() {
            switch effect {
            case .dial:
                isDialing = true
                lookups.begin(machine.server, waking: loop.handle)
            case .hangUp:
                if let uplink { loop.close(uplink, afterFlush: false) }
                uplink = nil
                isUplinkOpen = false
                isDialing = false
            case .open(let index): open(index, in: &loop)
            case .close(let index, let last): close(index, after: last, in: &loop)
            case .pause(let index):
                if let connection = connections[index] { loop.pauseReading(connection) }
            case .resume(let index):
                if let connection = connections[index] { loop.resumeReading(connection) }
            case .log(let text): StandardStream.error.print("\(LogTime.prefix())\(text)")
            case .fail(let reason):
                failure = reason
                loop.handle.requestStop()
            }
        }
    }

    private mutating func connect(_ result: NameLookupResult, _ loop: inout EventLoop) {
        isDialing = false
        do throws(TransportError) {
            uplink = try loop.connect(
                to: try result.get()[0], tls: settings.tls, serverName: machine.server.host)
        } catch {
            machine.uplinkClosed("\(error)", now: loop.now)
        }
    }

    private mutating func open(_ index: Int, in loop: inout EventLoop) {
        switch machine.lines[index].settings.endpoint {
        case .tcp(let server):
            sought.insert(index)
            lookups.begin(server, waking: loop.handle)
        case .terminal(let path, let baud):
            open(index, in: &loop) { loop throws(TransportError) in
                try loop.adopt(socket: try Terminal.open(path, baud: baud))
            }
        }
    }

    /// The machine needs no event about the end.
    private mutating func close(_ index: Int, after last: [UInt8], in loop: inout EventLoop) {
        sought.remove(index)
        guard let connection = connections[index] else { return }
        connections[index] = nil
        lineOf[connection] = nil
        if !last.isEmpty {
            _ = last.withUnsafeBytes { loop.append($0, to: connection, .required) }
        }
        loop.close(connection, afterFlush: true)
    }

    private mutating func open(
        _ index: Int, in loop: inout EventLoop,
        _ body: (inout EventLoop) throws(TransportError) -> ConnectionID
    ) {
        do throws(TransportError) {
            let connection = try body(&loop)
            connections[index] = connection
            lineOf[connection] = index
        } catch {
            machine.lineClosed(index, "\(error)", now: loop.now)
        }
    }

    // MARK: - Bytes

    private func uplinkByteCount(_ loop: borrowing EventLoop) -> Int {
        uplink.map { loop.outgoingByteCount(of: $0) } ?? 0
    }

    /// Passes bytes to the connections. True if more of them could be passed at once.
    private mutating func send(_ loop: inout EventLoop) -> Bool {
        let bytes = machine.takeOutgoing()
        if !bytes.isEmpty, let uplink {
            // If the bytes are not accepted, the connection is closing, and `closed` follows.
            _ = bytes.withUnsafeBytes { loop.append($0, to: uplink, .required) }
        }
        var isUnfinished = false
        for index in machine.takeSpeaking() {
            guard let connection = connections[index] else { continue }
            let waiting = loop.outgoingByteCount(of: connection)
            let room = GatewayLimits.lineChunkMaximum - waiting
            guard room > 0 else {
                // It continues when the kernel's buffer has space.
                machine.speaks(index)
                continue
            }
            let bytes = machine.takeOutgoing(of: index, atMost: room)
            _ = bytes.withUnsafeBytes { loop.append($0, to: connection, .required) }
            isUnfinished = isUnfinished || machine.lines[index].isSpeaking
        }
        return isUnfinished
    }
}
