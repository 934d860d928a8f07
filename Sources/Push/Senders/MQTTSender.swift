// The thread that publishes wake-ups to another MQTT broker. libcurl makes the connection, with
// TLS; the thread ends it when nothing was published for a while.
//
// A broker may end the connection for a publication that it does not take. After a loss those that
// were under way are published one at a time, and one under which the connection is lost again is
// refused: otherwise a single one would hold back all others. One that the broker does not
// acknowledge, although it acknowledges later ones, is refused too.

import CCurl
import Glibc
import Primitives
import Relay
import Threads

final class MQTTSender: Sendable {
    private struct Job {
        let tag: UInt64
        let topic: String
        let payload: [UInt8]
        let expirySeconds: UInt32
        /// A connection was lost while it was under way.
        var isSuspect = false
        /// When it was published.
        var sent = Instant.never
    }

    private struct State {
        var jobs: [Job] = []
        var isStopped = false
    }

    private let state = Locked(State())
    /// A pipe whose bytes say that there is something to do.
    private let signal: Int32
    private let signalSource: Int32
    private let returns: PushReturns
    private let settings: MQTTSettings

    /// A connection without traffic lasts this long, in milliseconds: less than its keep-alive.
    private static let idleMilliseconds: UInt64 = 20_000

    init(_ settings: MQTTSettings, returns: PushReturns) {
        self.settings = settings
        self.returns = returns
        var ends: [Int32] = [-1, -1]
        let code = pipe(&ends)
        precondition(code == 0, "pipe: errno \(errno)")
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        (signal, signalSource) = (ends[0], ends[1])
    }

    deinit {
        close(signal)
        close(signalSource)
    }

    /// Starts the thread.
    ///
    /// - Returns: false if the system has none.
    func start() -> Bool { Thread.detach(name: "mqtt") { self.run() } }

    /// Publishes; the result is among the returns.
    func publish(topic: String, _ payload: [UInt8], expirySeconds: UInt32, tag: UInt64) {
        state.withLock {
            $0.jobs.append(
                Job(tag: tag, topic: topic, payload: payload, expirySeconds: expirySeconds))
        }
        notify()
    }

    /// Ends the thread when it is done with what it does.
    func stop() {
        state.withLock { $0.isStopped = true }
        notify()
    }

    // MARK: - The thread

    private func run() {
        while !state.withLock({ $0.isStopped }) {
            var descriptor = pollfd(fd: signal, events: Int16(POLLIN), revents: 0)
            poll(&descriptor, 1, -1)
            guard state.withLock({ !$0.jobs.isEmpty }) else {
                drainSignal()
                continue
            }
            while let end = serve() {
                // What was under way is left, or something was answered: the broker is there.
                guard end.isProgress else {
                    fail(takeJobs(maximum: .max), end.reason)
                    break
                }
                if state.withLock({ $0.isStopped || $0.jobs.isEmpty }) { break }
            }
        }
    }

    /// A full pipe says it too.
    private func notify() {
        var byte: UInt8 = 1
        _ = write(signalSource, &byte, 1)
    }

    private func drainSignal() {
        var bytes = [UInt8](repeating: 0, count: 256)
        while read(signal, &bytes, bytes.count) > 0 {}
    }

    private func takeJobs(maximum: Int) -> [Job] {
        state.withLock { state in
            let taken = Array(state.jobs.prefix(maximum))
            state.jobs.removeFirst(taken.count)
            return taken
        }
    }

    /// The jobs to publish now: a suspect alone, others together.
    private func takeJobs(underWay: Int) -> [Job] {
        state.withLock { state in
            let isAlone = state.jobs.first?.isSuspect == true
            guard !isAlone || underWay == 0 else { return [] }
            let count = isAlone ? 1 : PushLimits.publicationsMaximum - underWay
            let taken = Array(state.jobs.prefix(count))
            state.jobs.removeFirst(taken.count)
            return taken
        }
    }

    private func refuse(_ jobs: [Job], _ reason: String) {
        for job in jobs { returns.put(.sent(tag: job.tag, .refused(reason, isFinal: false))) }
    }

    /// The connection is lost: what was under way is suspect now, or refused if it was.
    private func putBack(_ jobs: [Job], _ reason: String) {
        refuse(jobs.filter(\.isSuspect), reason)
        var suspects = jobs.filter { !$0.isSuspect }
        for index in suspects.indices { suspects[index].isSuspect = true }
        state.withLock { $0.jobs.insert(contentsOf: suspects, at: 0) }
    }

    private func fail(_ jobs: some Sequence<Job>, _ reason: String) {
        for job in jobs { fail(job.tag, reason) }
    }

    private func fail(_ tag: UInt64, _ reason: String) {
        returns.put(
            .sent(
                tag: tag, .failed(reason, retryAfterSeconds: 0, isDestination: true)))
    }

    /// Why a connection ended.
    private struct End {
        var reason: String
        /// Whether it changed something: a further one gets jobs that wait. Otherwise they fail.
        var isProgress: Bool
    }

    /// One connection, until it is idle or lost.
    ///
    /// - Returns: nil if it was idle.
    private func serve() -> End? {
        let connection = StreamConnection()
        if let reason = connection.open(settings) { return End(reason: reason, isProgress: false) }
        var link = PublishLink(settings)
        guard connection.send(link.connectPacket()) else {
            return End(reason: Self.lost, isProgress: false)
        }
        var underWay: [UInt64: Job] = [:]
        var isProgress = false
        let opened = SystemClocks.now.instant
        var lastUse = opened
        var lastAnswer = opened
        var end = ""
        while end.isEmpty {
            drainSignal()
            if state.withLock({ $0.isStopped }) { break }
            if link.isConnected {
                for var job in takeJobs(underWay: underWay.count) {
                    lastUse = SystemClocks.now.instant
                    job.sent = lastUse
                    underWay[job.tag] = job
                    let packet = link.publish(
                        topic: job.topic, job.payload, expirySeconds: job.expirySeconds,
                        tag: job.tag)
                    guard let packet else {
                        preconditionFailure("no room for \(job.tag) beside \(link.tags.count)")
                    }
                    if end.isEmpty, !connection.send(packet) { end = Self.lost }
                }
            }
            guard end.isEmpty else { break }
            let isIdle = link.isConnected && underWay.isEmpty
            let begun = link.isConnected ? underWay.values.map(\.sent).min() ?? lastUse : opened
            let time = isIdle ? Self.idleMilliseconds : settings.answerMilliseconds
            let deadline = begun.advanced(byMilliseconds: time)
            let wait = deadline.milliseconds(since: SystemClocks.now.instant)
            guard wait > 0 else {
                if !isIdle { end = Self.timeout }
                break
            }
            guard connection.wait(signal, milliseconds: Int32(clamping: wait)) else { continue }
            guard let bytes = connection.receive() else {
                end = Self.lost
                break
            }
            for event in link.received(bytes) {
                switch event {
                case .connected: break
                case .acknowledged(let tag, let reason):
                    underWay[tag] = nil
                    isProgress = true
                    lastUse = SystemClocks.now.instant
                    lastAnswer = lastUse
                    let outcome: SendOutcome =
                        reason.isFailure ? .refused("\(reason.name)", isFinal: false) : .delivered
                    returns.put(.sent(tag: tag, outcome))
                case .refused(let reason): end = reason
                }
            }
        }
        guard !end.isEmpty else {
            _ = connection.send(link.disconnectPacket())
            return nil
        }
        let jobs = underWay.values.sorted { $0.tag < $1.tag }
        if end == Self.timeout {
            // A broker that answers nothing takes nothing of anybody.
            let ignored = jobs.filter {
                $0.sent < lastAnswer
                    && SystemClocks.now.instant.milliseconds(since: $0.sent)
                        >= settings.answerMilliseconds
            }
            guard !ignored.isEmpty else {
                fail(jobs, end)
                return End(reason: end, isProgress: false)
            }
            refuse(ignored, end)
            let tags = Set(ignored.map(\.tag))
            let others = jobs.filter { !tags.contains($0.tag) }
            state.withLock { $0.jobs.insert(contentsOf: others, at: 0) }
            return End(reason: end, isProgress: true)
        }
        putBack(jobs, end)
        return End(reason: end, isProgress: isProgress || !jobs.isEmpty)
    }

    private static let lost = "connection lost"
    private static let timeout = "timeout"
}

/// A connection of libcurl without a protocol of its own.
private final class StreamConnection {
    private let handle: curl_handle

    init() {
        guard let handle = curl_easy_init() else {
            preconditionFailure("libcurl \(String(cString: curl_version())) gives no handle")
        }
        self.handle = handle
    }

    deinit { curl_easy_cleanup(handle) }

    /// Connects.
    ///
    /// - Returns: why there is no connection; nil if there is one.
    func open(_ settings: MQTTSettings) -> String? {
        let server = settings.server
        let host = server.host.contains(":") ? "[\(server.host)]" : server.host
        let scheme = server.transport == .tls ? "https" : "http"
        curl_set_text(handle, CURLOPT_URL, "\(scheme)://\(host):\(server.port)")
        curl_set_number(handle, CURLOPT_CONNECT_ONLY, 1)
        curl_set_number(handle, CURLOPT_NOSIGNAL, 1)
        curl_set_number(handle, CURLOPT_SSL_ENABLE_ALPN, 0)
        curl_set_text(handle, CURLOPT_PROXY, "")
        curl_set_number(
            handle, CURLOPT_CONNECTTIMEOUT_MS, RelayLimits.connectMillisecondsMaximum)
        if let file = settings.authorityFile { curl_set_text(handle, CURLOPT_CAINFO, file) }
        TLSReading.bound(handle)
        let code = curl_easy_perform(handle)
        return code == CURLE_OK ? nil : String(cString: curl_easy_strerror(code))
    }

    /// Sends all bytes; they are few. False if the connection is lost.
    func send(_ bytes: [UInt8]) -> Bool {
        var rest = bytes
        while !rest.isEmpty {
            var count = 0
            let code = curl_easy_send(handle, &rest, rest.count, &count)
            if code == CURLE_AGAIN {
                var descriptor = pollfd(
                    fd: Int32(curl_active_socket(handle)), events: Int16(POLLOUT), revents: 0)
                guard poll(&descriptor, 1, Int32(PushLimits.publicationMilliseconds)) > 0 else {
                    return false
                }
                continue
            }
            guard code == CURLE_OK else { return false }
            rest.removeFirst(count)
        }
        return true
    }

    /// Waits until the broker sends or the signal comes. False when the time is over.
    func wait(_ signal: Int32, milliseconds: Int32) -> Bool {
        var descriptors = [
            pollfd(fd: Int32(curl_active_socket(handle)), events: Int16(POLLIN), revents: 0),
            pollfd(fd: signal, events: Int16(POLLIN), revents: 0),
        ]
        return poll(&descriptors, 2, milliseconds) > 0
    }

    /// Bytes that the broker has sent at once: its answers have four, and it sends nothing else.
    private static let receivedMaximum = 1 << 20

    /// What there is; nil if the connection is lost.
    func receive() -> [UInt8]? {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4_096)
        while true {
            var count = 0
            let code = curl_easy_recv(handle, &chunk, chunk.count, &count)
            if code == CURLE_AGAIN { return bytes }
            guard code == CURLE_OK, count > 0 else { return nil }
            bytes += chunk[..<count]
            if bytes.count > Self.receivedMaximum { return nil }
        }
    }
}
