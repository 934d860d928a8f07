// What the event loops and other threads share about web listeners: which they are, what a reload
// may change, the broker's health, and counts.

import BrokerTerms
import Configuration
import Dialects
import NetTransport
import Primitives
import Synchronization
import Threads

/// The web listeners of a broker.
package final class WebSettings: Sendable {
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
    let health = BrokerHealth()
    let metrics = MetricsPage()
    let requests = APIQueue()
    let operators: Operators

    /// Without a web listener.
    package init() {
        terms = []
        state = Locked(Values())
        operators = Operators()
    }

    init(terms: [Terms?], _ settings: BrokerSettings, operators: Operators) {
        self.terms = terms
        self.operators = operators
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

extension WebSettings.Values {
    init(_ settings: BrokerSettings) {
        allowedOrigins = settings.web.allowedOrigins.map { Array($0.utf8) }
        metrics = settings.web.metrics
    }
}

/// The broker's health as the main thread sees it twice a second.
final class BrokerHealth: Sendable {
    private let findings = Atomic<UInt8>(Finding.starting.rawValue)

    /// What is not as it should be.
    struct Finding: OptionSet {
        let rawValue: UInt8
        /// The listeners are not open yet.
        static let starting = Finding(rawValue: 1 << 0)
        /// The broker is stopping.
        static let draining = Finding(rawValue: 1 << 1)
        /// The store refuses what makes it grow.
        static let storeFull = Finding(rawValue: 1 << 2)
        /// An event loop has not turned for seconds.
        static let loopStuck = Finding(rawValue: 1 << 3)
        /// A batch has waited for its commit for seconds.
        static let commitStuck = Finding(rawValue: 1 << 4)

        /// Those that a restart may mend.
        static let fatal: Finding = [.loopStuck, .commitStuck]

        /// Names for the answers.
        static let names: [(Finding, String)] = [
            (.starting, "starting"), (.draining, "draining"), (.storeFull, "store-full"),
            (.loopStuck, "loop-stuck"), (.commitStuck, "commit-stuck"),
        ]
    }

    var current: Finding { Finding(rawValue: findings.load(ordering: .acquiring)) }

    func set(_ finding: Finding, _ isSo: Bool) {
        if isSo {
            _ = findings.bitwiseOr(finding.rawValue, ordering: .acquiringAndReleasing)
        } else {
            _ = findings.bitwiseAnd(~finding.rawValue, ordering: .acquiringAndReleasing)
        }
    }
}

/// The metrics as text. The thread of the administration socket writes them when a loop asks; loops
/// answer all requests of a second with one text, because writing it takes about a millisecond.
final class MetricsPage: Sendable {
    private struct State {
        /// In the order of the forms.
        var texts = PrometheusText.Form.allCases.map { _ in [UInt8]() }
        /// When the text is too old.
        var end = Instant(milliseconds: 0)
        /// A bit for each loop that waits.
        var waitingLoops: UInt64 = 0
    }

    private let state = Locked(State())
    private let administrator = Locked<LoopHandle?>(nil)

    /// - Parameter thread: writes the text.
    func setWriter(_ thread: LoopHandle) { administrator.withLock { $0 = thread } }

    /// The text, if it is new enough. Otherwise the loop is woken when there is one.
    func text(at now: Instant, for loop: UInt8, as form: PrometheusText.Form) -> [UInt8]? {
        let text: [UInt8]? = state.withLock { state in
            if now < state.end { return state.texts[form.index] }
            state.waitingLoops |= 1 << UInt64(loop)
            return nil
        }
        if text == nil { administrator.withLock { $0 }?.wake() }
        return text
    }

    var isAwaited: Bool { state.withLock { $0.waitingLoops != 0 } }

    /// Takes new texts. Returns the loops that wait for them, a bit each.
    func replace(until end: Instant, with text: (PrometheusText.Form) -> [UInt8]) -> UInt64 {
        let texts = PrometheusText.Form.allCases.map(text)
        return state.withLock { state in
            state.texts = texts
            state.end = end
            defer { state.waitingLoops = 0 }
            return state.waitingLoops
        }
    }
}
