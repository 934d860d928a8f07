// The replicated log on a stream of JetStream. Two threads carry requests out, because calls of the
// library wait for answers: one appends and reads, the other follows and trims. Outcomes wait in a
// queue for the node, which is woken.

import CNATS
import Replication
import Threads

/// A log on a stream.
public final class JetStreamLog: ReplicatedLog, Sendable {
    /// A request that waits for the thread that appends.
    private enum Request {
        case append([UInt8], LogSequence, LogRequest)
        case read(LogSequence, LogRequest)
    }

    private struct State {
        var requests: [Request] = []
        var events = EventQueue()
        /// Where the follower begins, for a thread that has not seen it yet.
        var followed: (start: LogSequence, number: UInt64)?
        var followNumber: UInt64 = 0
        var trimmed: LogSequence?
        /// Appends in a row that had no responder.
        var unansweredCount: UInt64 = 0
        var isStopped = false
    }

    let settings: JetStreamSettings
    let connection: JetStreamConnection
    /// The stream that was checked at the start. Another one of its name is another log.
    let created: String
    private let state = Locked(State())
    private let requestSignal = WakeSignal()
    private let followSignal = WakeSignal()
    private let wake: @Sendable () -> Void
    private let threads = Locked<[Thread]>([])
    let announcements = Announcements()
    let questions = Questions()

    init(
        _ settings: JetStreamSettings, connection: JetStreamConnection, created: String,
        wake: @escaping @Sendable () -> Void
    ) {
        self.settings = settings
        self.connection = connection
        self.created = created
        self.wake = wake
    }

    /// Starts the threads. Must be called once.
    func start() {
        threads.withLock { threads in
            precondition(threads.isEmpty, "\(threads.count) threads run")
            threads = [
                Thread(name: "log-append") { self.carryOutRequests() },
                Thread(name: "log-follow") { self.followRecords() },
            ]
        }
        announcements.begin(settings.nodesSubject, over: connection, wake: wake)
    }

    /// Ends the threads, at the latest after the time of one request. Requests that wait get no
    /// outcome.
    public func stop() {
        state.withLock { $0.isStopped = true }
        announcements.end()
        questions.end()
        requestSignal.stop()
        followSignal.stop()
        threads.withLock { threads in
            for thread in threads { thread.join() }
            threads = []
        }
    }

    // MARK: The node's calls

    public func append(
        _ record: [UInt8], expecting last: LogSequence, as request: LogRequest
    ) {
        begin(.append(record, last, request))
    }

    public func read(at sequence: LogSequence, as request: LogRequest) {
        begin(.read(sequence, request))
    }

    public func follow(from sequence: LogSequence) {
        state.withLock { state in
            state.followNumber += 1
            state.followed = (sequence, state.followNumber)
            // Those of the call before would look like the next ones.
            state.events.removeFollowed()
        }
        followSignal.notify()
    }

    public func trim(through sequence: LogSequence) {
        state.withLock { $0.trimmed = max($0.trimmed ?? .start, sequence) }
        followSignal.notify()
    }

    public func takeEvent() -> ReplicatedLogEvent? {
        let (event, hasRoom) = state.withLock { state in
            let wasFull = state.events.isFull
            let event = state.events.removeFirst()
            return (event, wasFull && !state.events.isFull)
        }
        if hasRoom { followSignal.notify() }
        return event
    }

    private func begin(_ request: Request) {
        state.withLock { state in
            precondition(
                state.requests.count < JetStreamLimits.waitingRequestMaximum,
                "\(state.requests.count) requests wait")
            state.requests.append(request)
        }
        requestSignal.notify()
    }

    // MARK: Appends and reads

    private func carryOutRequests() {
        while requestSignal.wait() {
            while let request = nextRequest() {
                let event: ReplicatedLogEvent =
                    switch request {
                    case .append(let record, let last, let request):
                        .appended(request, append(record, after: last))
                    case .read(let sequence, let request): .read(request, read(sequence))
                    }
                state.withLock { $0.events.append(event) }
                wake()
            }
        }
        nats_ReleaseThreadMemory()
    }

    private func nextRequest() -> Request? {
        state.withLock { state in
            state.isStopped || state.requests.isEmpty ? nil : state.requests.removeFirst()
        }
    }

    private func append(_ record: [UInt8], after last: LogSequence) -> AppendOutcome {
        var message: nats_message?
        // The library's own option for this sends nothing for 0.
        let status = nats_make_message(
            &message, settings.subject, record, Int32(record.count),
            "Nats-Expected-Last-Sequence", "\(last.raw)")
        guard status == NATS_OK, let message else {
            return .unknown(.failed(code: Int(status.rawValue)))
        }
        defer { natsMsg_Destroy(message) }
        let result = nats_append(
            connection.jetstream, message, settings.stream, JetStreamLimits.tryMilliseconds)
        if result.status == NATS_OK {
            state.withLock { $0.unansweredCount = 0 }
            // A server that appends elsewhere has ignored the expectation: the node reads.
            return result.sequence == last.raw + 1
                ? .committed(last.next) : .unknown(.failed(code: 0))
        }
        let outcome = JetStreamOutcome(
            status: result.status, error: Int(result.error),
            text: JetStreamConnection.text(result.status)
        ).append
        // A deleted stream has no responders, and another one of the same name another last
        // sequence.
        switch outcome {
        case .wrongLast: return isGone ? .refused(.absent) : outcome
        case .unknown(.unreachable):
            let count = state.withLock { $0.unansweredCount }
            if count % JetStreamLimits.appendsPerQuestion == 0, isGone { return .refused(.absent) }
            state.withLock { $0.unansweredCount += 1 }
            return outcome
        default: return outcome
        }
    }

    /// Whether the servers say that the stream does not exist any more.
    private var isGone: Bool { connection.isConnected && readState() == .absent }

    private func read(_ sequence: LogSequence) -> ReadOutcome {
        guard sequence > .start else { return .nothing }
        var message: nats_message?
        var error: Int32 = 0
        let status = nats_read(
            &message, connection.jetstream, settings.stream, sequence.raw,
            JetStreamLimits.tryMilliseconds, &error)
        defer { natsMsg_Destroy(message) }
        if status == NATS_OK, let message { return .record(JetStreamConnection.bytes(of: message)) }
        return JetStreamOutcome(
            status: status, error: Int(error), text: JetStreamConnection.text(status)
        ).read
    }

    // MARK: Following and trimming

    private func followRecords() {
        var follower: JetStreamFollower?
        var number: UInt64 = 0
        while true {
            let (start, trimmed, isFull, isStopped) = state.withLock { state in
                let start = state.followed
                let trimmed = state.trimmed
                state.followed = nil
                state.trimmed = nil
                return (start, trimmed, state.events.isFull, state.isStopped)
            }
            if isStopped { break }
            if let trimmed { trimRecords(through: trimmed) }
            if let start {
                number = start.number
                follower = JetStreamFollower(self, from: start.start)
            }
            guard let following = follower, !isFull else {
                if !followSignal.wait() { break }
                continue
            }
            guard let event = following.next() else { continue }
            switch event {
            case .followingEnded, .recordsMissing: follower = nil
            case .followed, .appended, .read: break
            }
            let isWanted = state.withLock { state in
                // A later call has replaced this one.
                if number == state.followNumber { state.events.append(event) }
                return number == state.followNumber
            }
            if isWanted { wake() }
        }
        follower = nil
        nats_ReleaseThreadMemory()
    }

    private func trimRecords(through sequence: LogSequence) {
        guard sequence > .start else { return }
        var error: Int32 = 0
        _ = nats_purge(
            connection.jetstream, settings.stream, sequence.raw + 1,
            JetStreamLimits.questionMilliseconds, &error)
    }
}
