// The limit of the cost of one entry into the core.

extension Oracle {
    /// An event loop has entered the core with the events of its connections.
    func entered(cost: Int, costMaximum: Int) {
        guard cost > costMaximum else { return }
        fail(
            .turnsAreBounded, "an entry into the core cost \(cost), the maximum is \(costMaximum)")
    }
}
