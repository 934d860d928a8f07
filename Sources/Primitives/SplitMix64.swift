// SplitMix64 (Steele, Lea, Flood 2014): random numbers that are spread evenly, and no secrets.

/// A generator: a counter and a mix. The same seed gives the same numbers on every machine.
public struct SplitMix64: Sendable {
    private var state: UInt64

    public init(seed: UInt64) {
        state = seed
    }

    public mutating func next() -> UInt64 {
        state &+= Self.increment
        return Self.mixed(state)
    }

    /// What is added for each number: 2^64 divided by the golden ratio.
    public static let increment: UInt64 = 0x9E37_79B9_7F4A_7C15

    /// A number with its bits mixed: the finisher. Different numbers give different results.
    public static func mixed(_ number: UInt64) -> UInt64 {
        var mixed = number
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
