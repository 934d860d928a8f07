// What the event loops, the administration thread and the thread that hashes passwords share about
// interfaces.

import Configuration
import SourceInterfaces
import Threads

/// The interfaces of other systems that a broker has.
final class SourceServices: Sendable {
    private let openApps: Locked<SourceApps>
    private let counts = Locked(SourceCounts())
    let queue = SourceQueue()
    /// Registrations, each of which costs a hash and makes a user.
    let registrations = AddressCounts()
    let nonces = LoginNonces()
    /// The files of messages; nil if none are kept.
    let files: FileService?

    /// Without an interface.
    init() {
        openApps = Locked(SourceApps([:]))
        files = nil
    }

    init(_ settings: BrokerSettings, log: LogWriter) throws(StartError) {
        openApps = Locked(SourceApps(settings))
        let terms = settings.files
        guard let directory = terms.directory, terms.bytesPerApp > 0 else {
            files = nil
            return
        }
        files = FileService(
            try FileStore(
                directory: directory,
                quota: FileQuota(appBytes: terms.bytesPerApp, userPercent: terms.userPercent),
                ageSeconds: UInt64(terms.ageSeconds)), address: terms.address ?? "",
            log: log)
    }

    /// Requests since the broker started.
    var currentCounts: SourceCounts { counts.withLock { $0 } }

    func countRequest(to interface: SourceInterface) {
        counts.withLock { $0.requests[interface.counted, default: 0] += 1 }
    }

    /// Counts a request that is answered with a status of 400 or more.
    func countRefusal(at interface: SourceInterface) {
        counts.withLock { $0.refusals[interface.counted, default: 0] += 1 }
    }

    /// The apps with interfaces.
    var apps: SourceApps { openApps.withLock { $0 } }

    func change(_ settings: BrokerSettings) {
        let apps = SourceApps(settings)
        openApps.withLock { $0 = apps }
    }

    /// Hashes passwords until ``SourceQueue/hashing`` is stopped. Runs on a thread of its own: no
    /// event loop and no operator waits for it.
    func check(
        _ passwords: any RegisteredPasswords, with hasher: any PasswordHasher, clock: BrokerClock
    ) {
        while queue.hashing.wait() {
            while var call = queue.takeUnhashed() {
                call.check = PasswordCheck(
                    call.request, apps: apps, passwords: passwords, hasher: hasher)
                queue.addHashed(call, at: clock.moment().instant)
            }
        }
    }
}

/// Requests to interfaces, by interface; registrations are requests to `rest`.
struct SourceCounts: Sendable {
    /// Of LeanMessage, handshakes.
    fileprivate(set) var requests: [SourceInterface: UInt64] = [:]
    fileprivate(set) var refusals: [SourceInterface: UInt64] = [:]

    func requests(to interface: SourceInterface) -> UInt64 { requests[interface] ?? 0 }
    func refusals(at interface: SourceInterface) -> UInt64 { refusals[interface] ?? 0 }
}

extension SourceInterface {
    /// The interface that requests are counted for.
    fileprivate var counted: SourceInterface { self == .registration ? .rest : self }
}

extension SourceApps {
    init(_ settings: BrokerSettings) {
        var interfaces: [String: Set<SourceInterface>] = [:]
        for app in settings.apps {
            interfaces[app.app] = Set(app.interfaces.map(SourceInterface.init))
        }
        self.init(interfaces)
    }
}

extension SourceInterface {
    fileprivate init(_ interface: AppInterface) {
        switch interface {
        case .rest: self = .rest
        case .registration: self = .registration
        case .quickblox: self = .quickblox
        case .leanmessage: self = .leanmessage
        case .diuit: self = .diuit
        }
    }
}
