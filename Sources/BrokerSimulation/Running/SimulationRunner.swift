// From a run that fails to a shorter one that fails too, and its history.

/// Runs, and repeats failing runs with less in them.
public enum SimulationRunner {
    /// The shortest run with the fewest kinds of faults that was found to fail like this one, with
    /// its history.
    ///
    /// A run with fewer steps is the beginning of the same run, so that the number of steps is
    /// found by halving; then each kind of fault is left out where the run fails without it.
    ///
    /// - Parameter runMaximum: how many runs it may cost.
    public static func shrink(
        _ failing: SimulationOptions, runMaximum: Int = 60
    ) -> SimulationReport {
        var runsLeft = runMaximum
        var best = failing
        func fails(_ options: SimulationOptions) -> Bool {
            guard runsLeft > 0 else { return false }
            runsLeft -= 1
            return Simulation(options).run().violation != nil
        }
        for fault in Faults.names where best.faults.contains(fault.fault) {
            var calmer = best
            calmer.faults.remove(fault.fault)
            if fails(calmer) { best = calmer }
        }
        var low = 0
        while best.stepMaximum - low > 1 {
            var shorter = best
            shorter.stepMaximum = (low + best.stepMaximum) / 2
            if fails(shorter) {
                best = shorter
            } else if runsLeft > 0 {
                low = shorter.stepMaximum
            } else {
                break
            }
        }
        return Simulation(best, History(isRecording: true)).run()
    }

    /// One run.
    ///
    /// - Parameter listener: hears every line of the history at once.
    public static func run(
        _ options: SimulationOptions, listener: ((String) -> Void)? = nil
    ) -> SimulationReport {
        Simulation(options, History(isRecording: listener != nil, listener: listener)).run()
    }
}
