// Finding the receivers of a topic among many filters of which one matches: the cost must not grow
// with those that do not.

import BrokerCore
import Primitives

/// A core with one subscriber, who has as many filters as wanted.
private struct MatchingCore: ~Copyable {
    private var broker: Broker
    private var effects = Effects()
    private var batch = StoreBatch()
    private let moment = Moment(
        instant: Instant(milliseconds: 1), unixMilliseconds: 1_700_000_000_000)
    private let sender = ConnectionID(lane: 0, slot: 0, generation: 1)
    private let subscriber = ConnectionID(lane: 0, slot: 1, generation: 1)
    private let message: [UInt8]

    /// - Parameters:
    ///   - matching: the filter that the topic `site/7/pump/3/state` matches.
    ///   - other: makes one of the filters that it does not match.
    init(filters: Int, matching: String, other: (Int) -> String) {
        broker = Broker(at: moment)
        broker.limits.subscriptionsMaximum = .max
        broker.anonymousApp = Array("bench".utf8)
        message = Array("site/7/pump/3/state".utf8)
        let empty = RestoredState(
            identity: StoreIdentity(high: 1, low: 1), nextMessage: MessageID(raw: 1), stamp: nil,
            damaged: [])
        do throws(RestoreError) {
            try broker.finishRestoring(empty, newEpochSeed: 1, at: moment)
        } catch {
            preconditionFailure("nothing was restored: \(error)")
        }
        precondition(broker.addApp(broker.anonymousApp, keyDigest: nil), "a core has no apps yet")
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
                SubscribeRequest(requestIdentifier: 1, filter: range, grade: .transient))
        }
        effects[0].removeAll()
    }

    private mutating func step(_ bytes: [UInt8], _ event: (ByteRange) -> Event) {
        let event = event(ByteRange(offset: 0, count: bytes.count))
        bytes.withUnsafeBytes { broker.step(event, bytes: $0, at: moment, effects: &effects) }
    }

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

/// Prints the cost of a message to one subscriber, by the number and kind of the filters there are.
func measureMatching(filters: Int, messages: Int) {
    func run(_ name: String, _ matching: String, _ other: (Int) -> String) {
        measure("match one of \(filters) \(name)", times: messages) {
            var core = MatchingCore(filters: filters, matching: matching, other: other)
            precondition(core.send() == 1, "one filter matches")
            return core
        } _: {
            use($0.send())
        }
    }
    run("exact filters", "site/7/pump/3/state") { "site/\($0 + 7)/pump/3/state" }
    run("filters with +", "site/7/+/3/state") { "site/\($0 + 7)/+/3/state" }
    run("filters with #", "site/7/#") { "site/\($0 + 7)/#" }
    // These share every level with the topic but the last.
    run("filters that begin alike", "site/7/pump/3/+") { "site/7/pump/3/state\($0)" }
}
