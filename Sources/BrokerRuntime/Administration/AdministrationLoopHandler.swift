// The event loop of the administration thread, whose work the clients' loops never wait for:
// * the administration socket, a Unix socket in the data directory: `martlet` sends requests on it
//   and reads replies, one JSON object per line;
// * requests of the HTTP API, which the clients' loops put into a queue;
// * requests to interfaces of other systems, from a queue of their own;
// * the text of the metrics, when one of these loops asks for it;
// * the statistics as `$SYS` topics, at intervals;
// * the ends of traces whose time is over.

import Administration
import BrokerTerms
import NetTransport
import Primitives
import Threads

/// Lets the administration service do what is asked for or due.
struct AdministrationLoopHandler: LoopHandler, ~Copyable {
    /// How often it looks for the first subscriber of `$SYS`, who waits that long for values. An
    /// interval is at least as long.
    private static let systemLookMilliseconds: UInt64 = 1_000

    private let service: AdministrationService
    /// Held while requests are executed: the hand-over of a shard waits for them.
    private let operations: Locked<Void>
    private let systemIntervalMilliseconds: UInt64
    private var systemTopics = SystemTopics()
    private var nextSystemRound = Instant(milliseconds: 0)
    private var nextSystemLook = Instant(milliseconds: 0)
    /// Whether the values are renewed at intervals.
    private var isPublishing = false

    /// - Parameter systemIntervalSeconds: the interval at which `$SYS` topics are published; 0 for
    ///   never.
    init(
        service: AdministrationService, systemIntervalSeconds: Int, operations: Locked<Void>
    ) {
        self.operations = operations
        self.service = service
        systemIntervalMilliseconds = UInt64(systemIntervalSeconds) * 1000
    }

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        // The permissions of the socket's file decide who may connect; there is no login.
        loop.clearDeadline(of: connection)
        loop.setPacketMaximum(AdministrationLine.requestByteCountMaximum, for: connection)
    }

    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        var start = Int(bytes.offset)
        let end = bytes.endOffset
        let arena = loop.arena
        var lines: [[UInt8]] = []
        while let feed = arena[start..<end].firstIndex(of: UInt8(ascii: "\n")) {
            lines.append(Array(arena[start..<feed]))
            start = feed + 1
        }
        if !lines.isEmpty {
            let replies = operations.withLock { _ in service.answer(lines) }
            _ = replies.withUnsafeBytes { loop.append($0, to: connection, .required) }
        }
        return Consumption(consumed: start - Int(bytes.offset))
    }

    mutating func turnEnded(in loop: inout EventLoop) {
        publishStatistics(in: &loop)
        answerRefusals(in: &loop)
        answerHeld(in: &loop)
        if let next = service.endTraces(at: loop.now) { loop.nextWake = min(loop.nextWake, next) }
    }

    /// Between two looks at messages on which a moderator decides: that takes a round trip to a
    /// program at least.
    private static let heldLookMilliseconds: UInt64 = 2

    /// Answers messages on which a moderator has decided, and looks again while there are others.
    private func answerHeld(in loop: inout EventLoop) {
        operations.withLock { _ in service.answerHeld() }
        guard service.requests.hasHeld else { return }
        loop.nextWake = min(
            loop.nextWake, loop.now.advanced(byMilliseconds: Self.heldLookMilliseconds))
    }

    /// Refuses logins through interfaces at their times.
    private func answerRefusals(in loop: inout EventLoop) {
        guard let due = service.interfaces.queue.nextRefusal else { return }
        guard due <= loop.now else {
            loop.nextWake = min(loop.nextWake, due)
            return
        }
        let now = loop.now
        operations.withLock { _ in service.answerInterfaces(at: now) }
        loop.nextWake = min(loop.nextWake, service.interfaces.queue.nextRefusal ?? .never)
    }

    private mutating func publishStatistics(in loop: inout EventLoop) {
        guard systemIntervalMilliseconds > 0 else {
            loop.nextWake = .never
            return
        }
        if nextSystemLook <= loop.now {
            // Counting a million sessions blocks the core for about ten milliseconds, so values are
            // published only for subscribers: as soon as the first one is seen, then at intervals.
            let isWanted = service.hasSystemSubscribers
            if isWanted, !isPublishing || nextSystemRound <= loop.now {
                service.publish(&systemTopics, at: loop.now)
                nextSystemRound = loop.now.advanced(byMilliseconds: systemIntervalMilliseconds)
                isPublishing = true
            } else if !isWanted, isPublishing, nextSystemRound <= loop.now {
                service.retireSystemTopics()
                isPublishing = false
            }
            nextSystemLook = loop.now.advanced(byMilliseconds: Self.systemLookMilliseconds)
        }
        loop.nextWake = nextSystemLook
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {}

    mutating func closed(
        _ connection: ConnectionID, _ cause: TransportCloseCause, in loop: inout EventLoop
    ) {}

    // Every request is answered within its turn, so these events need no action.
    mutating func outgoingDrained(_ connection: ConnectionID, in loop: inout EventLoop) {}
    mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout EventLoop
    ) {}
    mutating func woken(in loop: inout EventLoop) {
        let now = loop.now
        operations.withLock { _ in
            service.writeMetrics(at: now)
            service.answerRequests()
            service.answerInterfaces(at: now)
        }
    }
    mutating func stopping(in loop: inout EventLoop) {}
}
