// The limit of event loops, which the configuration, the core and the runtime share.

/// The limits of the event loops.
public enum LoopLimits {
    /// Maximum number of event loops: the runtime has a bit for each in a 64-bit word.
    public static let countMaximum = 64
}
