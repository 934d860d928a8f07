// What the event loops and other threads share about web listeners: which they are, what a reload
// may change, and counts.

import BrokerTerms
import Configuration
import Dialects
import NetTransport
import Synchronization
import Threads

/// The web listeners of a broker.
final class WebListeners: Sendable {
    /// A web listener: the indices of the terms of its clients.
    struct Terms: Sendable {
        let mqtt: UInt8
        let mrt: UInt8
        /// What the listener serves.
        let parts: WebParts
        /// Networks of reverse proxies, which name clients in `X-Forwarded-For`.
        var forwarders: [IPNetwork] = []
    }

    /// What a reload changes.
    struct Values: Sendable {
        var allowedOrigins: [[UInt8]] = []
        var metrics = MetricsReaders.loopback
    }

    /// By tag; nil for a listener of packets.
    private let terms: [Terms?]
    private let state: Locked<Values>
    private let requestCount = Atomic<UInt64>(0)
    private let refusalCount = Atomic<UInt64>(0)
    /// Requests of reverse proxies with a malformed `X-Forwarded-For`.
    private let malformedClientCount = Atomic<UInt64>(0)

    /// Without a web listener.
    init() {
        terms = []
        state = Locked(Values())
    }

    init(terms: [Terms?], _ settings: BrokerSettings) {
        self.terms = terms
        state = Locked(Values(settings))
    }

    var values: Values { state.withLock { $0 } }

    func change(_ settings: BrokerSettings) {
        let values = Values(settings)
        state.withLock { $0 = values }
    }

    /// Whether there is a web listener.
    var isUsed: Bool { terms.contains { $0 != nil } }

    /// The terms of a web listener; nil for another one.
    func terms(tag: UInt32) -> Terms? {
        Int(tag) < terms.count ? terms[Int(tag)] : nil
    }

    struct Counts {
        /// Requests that were answered.
        let requests: UInt64
        /// Those of them that were answered with a 4xx or 5xx status.
        let refusals: UInt64
        /// Those whose `X-Forwarded-For` was ignored.
        let malformedClients: UInt64
    }

    var counts: Counts {
        Counts(
            requests: requestCount.load(ordering: .relaxed),
            refusals: refusalCount.load(ordering: .relaxed),
            malformedClients: malformedClientCount.load(ordering: .relaxed))
    }

    func countMalformedClient() { malformedClientCount.add(1, ordering: .relaxed) }

    func count(isRefusal: Bool) {
        requestCount.add(1, ordering: .relaxed)
        if isRefusal { refusalCount.add(1, ordering: .relaxed) }
    }
}

extension WebListeners.Values {
    init(_ settings: BrokerSettings) {
        allowedOrigins = settings.web.allowedOrigins.map { Array($0.utf8) }
        metrics = settings.web.metrics
    }
}
