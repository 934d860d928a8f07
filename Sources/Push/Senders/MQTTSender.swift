// The thread that publishes wake-ups to another MQTT broker. libcurl makes the connection, with
// TLS and the check of its address; the thread ends it when nothing was published for a while.

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
    private let rules: AddressRules

    /// A connection without traffic lasts this long, in milliseconds: less than its keep-alive.
    private static let idleMilliseconds: Int32 = 20_000

    init(_ settings: MQTTSettings, rules: AddressRules, returns: PushReturns) {
        self.settings = settings
        self.rules = rules
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
        while true {
            var question = pollfd(fd: signal, events: Int16(POLLIN), revents: 0)
            poll(&question, 1, -1)
            if state.withLock({ $0.isStopped }) { return }
            guard state.withLock({ !$0.jobs.isEmpty }) else {
                drainSignal()
                continue
            }
            let end = serve()
            fail(takeJobs(maximum: .max), end)
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

    private func fail(_ jobs: some Sequence<Job>, _ reason: String) {
        for job in jobs { fail(job.tag, reason) }
    }

    private func fail(_ tag: UInt64, _ reason: String) {
        returns.put(
            .sent(
                tag: tag, .failed(reason, retryAfterSeconds: 0, isDestination: true)))
    }

    /// One connection, until it is idle or lost.
    ///
    /// - Returns: why it ended; jobs that came meanwhile fail for it.
    private func serve() -> String {
        let connection = StreamConnection(rules)
        if let reason = connection.open(settings) { return reason }
        var link = PublishLink(settings)
        guard connection.send(link.connectPacket()) else { return "connection lost" }
        var lastProgress = Self.now
        var end = ""
        while end.isEmpty {
            drainSignal()
            if state.withLock({ $0.isStopped }) { break }
            if link.isConnected {
                let room = PushLimits.publicationsMaximum - link.tags.count
                let jobs = takeJobs(maximum: room)
                for (index, job) in jobs.enumerated() {
                    let packet = link.publish(
                        topic: job.topic, job.payload, expirySeconds: job.expirySeconds,
                        tag: job.tag)
                    guard let packet, connection.send(packet) else {
                        end = "connection lost"
                        // The link has the tags of those with a packet.
                        fail(jobs[(packet == nil ? index : index + 1)...], end)
                        break
                    }
                }
            }
            guard end.isEmpty else { break }
            let isWaiting = !link.isConnected || !link.tags.isEmpty
            let wait =
                isWaiting ? Int32(PushLimits.publicationMilliseconds) : Self.idleMilliseconds
            guard connection.wait(signal, milliseconds: wait) else {
                if Self.now.milliseconds(since: lastProgress) < UInt64(wait) { continue }
                if isWaiting { end = "timeout" }
                break
            }
            guard let bytes = connection.receive() else {
                end = "connection lost"
                break
            }
            if !bytes.isEmpty { lastProgress = Self.now }
            for event in link.received(bytes) {
                switch event {
                case .connected: break
                case .acknowledged(let tag, let reason):
                    let outcome: SendOutcome =
                        reason.isFailure ? .refused("\(reason.name)", isFinal: false) : .delivered
                    returns.put(.sent(tag: tag, outcome))
                case .refused(let reason): end = reason
                }
            }
        }
        if end.isEmpty { _ = connection.send(link.disconnectPacket()) }
        for tag in link.tags.values { fail(tag, end.isEmpty ? "connection lost" : end) }
        return end.isEmpty ? "connection lost" : end
    }

    private static var now: Instant {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Instant(milliseconds: UInt64(time.tv_sec) * 1_000 + UInt64(time.tv_nsec) / 1_000_000)
    }
}

/// A connection of libcurl without a protocol of its own.
private final class StreamConnection {
    private let handle: curl_handle
    private let rules: AddressRules
    private var isAddressRefused = false

    init(_ rules: AddressRules) {
        self.rules = rules
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
        curl_set_address_opener(
            handle,
            { context, _, address in
                guard let context, let address else { return CURL_SOCKET_BAD }
                let connection = Unmanaged<StreamConnection>.fromOpaque(context)
                    .takeUnretainedValue()
                let bytes = curl_bytes_of(address)
                let list = withUnsafeBytes(of: bytes.bytes) {
                    Array($0.prefix(Int(bytes.byte_count)))
                }
                guard connection.rules.permits(bytes: list) else {
                    connection.isAddressRefused = true
                    return CURL_SOCKET_BAD
                }
                return socket(
                    address.pointee.family, address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue),
                    address.pointee.protocol)
            }, Unmanaged.passUnretained(self).toOpaque())
        let code = curl_easy_perform(handle)
        guard code != CURLE_OK else { return nil }
        return isAddressRefused ? "address-not-allowed" : String(cString: curl_easy_strerror(code))
    }

    /// Sends all bytes; they are few. False if the connection is lost.
    func send(_ bytes: [UInt8]) -> Bool {
        var rest = bytes
        while !rest.isEmpty {
            var count = 0
            let code = curl_easy_send(handle, &rest, rest.count, &count)
            if code == CURLE_AGAIN {
                var question = pollfd(
                    fd: Int32(curl_active_socket(handle)), events: Int16(POLLOUT), revents: 0)
                guard poll(&question, 1, Int32(PushLimits.publicationMilliseconds)) > 0 else {
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
        var questions = [
            pollfd(fd: Int32(curl_active_socket(handle)), events: Int16(POLLIN), revents: 0),
            pollfd(fd: signal, events: Int16(POLLIN), revents: 0),
        ]
        return poll(&questions, 2, milliseconds) > 0
    }

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
            if bytes.count > 1 << 20 { return nil }
        }
    }
}
