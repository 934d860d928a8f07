// Finding the receivers of a topic among many filters of which one matches: the cost must not grow
// with those that do not.

import BrokerCore
import BrokerTerms
import Primitives

/// A core with one subscriber, who has as many filters as wanted.
private struct MatchingCore: ~Copyable {
    private var broker: Broker
    private var effects = Effects()
    private var batch = StoreBatch()
    private let moment = Moment(
        instant: Instant(milliseconds: 1), unixMilliseconds: 1_700_000_000_000)
    private let sender = ConnectionID(loop: 0, slot: 0, generation: 1)
    private let subscriber = ConnectionID(loop: 0, slot: 1, generation: 1)
    private let message: [UInt8]

    /// - Parameters:
    ///   - matching: the filter that the topic `site/7/pump/3/state` matches.
    ///   - other: makes one of the filters that it does not match.
    init(filters: Int, matching: String, other: (Int) -> String) {
        broker = Broker(at: moment)
        broker.limits.subscriptionsMaximum = .max
        broker.anonymousApp = Array("bench".utf8)
        message = Array("site/7/pump/3/state".utf8)
        broker.beginEmpty(at: moment)
        precondition(
            try! broker.addApp(broker.anonymousApp, keyDigest: nil), "a core has no apps yet")
        for (connection, name) in [(sender, "sender"), (subscriber, "subscriber")] {
            step(Array(name.utf8)) { range in
                .connectReceived(
                    connection,
                    ConnectRequest(
                        dialect: .mrt, claim: .anonymous(user: range), device: .empty,
                        startsClean: true, sessionExpirySeconds: 0, newEpoch: 1, newCookie: 1))
            }
        }
        subscribe(matching)
        for index in 1..<filters { subscribe(other(index)) }
        var result = StoreResult()
        while broker.takeBatch(into: &batch, at: moment) {
            result.sequence = batch.sequence
            broker.stored(result, at: moment, effects: &effects)
        }
        effects[0].removeAll()
    }

    private mutating func subscribe(_ filter: String) {
        step(Array(filter.utf8)) { [subscriber] range in
            .subscribeReceived(
                subscriber,
                SubscribeRequest(
                    requestIdentifier: 1,
                    filters: .one(FilterRequest(filter: range, grade: .transient))))
        }
        effects[0].removeAll()
    }

    private mutating func step(_ bytes: [UInt8], _ event: (ByteRange) -> Event) {
        let event = event(ByteRange(offset: 0, count: bytes.count))
        bytes.withUnsafeBytes { broker.step(event, bytes: $0, at: moment, effects: &effects) }
    }

    /// Subscriptions that there are.
    var count: Int { Int(broker.gauges().subscriptions) }

    /// One message on the topic; the number of effects it had.
    mutating func send() -> Int {
        let range = ByteRange(offset: 0, count: message.count)
        let event = Event.sendReceived(
            sender,
            SendRequest(
                number: 0, grade: .transient, target: .topic(range), isRaw: true, payload: range,
                messageByteCount: 0))
        message.withUnsafeBytes { broker.step(event, bytes: $0, at: moment, effects: &effects) }
        defer { effects[0].removeAll() }
        return effects[0].effects.count
    }
}

/// Filters of one kind: the one that matches the topic `site/7/pump/3/state`, and others.
private struct FilterKind {
    let name: String
    let matching: String
    let other: @Sendable (Int) -> String

    static let all = [
        FilterKind(name: "exact", matching: "site/7/pump/3/state") {
            "site/\($0 + 7)/pump/3/state"
        },
        FilterKind(name: "plus", matching: "site/7/+/3/state") { "site/\($0 + 7)/+/3/state" },
        FilterKind(name: "hash", matching: "site/7/#") { "site/\($0 + 7)/#" },
        // These share every level with the topic but the last.
        FilterKind(name: "alike", matching: "site/7/pump/3/+") { "site/7/pump/3/state\($0)" },
    ]
}

/// Prints the cost of a message to one subscriber, by the number and kind of the filters there are.
func measureMatching(filters: Int, times: Int) {
    for kind in FilterKind.all {
        measure("match-\(kind.name)-\(filters)", times: times) {
            var core = MatchingCore(filters: filters, matching: kind.matching, other: kind.other)
            precondition(core.send() == 1, "one filter matches")
            return core
        } _: {
            use($0.send())
        }
    }
}

/// Prints the bytes that each of `count` subscriptions takes, its filter included.
func measureSubscriptions(count: Int) {
    for kind in FilterKind.all {
        let before = residentBytes()
        let core = MatchingCore(filters: count, matching: kind.matching, other: kind.other)
        report("subscription, \(kind.name), of \(count)", (residentBytes() - before) / count)
        use(core.count)
    }
}
