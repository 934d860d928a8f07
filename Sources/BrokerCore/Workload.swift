// What events have cost, in the unit of `CoreLimits.turnWorkMaximum`. It knows nothing of the work.
//
// Invariants: the units only grow; a cost below one unit is kept until there is more.

/// The work of the core.
struct Workload {
    /// Work beside effects. Only differences mean something.
    private(set) var units = 0
    /// Comparisons of rights that are less than a unit.
    private(set) var comparisonCount = 0
    /// What results of commits and deadlines have cost, effects included, and no turn has been
    /// charged for.
    private var resultUnits = 0

    @inline(__always)
    mutating func charge(_ units: Int) {
        self.units += units
    }

    /// Charges comparisons of rights, among them those that were less than a unit before.
    mutating func charge(comparisons: Int) {
        units += comparisons / CoreLimits.comparisonsPerWork
        comparisonCount = comparisons % CoreLimits.comparisonsPerWork
    }

    /// Notes the cost of a result or a deadline for the next turn.
    mutating func chargeNextTurn(_ units: Int) {
        resultUnits += units
    }

    /// What the turn is charged for that calls this.
    mutating func takeResultUnits() -> Int {
        defer { resultUnits = 0 }
        return resultUnits
    }
}
