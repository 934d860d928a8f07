// The traces of all event loops: who started them, and what they have recorded. Event loops add
// packets, the administration thread reads them. A loop without a trace never takes the lock.

import Administration
import BrokerCore
import Primitives
import Synchronization
import Threads

/// What an event loop records for a trace.
struct TraceTarget: Hashable, Sendable {
    let trace: UInt64
    let app: [UInt8]
    let user: [UInt8]
    /// Nil for every device.
    let device: [UInt8]?
    let showsPayloads: Bool

    func matches(_ owner: ConnectionOwner) -> Bool {
        owner.app == app && owner.user == user && (device == nil || owner.device == device)
    }
}

/// The traces that run, and those that have ended and can be read.
package final class TraceRegistry: Sendable {
    /// Why a trace ended.
    enum End: String, Sendable {
        case time, silence, stopped
    }

    private struct Trace {
        let target: TraceTarget
        let startedBy: String
        let startedUnixMilliseconds: UInt64
        let ends: Instant
        /// When its reader asked last, or when it started.
        var lastRead: Instant
        var end: End?
        /// The oldest first.
        var packets = PacketRing()
        /// Packets and events that passed.
        var passedCount: UInt64 = 0
        var missedConnectionCount: UInt64 = 0

        /// When the registry must act on it.
        var deadline: Instant {
            let silence = lastRead.advanced(bySeconds: TraceLimits.silenceSecondsMaximum)
            return end == nil ? min(ends, silence) : silence
        }
    }

    private struct State {
        /// In the order of their start.
        var traces: [Trace] = []
        var lastID: UInt64 = 0
    }

    private let state = Locked(State())
    /// Changes whenever the targets change.
    private let changes = Atomic<UInt64>(0)

    package init() {}

    // MARK: - The administration thread

    /// Starts a trace and returns its id; nil if there are too many.
    func start(
        app: String, user: String, device: String?, showsPayloads: Bool, seconds: UInt64,
        by name: String, at moment: Moment
    ) -> UInt64? {
        let trace: UInt64? = state.withLock { state in
            if state.traces.count >= TraceLimits.countMaximum {
                guard let ended = state.traces.firstIndex(where: { $0.end != nil }) else {
                    return nil
                }
                state.traces.remove(at: ended)
            }
            state.lastID += 1
            state.traces.append(
                Trace(
                    target: TraceTarget(
                        trace: state.lastID, app: Array(app.utf8), user: Array(user.utf8),
                        device: device.map { Array($0.utf8) }, showsPayloads: showsPayloads),
                    startedBy: name, startedUnixMilliseconds: moment.unixMilliseconds,
                    ends: moment.instant.advanced(bySeconds: seconds), lastRead: moment.instant))
            return state.lastID
        }
        changes.add(1, ordering: .releasing)
        return trace
    }

    func list(at now: Instant) -> [ListTraces.Trace] {
        state.withLock { state in
            state.traces.map { trace in
                let isRunning = trace.end == nil && trace.ends > now
                let milliseconds = isRunning ? trace.ends.milliseconds(since: now) : 0
                return ListTraces.Trace(
                    trace: "\(trace.target.trace)",
                    app: String(decoding: trace.target.app, as: UTF8.self),
                    user: String(decoding: trace.target.user, as: UTF8.self),
                    device: trace.target.device.map { String(decoding: $0, as: UTF8.self) },
                    showsPayloads: trace.target.showsPayloads, startedBy: trace.startedBy,
                    startedUnixMilliseconds: trace.startedUnixMilliseconds,
                    secondsLeft: (milliseconds + 999) / 1_000, packetCount: trace.passedCount)
            }
        }
    }

    /// Reads the packets after a number; nil if there is no such trace.
    func read(_ trace: UInt64, after number: UInt64, at now: Instant) -> ReadTrace.Reply? {
        state.withLock { state in
            guard let index = state.traces.firstIndex(where: { $0.target.trace == trace }) else {
                return nil
            }
            state.traces[index].lastRead = now
            let known = state.traces[index]
            let after = min(number, known.passedCount)
            let (packets, isAll) = known.packets.page(after: after)
            let next = isAll ? known.passedCount : packets.last?.number ?? after
            return ReadTrace.Reply(
                packets: packets, next: next,
                missedCount: next - after - UInt64(packets.count),
                missedConnectionCount: known.missedConnectionCount,
                end: isAll ? known.end?.rawValue : nil)
        }
    }

    /// Ends a trace and forgets it. False if there is none.
    func stop(_ trace: UInt64) -> Bool {
        let isKnown = state.withLock { state in
            let count = state.traces.count
            state.traces.removeAll { $0.target.trace == trace }
            return state.traces.count < count
        }
        if isKnown { changes.add(1, ordering: .releasing) }
        return isKnown
    }

    /// Ends the traces whose time is over, and forgets those that nobody reads.
    ///
    /// - Returns: whether a trace ended, so that the loops are to be woken, and when to call it
    ///   again; nil for never.
    func endDue(at now: Instant) -> (hasEnded: Bool, next: Instant?) {
        let (hasEnded, next) = state.withLock { state in
            var hasEnded = false
            for index in state.traces.indices
            where state.traces[index].end == nil && state.traces[index].deadline <= now {
                state.traces[index].end = state.traces[index].ends <= now ? .time : .silence
                hasEnded = true
            }
            state.traces.removeAll { $0.end != nil && $0.deadline <= now }
            return (hasEnded, state.traces.map(\.deadline).min())
        }
        if hasEnded { changes.add(1, ordering: .releasing) }
        return (hasEnded, next)
    }

    // MARK: - Event loops

    /// A number that changes with the targets.
    var version: UInt64 { changes.load(ordering: .acquiring) }

    var targets: [TraceTarget] {
        state.withLock { $0.traces.filter { $0.end == nil }.map(\.target) }
    }

    /// Adds a packet or an event to a trace.
    func append(_ packet: TracedPacket, to trace: UInt64) {
        state.withLock { state in
            guard let index = state.traces.firstIndex(where: { $0.target.trace == trace }),
                state.traces[index].end == nil
            else { return }
            state.traces[index].passedCount += 1
            var packet = packet
            packet.number = state.traces[index].passedCount
            state.traces[index].packets.append(packet)
        }
    }

    /// Counts a packet that is not decoded.
    func countMissed(in trace: UInt64) {
        state.withLock { state in
            guard let index = state.traces.firstIndex(where: { $0.target.trace == trace }),
                state.traces[index].end == nil
            else { return }
            state.traces[index].passedCount += 1
        }
    }

    /// Counts a connection that is not followed.
    func countMissedConnection(in trace: UInt64) {
        state.withLock { state in
            guard let index = state.traces.firstIndex(where: { $0.target.trace == trace }) else {
                return
            }
            state.traces[index].missedConnectionCount += 1
        }
    }
}

/// The packets that a trace keeps. The oldest give way to new ones.
struct PacketRing: Sendable {
    private var packets: ContiguousArray<TracedPacket> = []
    /// Where the oldest packet is.
    private var first = 0
    private(set) var count = 0
    private(set) var byteCount = 0

    /// The packet at a position, counted from the oldest.
    private func packet(_ position: Int) -> TracedPacket {
        packets[(first + position) % TraceLimits.packetCountMaximum]
    }

    /// Adds a packet and returns how many older ones it removed.
    @discardableResult
    mutating func append(_ packet: TracedPacket) -> UInt64 {
        let size = packet.keptByteCount
        var removed: UInt64 = 0
        while count == TraceLimits.packetCountMaximum
            || count > 0 && byteCount + size > TraceLimits.byteCountMaximum
        {
            byteCount -= self.packet(0).keptByteCount
            // Releases the texts.
            packets[first] = TracedPacket(.event, "")
            first = (first + 1) % TraceLimits.packetCountMaximum
            count -= 1
            removed += 1
        }
        let place = (first + count) % TraceLimits.packetCountMaximum
        if place < packets.count { packets[place] = packet } else { packets.append(packet) }
        count += 1
        byteCount += size
        return removed
    }

    /// A page of the packets after a number, and whether there are no more.
    func page(after number: UInt64) -> (packets: [TracedPacket], isAll: Bool) {
        // The numbers ascend, so the first packet after `number` is found by halves.
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if packet(middle).number > number { high = middle } else { low = middle + 1 }
        }
        var page: [TracedPacket] = []
        var pageByteCount = 0
        for position in low..<count {
            let packet = self.packet(position)
            pageByteCount += packet.keptByteCount
            guard page.count < TraceLimits.packetsPerAnswer,
                page.isEmpty || pageByteCount <= TraceLimits.bytesPerAnswer
            else { return (page, false) }
            page.append(packet)
        }
        return (page, true)
    }
}

extension TracedPacket {
    /// What it counts in a trace.
    var keptByteCount: Int {
        let texts = [
            connection, packet, address, user, device, dialect, topic, receiver, payload, hex,
            reason, detail,
        ]
        let lists = (filters ?? []) + (codes ?? [])
        return TraceLimits.packetOverheadByteCount
            + texts.reduce(0) { $0 + ($1?.utf8.count ?? 0) }
            + lists.reduce(0) { $0 + MemoryLayout<String>.stride + $1.utf8.count }
    }
}
