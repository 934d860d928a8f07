// The seeds of the store's checksums. LMDB has none of its own.

import Primitives

/// The seed of a checksum. On disk: never change or reuse one.
enum ChecksumSeed: UInt64 {
    case meta = 1
    case messageHead = 2
    case message = 3
    case release = 4
    case entry = 5
    case record = 6
    case doomedQueue = 7
    case damagedEntry = 8
}

extension Checksum {
    /// Starts the sum of a table.
    @inline(__always)
    init(_ seed: ChecksumSeed) { self.init(seed: seed.rawValue) }
}
