// What is counted during a run and at its marks. Plain numbers; who counts what stands in
// LoadDriver.

/// Totals since the run began.
struct LoadTally {
    /// Deliveries that were not duplicates.
    var delivered: UInt64 = 0
    /// Sends that the broker has confirmed.
    var confirmed: UInt64 = 0
    var sendsRefused: UInt64 = 0
    /// Messages that are not of this run: retained ones, or those of other publishers.
    var foreign: UInt64 = 0
    var connected: UInt64 = 0
    /// Connections that the harness did not end.
    var connectionsLost: UInt64 = 0
    /// Deliveries to readers that stall, and connections of theirs that the broker ended.
    var deliveredToStalled: UInt64 = 0
    var stalledLost: UInt64 = 0
    /// Lives of `churn` and wakings of `sleepy` that came to their end while they were measured.
    var lives: UInt64 = 0
    /// Devices that were still awake when they should have woken.
    var wakesMissed: UInt64 = 0
}

/// The state of everything that is measured, at one moment.
struct Mark {
    var nanoseconds: UInt64
    var tally: LoadTally
    /// The broker's; nil if its process is not known.
    var broker: CostReading?
    /// Allocations of the broker so far; nil where they are not counted.
    var allocations: AllocationReading?
    /// This program's load thread.
    var ownCPUNanoseconds: UInt64
}

/// What happened between two marks.
struct Interval {
    /// What there is one of per operation.
    enum Operation: String {
        case delivery
        case enqueue
        case connect
        case will
        case cycle
    }

    var name: String
    var operation: Operation
    /// What was counted, in operations.
    var count: UInt64
    var start: Mark
    var end: Mark

    var seconds: Double { Double(end.nanoseconds - start.nanoseconds) / 1e9 }
    var perSecond: Double { seconds > 0 ? Double(count) / seconds : 0 }

    /// CPU seconds of the broker per million operations; nil where they were not measured.
    var brokerSecondsPerMillion: Double? {
        guard count > 0, let first = start.broker, let last = end.broker else { return nil }
        return Double(last.cpuNanoseconds - first.cpuNanoseconds) / 1e3 / Double(count)
    }

    var ownSecondsPerMillion: Double {
        guard count > 0 else { return 0 }
        return Double(end.ownCPUNanoseconds - start.ownCPUNanoseconds) / 1e3 / Double(count)
    }

    /// Allocations of the broker per operation; nil where they were not counted.
    var allocationsPerOperation: Double? {
        guard count > 0, let first = start.allocations, let last = end.allocations else {
            return nil
        }
        return Double(last.allocations &- first.allocations) / Double(count)
    }

    /// Retains and releases of the broker per operation; nil where they were not counted.
    var referencesPerOperation: Double? {
        guard count > 0, let first = start.allocations, let last = end.allocations else {
            return nil
        }
        return Double(last.references &- first.references) / Double(count)
    }

    /// Of one processor's time, how much the load's thread had.
    var ownShare: Double {
        seconds > 0
            ? Double(end.ownCPUNanoseconds - start.ownCPUNanoseconds) / 1e9 / seconds : 0
    }

    /// Of one processor's time, how much the broker had; nil where it was not measured.
    var brokerShare: Double? {
        guard seconds > 0, let first = start.broker, let last = end.broker else { return nil }
        return Double(last.cpuNanoseconds - first.cpuNanoseconds) / 1e9 / seconds
    }

    /// Bytes that the broker had written to the disk per operation; nil where they were not
    /// measured.
    var writtenPerOperation: Double? {
        guard count > 0, let first = start.broker, let last = end.broker else { return nil }
        return Double(last.writtenBytes - first.writtenBytes) / Double(count)
    }

    /// Bytes of its own memory that the broker holds per operation; nil where they were not
    /// measured.
    var heldPerOperation: Double? {
        guard count > 0, let first = start.broker, let last = end.broker else { return nil }
        return (Double(last.anonymousBytes) - Double(first.anonymousBytes)) / Double(count)
    }

    /// By how much the broker grew; nil where it was not measured.
    var residentGrowth: Int64? {
        guard let first = start.broker, let last = end.broker else { return nil }
        return Int64(last.residentBytes) - Int64(first.residentBytes)
    }
}

/// One second of a run.
struct Sample {
    /// When it ended.
    var nanoseconds: UInt64
    var stage = LoadDriver.Stage.connecting
    var tally = LoadTally()
    var sendCount: UInt64 = 0
    var broker: CostReading?
    var ownCPUNanoseconds: UInt64 = 0
    /// Of the latencies of this second, in nanoseconds; 0 where there were none.
    var median: UInt64 = 0
    var percentile99: UInt64 = 0

    init(nanoseconds: UInt64) {
        self.nanoseconds = nanoseconds
    }
}

/// The counters that libMallocCount keeps, at one moment.
struct AllocationReading {
    var allocations: UInt64
    /// Retains and releases together; 0 where the library cannot count them.
    var references: UInt64

    /// Zeros where the file cannot be read.
    static func read(_ path: String) -> AllocationReading {
        let words = ProcFile.words(path, count: 5)
        return AllocationReading(
            allocations: words.first ?? 0,
            references: words.count == 5 ? words[3] &+ words[4] : 0)
    }
}
