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
            ?? client
    }

    /// The address that it comes from, as that of a stranger: the share of all users there.
    var client: RequestHolder { .stranger(address: "\(address.counted)") }
}

/// The requests that wait.
final class SourceQueue: Sendable {
    private struct State {
        /// Their passwords are to be hashed.
        var unhashed = CallTurns()
        var ready = CallTurns()
        /// Logins with wrong passwords, until the time of their refusal.
        var refused: [(due: Instant, call: SourceCall)] = []
        var counts = RequestShareCounts(SourceQueue.share)
        var clientCounts = RequestShareCounts(SourceQueue.clientShare)
        var passwordCounts = RequestShareCounts(SourceQueue.passwordShare)
        /// Registrations whose passwords are not hashed yet.
        var registrationCount = 0
        /// The messages that answer events on sockets, by loop.
        var answers: [UInt8: [SocketAnswer]] = [:]
        /// Sockets that have closed before the answers to their events.
        var abandoned: Set<ConnectionID> = []

        /// Whether another request may wait. The second half of the places is for holders that
        /// have no request yet, so that a few users with many requests keep nobody out.
        func admits(_ call: SourceCall) -> Bool {
            counts.admits(1, for: call.holder) && clientCounts.admits(1, for: call.client)
                && (counts.total < SourceQueue.share.users / 2
                    || counts.amount(of: call.holder) == 0)
        }

        mutating func count(_ amount: Int, for call: SourceCall) {
            counts.add(amount, for: call.holder)
            clientCounts.add(amount, for: call.client)
        }
    }

    private let state = Locked(State())
    private let executor = Locked<LoopHandle?>(nil)
    let hashing = WakeSignal()

    /// Requests that may wait: as many as of the API, and one that waits for a commit is executed
    /// in the time of a sync.
    static let share = RequestShare(users: 64, oneUser: 8, oneKey: 8)
    /// Requests among them from one address, whoever makes them: a quarter stays for others. A
    /// proxy may name no addresses of its clients.
    static let clientShare = RequestShare(users: 64, oneUser: 48, oneKey: 48)
    /// Requests among them whose passwords wait to be hashed, which takes 0.2 s each. An address
    /// has two of them, and waits for one of each other address at most.
    static let passwordShare = RequestShare(users: 48, oneUser: 2, oneKey: 2)
    /// Registrations among these, so that logins always have room beside them.
    static let registrationsMaximum = 4

    /// - Parameter thread: executes the requests.
    func setExecutor(_ thread: LoopHandle) { executor.withLock { $0 = thread } }

    /// Adds a request. Returns false if too many wait, of all or of its holder.
    func add(_ call: SourceCall) -> Bool {
        let needsPassword = call.request.route.needsPassword
        let isTaken = state.withLock { state in
            guard state.admits(call),
                !needsPassword || state.passwordCounts.admits(1, for: call.holder),
                call.request.route != .register
                    || state.registrationCount < Self.registrationsMaximum
            else { return false }
            state.count(1, for: call)
            if needsPassword {
                state.passwordCounts.add(1, for: call.holder)
                if call.request.route == .register { state.registrationCount += 1 }
                state.unhashed.add(call)
            } else {
                state.ready.add(call)
            }
            return true
        }
        guard isTaken else { return false }
        if needsPassword { hashing.notify() } else { wakeExecutor() }
        return true
    }

    /// Hashes no more passwords: their clients get no answers, as the broker stops.
    func stopHashing() {
        state.withLock { $0.unhashed.removeAll() }
        hashing.stop()
    }

    /// The next request whose password is to be hashed.
    func takeUnhashed() -> SourceCall? {
        state.withLock { $0.unhashed.takeNext() }
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
                state.ready.add(call)
            }
        }
        wakeExecutor()
    }

    /// Takes a request whose file is kept before it goes on (``addPrepared(_:)``). Returns false if
    /// too many wait.
    func reserve(_ call: SourceCall) -> Bool {
        state.withLock { state in
            guard state.admits(call) else { return false }
            state.count(1, for: call)
            return true
        }
    }

    /// Lets a request go on whose file is kept.
    func addPrepared(_ call: SourceCall) {
        state.withLock { $0.ready.add(call) }
        wakeExecutor()
    }

    /// When the next refusal is due; nil if none is.
    var nextRefusal: Instant? { state.withLock { $0.refused.lazy.map(\.due).min() } }

    /// Takes the requests of one turn, by the turns of their holders.
    func takeReady(at now: Instant) -> [SourceCall] {
        let (taken, hasMore) = state.withLock { state in
            for refusal in state.refused where refusal.due <= now { state.ready.add(refusal.call) }
            state.refused.removeAll { $0.due <= now }
            var taken: [SourceCall] = []
            while taken.count < SourceLimits.requestsPerTurnMaximum,
                let call = state.ready.takeNext()
            {
                taken.append(call)
            }
            return (taken, !state.ready.isEmpty)
        }
        if hasMore { wakeExecutor() }
        return taken
    }

    /// Notes that a request is answered.
    func finish(_ call: SourceCall) {
        state.withLock { $0.count(-1, for: call) }
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
