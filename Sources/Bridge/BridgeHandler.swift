// Connects a bridge with its event loop: two connections, the value that decides, and the record,
// which is synced before the bytes of a turn are sent.

import BrokerTerms
import CommandLineOptions
import MartletClient
import NetTransport
import Primitives
import Synchronization
import Threads

/// Controls a running bridge from other threads.
public final class BridgeControl: Sendable {
    let handle: LoopHandle
    private let isDrainWanted = Atomic(false)
    private let resolved = Locked<[Resolution]>([])
    private let requests = Locked<[Request]>([])

    /// What the bridge is asked while it runs.
    enum Request: Sendable {
        case reload(BridgeSettings)
        /// The file has a fault.
        case reloadFault(String)
        case totals
    }

    /// A result of the system's resolver.
    struct Resolution: Sendable {
        var side: BridgeHandler.Side
        var server: ServerAddress
        var result: NameLookupResult
    }

    public init() throws(TransportError) { handle = try LoopHandle() }

    /// The bridge accepts no new messages, completes open exchanges, and stops.
    public func drain() {
        isDrainWanted.store(true, ordering: .releasing)
        handle.wake()
    }

    /// The bridge has the rules of other settings from now on.
    public func reload(_ settings: BridgeSettings) { put(.reload(settings)) }

    /// The bridge logs that it keeps its rules, and why.
    public func keepRules(because fault: String) { put(.reloadFault(fault)) }

    /// The bridge logs its counters.
    public func logTotals() { put(.totals) }

    private func put(_ request: Request) {
        requests.withLock { requests in
            guard requests.count < BridgeLimits.requestsMaximum else { return }
            requests.append(request)
        }
        handle.wake()
    }

    func takeRequests() -> [Request] {
        requests.withLock { requests in
            defer { requests = [] }
            return requests
        }
    }

    var wantsDrain: Bool { isDrainWanted.load(ordering: .acquiring) }

    func resolve(_ server: ServerAddress, for side: BridgeHandler.Side) {
        NameLookup.begin(server) { result in
            let resolution = Resolution(side: side, server: server, result: result)
            self.resolved.withLock { $0.append(resolution) }
            self.handle.wake()
        }
    }

    func takeResolved() -> [Resolution] {
        resolved.withLock { resolved in
            defer { resolved = [] }
            return resolved
        }
    }
}

struct BridgeHandler: LoopHandler, ~Copyable {
    enum Side: Sendable { case foreign, martlet }

    private let settings: BridgeSettings
    private let control: BridgeControl
    private var bridge: MessageBridge
    private var file: RecordFile
    private var foreign: ConnectionID?
    private var martlet: ConnectionID?
    private var isForeignOpen = false
    private var isMartletOpen = false
    /// The broker has sent something on the open connection.
    private var isForeignAnswered = false
    private var isMartletAnswered = false
    private var isForeignPaused = false
    /// Attempts of each side: the addresses of a name are tried in turn.
    private var foreignAttempts = 0
    private var martletAttempts: [ServerAddress: Int] = [:]
    private var isStarted = false
    /// Set when the bridge cannot continue.
    private(set) var failure: BridgeProcess.Failure?

    init(
        _ settings: BridgeSettings, file: consuming RecordFile, control: BridgeControl
    ) {
        self.settings = settings
        self.control = control
        bridge = MessageBridge(
            settings, stored: file.stored, jitterSeed: .random(in: 0...(.max)),
            freshEpoch: .random(in: 1...(.max)))
        self.file = file
    }

    // MARK: - Calls of the loop

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        if connection == foreign {
            isForeignOpen = true
            isForeignAnswered = false
            isForeignPaused = false
            bridge.foreign.opened(now: loop.now)
        } else if connection == martlet {
            isMartletOpen = true
            isMartletAnswered = false
            bridge.martlet?.machine.opened(now: loop.now)
        }
    }

    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        let received = bytes.bytes(in: loop.arena)
        if connection == foreign {
            isForeignAnswered = true
            bridge.foreignReceived(received, now: loop.now)
        } else if connection == martlet {
            isMartletAnswered = true
            bridge.martletReceived(received, now: loop.now)
        }
        return Consumption(consumed: received.count)
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {
        preconditionFailure("a bridge sets no deadlines: \(deadline) of \(connection)")
    }

    mutating func closed(
        _ connection: ConnectionID, _ cause: TransportCloseCause, in loop: inout EventLoop
    ) {
        let detail = loop.closeDetail(of: connection)
        let isForeign = connection == foreign
        let server = isForeign ? settings.foreign.server : bridge.martletServer
        let text = cause.explanation(
            detail: detail, over: server.transport,
            isOpened: isForeign ? isForeignOpen : isMartletOpen,
            isAnswered: isForeign ? isForeignAnswered : isMartletAnswered)
        if isForeign {
            foreign = nil
            isForeignOpen = false
            bridge.foreign.closed(text, now: loop.now)
        } else if connection == martlet {
            martlet = nil
            isMartletOpen = false
            bridge.martletClosed(text, now: loop.now)
        }
    }

    // The bridge has no listeners, and writes without waiting for room.
    mutating func outgoingDrained(_ connection: ConnectionID, in loop: inout EventLoop) {}
    mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout EventLoop
    ) {}
    mutating func stopping(in loop: inout EventLoop) {}

    mutating func woken(in loop: inout EventLoop) {
        if control.wantsDrain { bridge.drain(now: loop.now) }
        for request in control.takeRequests() {
            switch request {
            case .reload(let settings): bridge.reload(settings)
            case .reloadFault(let fault): bridge.keepRules(because: fault)
            case .totals: bridge.logTotals()
            }
        }
        for resolution in control.takeResolved() { connect(resolution, &loop) }
    }

    mutating func turnEnded(in loop: inout EventLoop) {
        guard failure == nil else { return }
        if !isStarted {
            isStarted = true
            bridge.start(now: loop.now)
        }
        bridge.isForeignClogged =
            foreign.map { loop.outgoingByteCount(of: $0) >= BridgeLimits.backlogMaximum } ?? false
        bridge.work(now: loop.now)
        carryOut(&loop)
        guard failure == nil, save(&loop) else { return }
        sendForeign(&loop)
        sendMartlet(&loop)
        watchBacklog(&loop)
        if bridge.hasLeft { loop.handle.requestStop() }
        loop.nextWake = bridge.nextDeadline
    }

    // MARK: - Effects

    private mutating func carryOut(_ loop: inout EventLoop) {
        for effect in bridge.takeEffects() {
            switch effect {
            case .dialForeign: control.resolve(settings.foreign.server, for: .foreign)
            case .dialMartlet: control.resolve(bridge.martletServer, for: .martlet)
            case .hangUpForeign:
                if let foreign { loop.close(foreign, afterFlush: false) }
                foreign = nil
                isForeignOpen = false
            case .hangUpMartlet:
                if let martlet { loop.close(martlet, afterFlush: false) }
                martlet = nil
                isMartletOpen = false
            case .log(let line): StandardStream.error.print("\(LogTime.prefix())\(line)")
            case .fail(let text): stop(.refused(text), &loop)
            }
        }
    }

    private mutating func stop(_ failure: BridgeProcess.Failure, _ loop: inout EventLoop) {
        self.failure = failure
        loop.handle.requestStop()
    }

    /// True if everything that this turn's bytes depend on is on disk.
    private mutating func save(_ loop: inout EventLoop) -> Bool {
        guard let record = bridge.takeRecord() else { return true }
        do throws(RecordFailure) {
            try file.save(record)
            return true
        } catch {
            // The state of the disk is unknown: the next start reads the file.
            stop(.record(error), &loop)
            return false
        }
    }

    private mutating func connect(
        _ resolution: BridgeControl.Resolution, _ loop: inout EventLoop
    ) {
        let isForeign = resolution.side == .foreign
        let (server, tls) =
            isForeign
            ? (settings.foreign.server, settings.foreign.tls)
            : (bridge.martletServer, settings.martlet.tls)
        // A result for an attempt that was given up meanwhile.
        guard (isForeign ? foreign : martlet) == nil, resolution.server == server else { return }
        do throws(TransportError) {
            let addresses = try resolution.result.get()
            let attempt = isForeign ? foreignAttempts : martletAttempts[server, default: 0]
            let connection = try loop.connect(
                to: addresses[attempt % addresses.count], tls: tls, serverName: server.host)
            if isForeign {
                foreignAttempts += 1
                foreign = connection
            } else {
                martletAttempts[server, default: 0] += 1
                martlet = connection
            }
        } catch {
            if isForeign {
                bridge.foreign.closed("\(error)", now: loop.now)
            } else {
                bridge.martletClosed("\(error)", now: loop.now)
            }
        }
    }

    // MARK: - Bytes

    private mutating func sendForeign(_ loop: inout EventLoop) {
        guard let foreign, isForeignOpen else { return }
        let bytes = bridge.foreign.takeOutgoing()
        guard !bytes.isEmpty else { return }
        // If it is not accepted, the connection is closing, and `closed` follows.
        _ = bytes.withUnsafeBytes { loop.append($0, to: foreign, .required) }
    }

    private mutating func sendMartlet(_ loop: inout EventLoop) {
        guard let martlet, isMartletOpen, let link = bridge.martlet else { return }
        while loop.outgoingByteCount(of: martlet) < BridgeLimits.backlogMaximum {
            let bytes = link.nextBytes(now: loop.now)
            guard !bytes.isEmpty, loop.append(bytes, to: martlet, .required) else { return }
        }
    }

    /// A broker that exceeds the window is not read while too many bytes wait.
    private mutating func watchBacklog(_ loop: inout EventLoop) {
        guard let foreign, isForeignOpen, bridge.wantsPause != isForeignPaused else { return }
        isForeignPaused.toggle()
        bridge.foreign.isReadingPaused = isForeignPaused
        if isForeignPaused {
            loop.pauseReading(foreign)
        } else {
            loop.resumeReading(foreign)
        }
    }
}
