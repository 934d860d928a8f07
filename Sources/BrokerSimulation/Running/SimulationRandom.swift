// The only random numbers of a simulation: a generator with the same numbers for the same seed on
// every machine and with every version of the standard library.

import Primitives

/// Each part of a simulation has its own generator, so that one part's choices do not change
/// another's.
struct SimulationRandom {
    private var numbers: SplitMix64

    init(seed: UInt64) {
        numbers = SplitMix64(seed: seed)
    }

    mutating func next() -> UInt64 { numbers.next() }

    /// An independent generator.
    mutating func fork() -> SimulationRandom { SimulationRandom(seed: next()) }

    /// A number from 0 to `bound - 1`.
    mutating func below(_ bound: Int) -> Int {
        precondition(bound > 0, "a random number below \(bound)")
        return Int(truncatingIfNeeded: next().multipliedFullWidth(by: UInt64(bound)).high)
    }

    mutating func number(in range: ClosedRange<Int>) -> Int {
        range.lowerBound + below(range.count)
    }

    mutating func milliseconds(in range: ClosedRange<UInt64>) -> UInt64 {
        range.lowerBound + UInt64(below(Int(range.upperBound - range.lowerBound) + 1))
    }

    /// True this many times in ten thousand.
    mutating func happens(perTenThousand: Int) -> Bool { below(10_000) < perTenThousand }

    mutating func pick<Element>(_ choices: [Element]) -> Element {
        choices[below(choices.count)]
    }

    /// A random index of `weights`, in proportion to its weight; at least one is above 0.
    mutating func index(weights: [Int]) -> Int {
        var rest = below(weights.reduce(0, +))
        for (index, weight) in weights.enumerated() {
            if rest < weight { return index }
            rest -= weight
        }
        preconditionFailure("no index for weights \(weights)")
    }
}
