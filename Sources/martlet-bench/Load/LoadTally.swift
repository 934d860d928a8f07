// The counts of a run, in total and at its marks. Plain numbers; LoadDriver counts.

/// Totals since the beginning of the run.
struct LoadTally {
    /// Deliveries that were not duplicates.
    var delivered: UInt64 = 0
    /// Sends that the broker has confirmed.
    var confirmed: UInt64 = 0
    var sendsRefused: UInt64 = 0
    /// Messages from outside of this run: retained ones, or those of other publishers.
    var foreign: UInt64 = 0
    var connected: UInt64 = 0
    /// Connections that ended without a request of the harness.
    var connectionsLost: UInt64 = 0
    /// Deliveries to stalled readers, and their connections that the broker closed.
    var deliveredToStalled: UInt64 = 0
    var stalledLost: UInt64 = 0
    /// Cycles of `churn` and wake-ups of `sleepy` that were completed during the measurement.
    var lives: UInt64 = 0
    /// Devices that were still awake when they should have woken.
    var wakesMissed: UInt64 = 0
}

/// All measured values at one moment.
struct Mark {
    var nanoseconds: UInt64
    var tally: LoadTally
    /// The broker's; nil if its process is unknown.
    var broker: CostReading?
    /// Allocations of the broker so far; nil if they are not counted.
    var allocations: AllocationReading?
    /// This program's load thread.
    var ownCPUNanoseconds: UInt64
}

/// The difference of two marks.
struct Interval {
    /// The unit of an operation.
    enum Operation: String {
        case delivery
        case enqueue
        case connect
        case will
        case cycle
    }

    var name: String
    var operation: Operation
    /// The number of operations.
    var count: UInt64
    var start: Mark
    var end: Mark

    var seconds: Double { Double(end.nanoseconds - start.nanoseconds) / 1e9 }
    var perSecond: Double { seconds > 0 ? Double(count) / seconds : 0 }

    /// CPU seconds of the broker per million operations; nil if they were not measured.
    var brokerSecondsPerMillion: Double? {
        guard count > 0, let first = start.broker, let last = end.broker else { return nil }
        return Double(last.cpuNanoseconds - first.cpuNanoseconds) / 1e3 / Double(count)
    }

    var ownSecondsPerMillion: Double {
        guard count > 0 else { return 0 }
        return Double(end.ownCPUNanoseconds - start.ownCPUNanoseconds) / 1e3 / Double(count)
    }

    /// Allocations of the broker per operation; nil if they were not counted.
    var allocationsPerOperation: Double? {
        guard count > 0, let first = start.allocations, let last = end.allocations else {
            return nil
        }
        return Double(last.allocations &- first.allocations) / Double(count)
    }

    /// Retains and releases of the broker per operation; nil if they were not counted.
    var referencesPerOperation: Double? {
        guard count > 0, let first = start.allocations, let last = end.allocations else {
            return nil
        }
        return Double(last.references &- first.references) / Double(count)
    }

    /// The share of one processor's time that the load's thread used.
    var ownShare: Double {
        seconds > 0
            ? Double(end.ownCPUNanoseconds - start.ownCPUNanoseconds) / 1e9 / seconds : 0
    }

    /// The share of one processor's time that the broker used; nil if it was not measured.
    var brokerShare: Double? {
        guard seconds > 0, let first = start.broker, let last = end.broker else { return nil }
        return Double(last.cpuNanoseconds - first.cpuNanoseconds) / 1e9 / seconds
    }

    /// Bytes that the broker wrote to disk per operation; nil if they were not measured.
    var writtenPerOperation: Double? {
        guard count > 0, let first = start.broker, let last = end.broker else { return nil }
        return Double(last.writtenBytes - first.writtenBytes) / Double(count)
    }

    /// Bytes of memory that the broker still holds per operation; nil if they were not measured.
    var heldPerOperation: Double? {
        guard count > 0, let first = start.broker, let last = end.broker else { return nil }
        return (Double(last.anonymousBytes) - Double(first.anonymousBytes)) / Double(count)
    }

    /// The growth of the broker; nil if it was not measured.
    var residentGrowth: Int64? {
        guard let first = start.broker, let last = end.broker else { return nil }
        return Int64(last.residentBytes) - Int64(first.residentBytes)
    }
}

/// One second of a run.
struct Sample {
    /// Its end.
    var nanoseconds: UInt64
    var stage = LoadDriver.Stage.connecting
    var tally = LoadTally()
    var sendCount: UInt64 = 0
    var broker: CostReading?
    var ownCPUNanoseconds: UInt64 = 0
    /// Latencies of this second, in nanoseconds; 0 if there were none.
    var median: UInt64 = 0
    var percentile99: UInt64 = 0

    init(nanoseconds: UInt64) {
        self.nanoseconds = nanoseconds
    }
}

/// The counters of libMallocCount at one moment.
struct AllocationReading {
    var allocations: UInt64
    /// Retains and releases together; 0 if the library cannot count them.
    var references: UInt64

    /// Zeros if the file cannot be read.
    static func read(_ path: String) -> AllocationReading {
        let words = ProcFile.words(path, count: 5)
        return AllocationReading(
            allocations: words.first ?? 0,
            references: words.count == 5 ? words[3] &+ words[4] : 0)
    }
}
