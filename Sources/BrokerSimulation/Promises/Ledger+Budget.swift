// What one entry into the core may cost, whatever clients have sent.

extension Ledger {
    /// A event loop has entered the core with what its connections sent.
    func entered(cost: Int, costMaximum: Int) {
        guard cost > costMaximum else { return }
        accuse(
            .turnsAreBounded, "an entry into the core cost \(cost), at most \(costMaximum) was due")
    }
}
