// What a sleeping device costs in memory: a user with one persistent session that is away, as it is
// after its connection went, and as it is after a restart of the broker. Each has an id of its own
// for user and device, 16 bytes each, hears broadcasts and expires some day.

import BrokerCore
import BrokerTerms
import CLinuxShims
import Glibc
import Primitives

/// Anonymous memory of this process that is in RAM, in bytes. What the allocator keeps but nobody
/// holds is given back first, as the broker does it after its start.
func residentBytes() -> Int {
    malloc_trim(0)
    guard let file = fopen("/proc/self/status", "r") else { return 0 }
    defer { fclose(file) }
    var line = [CChar](repeating: 0, count: 256)
    while fgets(&line, 256, file) != nil {
        var kibibytes = 0
        let isFound = withUnsafeMutablePointer(to: &kibibytes) { number in
            withVaList([number]) { vsscanf(line, "RssAnon: %ld", $0) == 1 }
        }
        if isFound { return kibibytes << 10 }
    }
    return 0
}

/// An id of 16 bytes.
private func name(_ prefix: String, _ number: Int) -> [UInt8] {
    let digits = String(number)
    return Array((prefix + String(repeating: "0", count: 10 - digits.count) + digits).utf8)
}

/// A broker whose devices came once and went away; its rows, as a store would keep them.
private struct Sleepers: ~Copyable {
    var broker = Broker(at: moment)
    var effects = Effects()
    private var batch = StoreBatch()
    private static let moment = Moment(
        instant: Instant(milliseconds: 1), unixMilliseconds: 1_700_000_000_000)
    static let app = Array("bench".utf8)

    /// - Parameter rows: what a store reads out at the start, empty for a new one.
    init(_ rows: borrowing Rows) {
        broker.anonymousApp = Sleepers.app
        rows.readOut(to: &broker)
        let state = RestoredState(
            identity: StoreIdentity(high: 1, low: 1), nextMessage: StoredMessageID(raw: 1),
            stamp: nil,
            damaged: [])
        do throws(RestoreError) {
            try broker.finishRestoring(state, newEpochSeed: 1, at: Sleepers.moment)
        } catch {
            preconditionFailure("rows of this very process: \(error)")
        }
    }

    /// A device logs in for the first time, and is gone.
    mutating func visit(_ number: Int) {
        let (user, device) = (name("sensor", number), name("device", number))
        let connection = ConnectionID(loop: 0, slot: 1, generation: 1)
        (user + device).withUnsafeBytes { bytes in
            let request = ConnectRequest(
                dialect: .mrt, claim: .anonymous(user: ByteRange(offset: 0, count: user.count)),
                device: ByteRange(offset: user.count, count: device.count),
                sessionExpirySeconds: 86_400,
                outbox: OutboxPosition(epoch: 1, resultsSeen: 0, highestUsed: 0),
                newEpoch: UInt64(number + 1), newCookie: 1)
            broker.step(
                .connectReceived(connection, request), bytes: bytes, at: Sleepers.moment,
                effects: &effects)
        }
        broker.step(
            .connectionClosed(connection, .lost),
            bytes: UnsafeRawBufferPointer(start: nil, count: 0), at: Sleepers.moment,
            effects: &effects)
        effects[0].removeAll()
    }

    /// Stores what is gathered.
    mutating func commit(to rows: inout Rows) {
        while broker.takeBatch(into: &batch, at: Sleepers.moment) {
            for change in batch.records { rows.change(change) }
            var result = StoreResult()
            result.sequence = batch.sequence
            broker.stored(result, at: Sleepers.moment, effects: &effects)
        }
        effects[0].removeAll()
    }
}

/// The rows of a store, in its order.
private struct Rows: ~Copyable {
    private var tables: [RecordTable: [[UInt8]: [UInt8]]] = [:]

    mutating func change(_ change: RecordChange) {
        tables[change.table, default: [:]][change.key] = change.value
    }

    func readOut(to broker: inout Broker) {
        for table in tables.keys.sorted(by: { $0.rawValue < $1.rawValue }) {
            for (key, value) in tables[table]! {
                key.withUnsafeBytes { key in
                    value.withUnsafeBytes { value in
                        broker.visitRecord(table: table, key: key, value: value)
                    }
                }
            }
        }
    }
}

/// Prints the bytes that each of `count` tokens takes.
func measureTokens(count: Int) {
    let rows = Rows()
    var sleepers = Sleepers(rows)
    _ = try! sleepers.broker.addApp(Sleepers.app, keyDigest: nil)
    let before = residentBytes()
    for number in 0..<count {
        let token = Token(
            identifier: name("token0", number), digest: Digest(words: (1, 2, 3, UInt64(number))),
            app: Sleepers.app, user: name("sensor", 0), device: name("device", number),
            expiresUnixSeconds: .max)
        _ = try! sleepers.broker.addToken(token)
        var unread = Rows()
        sleepers.commit(to: &unread)
    }
    report("token, of \(count)", (residentBytes() - before) / count)
    use(sleepers.broker.counters.deliveries)
}

/// Prints the bytes that each of `count` sleeping devices takes.
func measureSleepers(count: Int) {
    var rows = Rows()
    var before = residentBytes()
    var first = Sleepers(rows)
    _ = try! first.broker.addApp(Sleepers.app, keyDigest: nil)
    for number in 0..<count {
        first.visit(number)
        // Rows of this process would be counted too: nobody keeps them yet.
        var unread = Rows()
        first.commit(to: &unread)
    }
    report("asleep, user and session, of \(count)", (residentBytes() - before) / count)

    var again = Sleepers(rows)
    _ = try! again.broker.addApp(Sleepers.app, keyDigest: nil)
    for number in 0..<count { again.visit(number) }
    again.commit(to: &rows)
    before = residentBytes()
    let restored = Sleepers(rows)
    report("asleep since a restart, of \(count)", (residentBytes() - before) / count)
    use(restored.broker.counters.deliveries)
    use(first.broker.counters.deliveries)
}

func report(_ name: String, _ bytes: Int) {
    let padding = String(repeating: " ", count: max(1, 44 - name.count))
    print("\(name)\(padding)\(bytes) bytes")
}
