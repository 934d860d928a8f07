// Requests to interfaces of other systems on their way from an event loop: those with a password to
// the thread that hashes it, and then all to the administration thread. Their answers go back with
// those of the API.

import BrokerTerms
import NetTransport
import Primitives
import SourceInterfaces
import Threads

/// A request to an interface from a client who may make it.
struct SourceCall: Sendable {
    let connection: ConnectionID
    /// Its place among the requests of the connection that wait for answers.
    var number: UInt32 = 0
    let loop: UInt8
    var request: SourceRequest
    /// As it was when the head of the request arrived; nil for a request that needs none.
    let credential: APICredential?
    let address: SocketAddress
    /// When the head of the request arrived.
    let began: Instant
    /// Of the password; nil until it is hashed, and for other requests.
    var check: PasswordCheck?

    /// Who has the share of the limits that it uses.
    var holder: RequestHolder {
        credential.map { RequestHolder($0.principal) }
            ?? .stranger(address: "\(address.counted)")
    }
}

/// The requests that wait.
final class SourceQueue: Sendable {
    private struct State {
        /// Their passwords are to be hashed, the oldest first.
        var unhashed: [SourceCall] = []
        var ready: [SourceCall] = []
        /// Logins with wrong passwords, until the time of their refusal.
        var refused: [(due: Instant, call: SourceCall)] = []
        var counts = RequestShareCounts(SourceQueue.share)
        var passwordCounts = RequestShareCounts(SourceQueue.passwordShare)
        /// Registrations whose passwords are not hashed yet.
        var registrationCount = 0
        /// The messages that answer events on sockets, by loop.
        var answers: [UInt8: [SocketAnswer]] = [:]
        /// Sockets that have closed before the answers to their events.
        var abandoned: Set<ConnectionID> = []
    }

    private let state = Locked(State())
    private let executor = Locked<LoopHandle?>(nil)
    let hashing = WakeSignal()

    /// Requests that may wait: as many as of the API, and one that waits for a commit is executed
    /// in the time of a sync.
    static let share = RequestShare(users: 64, oneUser: 8, oneKey: 8)
    /// Requests among them whose passwords wait to be hashed, which takes 0.2 s each: the last one
    /// waits for three seconds. Strangers with one address have two of them.
    static let passwordShare = RequestShare(users: 16, oneUser: 2, oneKey: 2)
    /// Registrations among these, so that logins always have room beside them.
    static let registrationsMaximum = 4

    /// - Parameter thread: executes the requests.
    func setExecutor(_ thread: LoopHandle) { executor.withLock { $0 = thread } }

    /// Adds a request. Returns false if too many wait, of all or of its holder.
    func add(_ call: SourceCall) -> Bool {
        let needsPassword = call.request.route.needsPassword
        let isTaken = state.withLock { state in
            guard state.counts.admits(1, for: call.holder),
                !needsPassword || state.passwordCounts.admits(1, for: call.holder),
                call.request.route != .register
                    || state.registrationCount < Self.registrationsMaximum
            else { return false }
            state.counts.add(1, for: call.holder)
            if needsPassword {
                state.passwordCounts.add(1, for: call.holder)
                if call.request.route == .register { state.registrationCount += 1 }
                state.unhashed.append(call)
            } else {
                state.ready.append(call)
            }
            return true
        }
        guard isTaken else { return false }
        if needsPassword { hashing.notify() } else { wakeExecutor() }
        return true
    }

    /// Hashes no more passwords: their clients get no answers, as the broker stops.
    func stopHashing() {
        state.withLock { $0.unhashed = [] }
        hashing.stop()
    }

    /// The next request whose password is to be hashed.
    func takeUnhashed() -> SourceCall? {
        state.withLock { $0.unhashed.isEmpty ? nil : $0.unhashed.removeFirst() }
    }

    /// Lets a request go on whose password is hashed, or at the time of its refusal.
    func addHashed(_ call: SourceCall, at now: Instant) {
        state.withLock { state in
            state.passwordCounts.add(-1, for: call.holder)
            if call.request.route == .register { state.registrationCount -= 1 }
            if call.check?.isWrong == true {
                let due = RefusalTime.due(began: call.began, verified: now)
                state.refused.append((due, call))
            } else {
                state.ready.append(call)
            }
        }
        wakeExecutor()
    }

    /// Takes a request whose file is kept before it goes on (``addPrepared(_:)``). Returns false if
    /// too many wait.
    func reserve(_ call: SourceCall) -> Bool {
        state.withLock { state in
            guard state.counts.admits(1, for: call.holder) else { return false }
            state.counts.add(1, for: call.holder)
            return true
        }
    }

    /// Lets a request go on whose file is kept.
    func addPrepared(_ call: SourceCall) {
        state.withLock { $0.ready.append(call) }
        wakeExecutor()
    }

    /// When the next refusal is due; nil if none is.
    var nextRefusal: Instant? { state.withLock { $0.refused.lazy.map(\.due).min() } }

    /// Takes the requests of one turn, the oldest first.
    func takeReady(at now: Instant) -> [SourceCall] {
        let (taken, hasMore) = state.withLock { state in
            state.ready += state.refused.lazy.filter { $0.due <= now }.map(\.call)
            state.refused.removeAll { $0.due <= now }
            let taken = Array(state.ready.prefix(SourceLimits.requestsPerTurnMaximum))
            state.ready.removeFirst(taken.count)
            return (taken, !state.ready.isEmpty)
        }
        if hasMore { wakeExecutor() }
        return taken
    }

    /// Notes that a request is answered.
    func finish(_ call: SourceCall) {
        state.withLock { $0.counts.add(-1, for: call.holder) }
    }

    typealias SocketAnswer = (connection: ConnectionID, text: [UInt8])

    /// Gives the message that answers an event to the loop of the socket.
    func deliver(_ text: [UInt8], to connection: ConnectionID, on loop: UInt8) {
        state.withLock { state in
            guard state.abandoned.remove(connection) == nil else { return }
            state.answers[loop, default: []].append((connection, text))
        }
    }

    /// Keeps no answer for a socket that has closed while an event had none. The event is executed
    /// nevertheless.
    func abandonEvent(of connection: ConnectionID, on loop: UInt8) {
        state.withLock { state in
            var isAnswered = false
            state.answers[loop]?.removeAll { answer in
                guard answer.connection == connection else { return false }
                isAnswered = true
                return true
            }
            if !isAnswered { state.abandoned.insert(connection) }
        }
    }

    /// Sockets whose events have no answers yet, and those among their answers that no loop has
    /// taken.
    var keptCounts: (abandoned: Int, answers: Int) {
        state.withLock { state in
            (state.abandoned.count, state.answers.values.reduce(0) { $0 + $1.count })
        }
    }

    /// Takes the messages for the sockets of a loop.
    func takeAnswers(for loop: UInt8) -> [SocketAnswer] {
        state.withLock { $0.answers.removeValue(forKey: loop) ?? [] }
    }

    private func wakeExecutor() { executor.withLock { $0 }?.wake() }
}
