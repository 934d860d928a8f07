// Verifies passwords on threads of its own: a hash is slow by design, and an event loop that
// computed it would delay every client. The threads have a low priority, so that a storm of logins
// costs others nothing, and the queue is bounded and fair to addresses.

import BrokerCore
import BrokerTerms
import Credentials
import Glibc
import Primitives
import Synchronization
import Threads

/// The threads that verify passwords, and the logins that wait for them.
package final class PasswordVerifier: Sendable {
    /// A login by user name and password.
    struct Login: Sendable {
        let connection: ConnectionID
        let app: [UInt8]
        let name: [UInt8]
        let password: [UInt8]
    }

    /// What became of a login.
    enum Outcome: Sendable {
        case valid(VerifiedIdentity)
        /// The user name or the password is wrong.
        case refused
        /// It cannot be verified now.
        case busy
    }

    private struct Job: Sendable {
        let login: Login
        /// The password of the name; nil if there is none.
        let registered: RegisteredPassword?
    }

    private struct Queue {
        var jobs = PasswordQueue<Job>()
        /// Connections that have a job in the queue or on a thread.
        var waiting: Set<ConnectionID> = []
        /// Results by event loop.
        var results: [[(connection: ConnectionID, outcome: Outcome)]]
        var isStopped = false
    }

    /// Passwords that were verified, as keyed hashes.
    private struct Known {
        var keys: Set<Digest> = []
        /// The same in the order in which they came, and the place of the oldest at the maximum.
        var order: [Digest] = []
        var oldest = 0
    }

    /// How often passwords were verified.
    struct Counts: Sendable {
        var verified: UInt64 = 0
        var recognized: UInt64 = 0
        var refused: UInt64 = 0
        /// All that were refused for lack of room.
        var busy: UInt64 = 0
        /// Of these: their address had its share.
        var overShare: UInt64 = 0
        /// Of these: a login of an address with fewer took their place.
        var displaced: UInt64 = 0
    }

    private let shards: Shards
    private let queue: Locked<Queue>
    private let known = Locked(Known())
    private let counts = Locked(Counts())
    private let signals: [WakeSignal]
    private let threads: Locked<[Thread]> = Locked([])
    /// The key of ``Known``. It never leaves the process.
    private let secret = SystemRandom.bytes(count: 32)

    /// Passwords that are recognized: 100 bytes each. A fleet that reconnects after a restart of a
    /// switch costs one keyed hash for each.
    static let knownMaximum = 65_536
    /// Half of the cores, at most ``threadCountMaximum``: the others serve those who are logged in.
    private static let threadCount = min(
        max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)) / 2), threadCountMaximum)
    /// Each hash holds up to 64 MiB: eight at a time are half a gigabyte.
    private static let threadCountMaximum = 8
    /// The priority of the threads, as `nice` says it: a tenth of the time of a thread that has
    /// the usual one, so that other programs do not keep clients out.
    private static let nice: Int32 = 10

    init(shards: Shards) {
        self.shards = shards
        queue = Locked(Queue(results: Array(repeating: [], count: shards.loopHandles.count)))
        signals = (0..<Self.threadCount).map { _ in WakeSignal() }
    }

    /// Whether another node of the cluster serves an app.
    func isElsewhere(_ app: [UInt8]) -> Bool {
        shards.elsewhere(String(decoding: app, as: UTF8.self)) != nil
    }

    var current: Counts { counts.withLock { $0 } }

    /// Starts the threads.
    func start() {
        let started = signals.enumerated().map { index, signal in
            Thread(name: "password-\(index)") { [self] in
                setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, Self.nice)
                run(signal)
            }
        }
        threads.withLock { $0 = started }
    }

    /// Ends the threads. Logins that wait get no answer.
    func stop() {
        queue.withLock { $0.isStopped = true }
        for signal in signals { signal.stop() }
        let ended = threads.withLock { threads in
            defer { threads = [] }
            return threads
        }
        for thread in ended { thread.join() }
    }

    // MARK: - Event loops

    /// The identity of a login whose password was verified before; nil for another one.
    func recognize(_ login: Login) -> VerifiedIdentity? {
        let registered = shards[login.app].look { $0.password(login.name, app: login.app) }
        guard let registered, recognizes(login, mark: registered.mark) else { return nil }
        counts.withLock { $0.recognized += 1 }
        return Self.identity(registered, app: login.app)
    }

    /// Begins to verify a login. Returns false if there is no room for it.
    ///
    /// - Parameter address: of the client.
    func begin(_ login: Login, from address: IPAddress) -> Bool {
        let connection = login.connection
        let registered = shards[login.app].look { $0.password(login.name, app: login.app) }
        let admission: PasswordQueue<Job>.Admission? = queue.withLock { queue in
            guard !queue.isStopped else { return nil }
            let admission = queue.jobs.add(
                Job(login: login, registered: registered), of: connection, from: address)
            switch admission {
            case .waits: queue.waiting.insert(connection)
            case .displaced(let other):
                queue.waiting.insert(connection)
                queue.waiting.remove(other)
                queue.results[Int(other.loop)].append((other, .busy))
            case .overShare, .full: break
            }
            return admission
        }
        switch admission {
        case .waits?: break
        case .displaced(let other)?:
            counts.withLock { counts in
                counts.busy += 1
                counts.displaced += 1
            }
            shards.loopHandles[Int(other.loop)].wake()
        case .overShare?:
            counts.withLock { counts in
                counts.busy += 1
                counts.overShare += 1
            }
            return false
        case .full?, nil:
            counts.withLock { $0.busy += 1 }
            return false
        }
        for signal in signals { signal.notify() }
        return true
    }

    /// Forgets the login of a connection that has closed.
    func forget(_ connection: ConnectionID) {
        queue.withLock { queue in
            guard queue.waiting.remove(connection) != nil else { return }
            queue.jobs.remove(connection)
        }
    }

    /// The results for an event loop since the last call.
    func takeResults(
        loop: UInt8
    ) -> [(connection: ConnectionID, outcome: Outcome)] {
        queue.withLock { queue in
            let results = queue.results[Int(loop)]
            queue.results[Int(loop)] = []
            return results
        }
    }

    // MARK: - Threads

    private func run(_ signal: WakeSignal) {
        let memory = HashingMemory()
        while signal.wait() {
            while let job = takeJob() { finish(job, with: verify(job, in: memory)) }
            memory.release()
        }
    }

    private func takeJob() -> Job? {
        queue.withLock { queue in
            queue.isStopped ? nil : queue.jobs.takeNext()?.login
        }
    }

    private func verify(_ job: Job, in memory: HashingMemory) -> Outcome {
        let hash = job.registered.flatMap { try? PasswordHash($0.hash) }
        switch PasswordHash.verify(job.login.password, against: hash, in: memory) {
        case nil:
            counts.withLock { $0.busy += 1 }
            return .busy
        case true?:
            guard let registered = job.registered else { break }
            counts.withLock { $0.verified += 1 }
            note(job.login, mark: registered.mark)
            return .valid(Self.identity(registered, app: job.login.app))
        case false?: break
        }
        counts.withLock { $0.refused += 1 }
        return .refused
    }

    private func finish(_ job: Job, with outcome: Outcome) {
        let connection = job.login.connection
        let isAwaited = queue.withLock { queue in
            guard queue.waiting.remove(connection) != nil else { return false }
            queue.results[Int(connection.loop)].append((connection, outcome))
            return true
        }
        if isAwaited { shards.loopHandles[Int(connection.loop)].wake() }
    }

    private static func identity(
        _ password: RegisteredPassword, app: [UInt8]
    ) -> VerifiedIdentity {
        VerifiedIdentity(
            proof: .password, app: app, user: password.user, device: password.device,
            rights: password.rights, expiresUnixSeconds: password.expiresUnixSeconds,
            voucher: password.name, key: .mark(password.mark))
    }

    // MARK: - Recognizing

    /// The keyed hash of a login with a password that was set under a mark. It tells nothing to who
    /// does not have the key, and who can read the key in the process could read passwords there
    /// too. A password that is set again has another mark.
    private func key(of login: Login, mark: UInt64) -> Digest {
        var bytes = withUnsafeBytes(of: mark) { Array($0) }
        for part in [login.app, login.name, login.password] {
            withUnsafeBytes(of: UInt32(part.count)) { bytes.append(contentsOf: $0) }
            bytes += part
        }
        let secret = secret
        return Digest(SHA256Digest(of: bytes.span.bytes, key: secret.span.bytes))
    }

    private func recognizes(_ login: Login, mark: UInt64) -> Bool {
        let key = key(of: login, mark: mark)
        return known.withLock { $0.keys.contains(key) }
    }

    private func note(_ login: Login, mark: UInt64) {
        let key = key(of: login, mark: mark)
        known.withLock { known in
            guard known.keys.insert(key).inserted else { return }
            guard known.order.count == Self.knownMaximum else {
                known.order.append(key)
                return
            }
            known.keys.remove(known.order[known.oldest])
            known.order[known.oldest] = key
            known.oldest = (known.oldest + 1) % Self.knownMaximum
        }
    }
}
