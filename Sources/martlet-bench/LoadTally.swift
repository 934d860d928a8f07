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
    /// Connections that ended although nobody wanted it.
    var connectionsLost: UInt64 = 0
}

/// The state of everything that is measured, at one moment.
struct Mark {
    var nanoseconds: UInt64
    var tally: LoadTally
    /// The broker's; nil where nobody said who it is.
    var broker: CostReading?
    /// Allocations of the broker so far; nil where they are not counted.
    var allocations: UInt64?
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
        return Double(last - first) / Double(count)
    }

    /// By how much the broker grew; nil where it was not measured.
    var residentGrowth: Int64? {
        guard let first = start.broker, let last = end.broker else { return nil }
        return Int64(last.residentBytes) - Int64(first.residentBytes)
    }
}
