// The operator's door: a Unix socket in the data directory on which `martlet` asks and is answered,
// one JSON object per line. It runs on a loop and thread of its own, so that an operator never
// waits for the fleet, nor the fleet for an operator. Now and then it publishes the statistics.

import Administration
import NetTransport
import Primitives

/// Reads requests from the socket and writes the desk's replies.
struct AdministrationDoor: LoopHandler, ~Copyable {
    private let desk: OperatorDesk
    private let systemIntervalMilliseconds: UInt64
    private var systemTopics = SystemTopics()
    private var nextSystemRound = Instant(milliseconds: 0)
    private var hasPublished = false

    /// - Parameter systemIntervalSeconds: between two rounds of `$SYS`; 0 for none.
    init(desk: OperatorDesk, systemIntervalSeconds: Int) {
        self.desk = desk
        systemIntervalMilliseconds = UInt64(systemIntervalSeconds) * 1000
    }

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        // Who may open the socket is who the file system says; there is nothing to log in to.
        loop.clearDeadline(of: connection)
        loop.setPacketMaximum(AdministrationLine.requestByteCountMaximum, for: connection)
    }

    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        var start = Int(bytes.offset)
        let end = bytes.endOffset
        let arena = loop.arena
        while let feed = arena[start..<end].firstIndex(of: UInt8(ascii: "\n")) {
            let reply = desk.answer(Array(arena[start..<feed]))
            _ = reply.withUnsafeBytes { loop.append($0, to: connection, .required) }
            start = feed + 1
        }
        return Consumption(consumed: start - Int(bytes.offset))
    }

    mutating func turnEnded(in loop: inout EventLoop) {
        guard systemIntervalMilliseconds > 0 else { return }
        if nextSystemRound <= loop.now {
            // To sum up a million sessions holds the core up for some ten milliseconds: not for
            // nobody. The first round is for who comes later.
            if !hasPublished || desk.hasSystemSubscribers {
                desk.publish(systemTopics.values(desk.statistics(), at: loop.now))
                hasPublished = true
            }
            nextSystemRound = loop.now.advanced(byMilliseconds: systemIntervalMilliseconds)
        }
        loop.nextWake = nextSystemRound
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {}

    mutating func closed(
        _ connection: ConnectionID, _ cause: NetTransport.CloseCause, in loop: inout EventLoop
    ) {}

    // What the operator asks is answered within the turn.
    mutating func outgoingDrained(_ connection: ConnectionID, in loop: inout EventLoop) {}
    mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout EventLoop
    ) {}
    mutating func woken(in loop: inout EventLoop) {}
    mutating func stopping(in loop: inout EventLoop) {}
}
