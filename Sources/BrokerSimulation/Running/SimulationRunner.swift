// Reduces a failing run to a shorter one that also fails, with its history.

/// Runs simulations, and reduces failing ones.
public enum SimulationRunner {
    /// The shortest run with the fewest kinds of faults that was found to fail like this one, with
    /// its history.
    ///
    /// A run with fewer steps is the beginning of the same run, so the number of steps is found by
    /// bisection. Then each kind of fault is removed if the run fails without it.
    ///
    /// - Parameter runMaximum: the maximum of runs.
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
    /// - Parameter listener: receives every line of the history at once.
    public static func run(
        _ options: SimulationOptions, listener: ((String) -> Void)? = nil
    ) -> SimulationReport {
        Simulation(options, History(isRecording: listener != nil, listener: listener)).run()
    }
}
