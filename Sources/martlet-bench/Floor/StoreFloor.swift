// The minimal cost of a durable message: its rows, written to LMDB by minimal code, and the commits
// that sync them. There are no connections, sessions or limits. It is the floor of an `offline`
// load in `compare`.

import CLMDB
import Glibc

/// A store in an existing directory. Closed when it goes out of scope.
struct StoreFloor: ~Copyable {
    private let environment: OpaquePointer
    private let messages: MDB_dbi
    private let entries: MDB_dbi

    /// Martlet's overhead beside a payload: the checksums and counts of a row, the head of a
    /// message and its sender's name; and the value of a queue's entry.
    private static let bodyOverheadByteCount = 48
    private static let entryByteCount = 36
    /// Address space, of which only the used part costs anything.
    private static let mapByteCount = 1 << 36

    init(directory: String) throws(BenchFailure) {
        var environment: OpaquePointer?
        try StoreFloor.check(mdb_env_create(&environment))
        try StoreFloor.check(mdb_env_set_mapsize(environment, StoreFloor.mapByteCount))
        try StoreFloor.check(mdb_env_set_maxdbs(environment, 2))
        try StoreFloor.check(mdb_env_open(environment, directory, 0, 0o600))
        var transaction: OpaquePointer?
        try StoreFloor.check(mdb_txn_begin(environment, nil, 0, &transaction))
        var messages: MDB_dbi = 0
        var entries: MDB_dbi = 0
        try StoreFloor.check(
            mdb_dbi_open(transaction, "messages", UInt32(MDB_CREATE), &messages))
        try StoreFloor.check(mdb_dbi_open(transaction, "entries", UInt32(MDB_CREATE), &entries))
        try StoreFloor.check(mdb_txn_commit(transaction))
        self.environment = environment!
        self.messages = messages
        self.entries = entries
    }

    deinit { mdb_env_close(environment) }

    /// Stores the messages of an `offline` load, in commits of as many messages as its windows
    /// allow in flight.
    static func measure(_ plan: Plan, directory: String) throws(BenchFailure) -> Report {
        let floor = try StoreFloor(directory: directory)
        var each = plan.publisherCount
        if case .window(let window) = plan.pace { each *= window }
        let total = Int(plan.limit) * plan.publisherCount
        let start = mark()
        var number = 0
        while number < total, !Interruption.hasCome {
            let count = min(each, total - number)
            try floor.commit(number..<number + count, plan)
            number += count
        }
        let interval = Interval(
            name: "enqueue", operation: .enqueue, count: UInt64(total * plan.receiversPerMessage),
            start: start, end: mark())
        return Report(plan, interval)
    }

    private static func mark() -> Mark {
        Mark(
            nanoseconds: monotonicNanoseconds(), tally: LoadTally(),
            broker: CostSource.process(Int(getpid())).read(), allocations: nil,
            ownCPUNanoseconds: 0)
    }

    private func commit(_ numbers: Range<Int>, _ plan: Plan) throws(BenchFailure) {
        var transaction: OpaquePointer?
        try StoreFloor.check(mdb_txn_begin(environment, nil, 0, &transaction))
        let body = [UInt8](
            repeating: 7, count: plan.payloadByteCount + StoreFloor.bodyOverheadByteCount)
        for number in numbers {
            try put(
                [UInt64(number + 1)], value: body, flags: MDB_APPEND, table: messages,
                transaction: transaction)
            // Publishers take turns; each fills its own receiver's queue, or all queues.
            let (round, publisher) = number.quotientAndRemainder(dividingBy: plan.publisherCount)
            let queues =
                plan.topology == .pairs ? publisher..<publisher + 1 : 0..<plan.receiverCount
            let entry = [UInt8](repeating: 7, count: StoreFloor.entryByteCount)
            for queue in queues {
                try put(
                    [UInt64(queue), UInt64(round + 1)], value: entry, flags: MDB_NOOVERWRITE,
                    table: entries,
                    transaction: transaction)
            }
        }
        try StoreFloor.check(mdb_txn_commit(transaction))
    }

    /// Numbers in keys are big-endian, so that their order is that of the bytes.
    private func put(
        _ key: [UInt64], value: [UInt8], flags: Int32, table: MDB_dbi,
        transaction: OpaquePointer?
    ) throws(BenchFailure) {
        var key = key.map(\.bigEndian)
        var value = value
        let code = key.withUnsafeMutableBytes { key in
            value.withUnsafeMutableBytes { value in
                var name = MDB_val(mv_size: key.count, mv_data: key.baseAddress)
                var content = MDB_val(mv_size: value.count, mv_data: value.baseAddress)
                return mdb_put(transaction, table, &name, &content, UInt32(flags))
            }
        }
        try StoreFloor.check(code)
    }

    private static func check(_ code: Int32) throws(BenchFailure) {
        guard code == MDB_SUCCESS else {
            throw BenchFailure("LMDB: \(String(cString: mdb_strerror(code)))")
        }
    }
}
