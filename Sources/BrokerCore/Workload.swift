// The work of events, in the unit of `CoreLimits.turnWorkMaximum`.
//
// Invariants: the units only grow; a cost below one unit is kept until there is more.

/// The work of the core.
struct Workload {
    /// Work without effects. Only differences are meaningful.
    private(set) var units = 0
    /// Comparisons of rights that do not add up to a unit yet.
    private var comparisonCount = 0
    /// Work of results of commits and deadlines, including effects, that no turn has been charged
    /// for.
    private var resultUnits = 0

    @inline(__always)
    mutating func charge(_ units: Int) {
        self.units += units
    }

    /// Charges comparisons of rights. Those that do not add up to a unit are added to the next.
    mutating func charge(comparisons: Int) {
        let sum = comparisonCount + comparisons
        units += sum / CoreLimits.comparisonsPerWork
        comparisonCount = sum % CoreLimits.comparisonsPerWork
    }

    /// Adds the work of a result or a deadline, for the next turn.
    mutating func chargeNextTurn(_ units: Int) {
        resultUnits += units
    }

    /// Returns the work to be charged to the current turn, and sets it to 0.
    mutating func takeResultUnits() -> Int {
        defer { resultUnits = 0 }
        return resultUnits
    }
}
