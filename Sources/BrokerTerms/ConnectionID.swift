// The identifier of one connection, as a plain number: its event loop, its slot, and the slot's
// generation. A channel of a gateway's connection has such an identifier too, so that code which
// handles connections does not distinguish the two.

/// One connection until it closes, in 8 bytes. The next connection in the same slot has another
/// generation, so that an outdated identifier matches no connection.
///
///     63      56 55            32 31                    0
///     +---------+----------------+-----------------------+
///     |  loop   |      slot      |      generation       |
///     +---------+----------------+-----------------------+
public struct ConnectionID: Hashable, BitwiseCopyable, Sendable {
    /// The number of slots that 24 bits can name.
    public static let slotsMaximum = 1 << 24

    /// The upper half of the slots belongs to channels, which have no socket of their own.
    public static let channelSlotsStart = 1 << 23

    /// All three parts in one number, for tables and kernel events.
    public let rawValue: UInt64

    @inlinable
    public init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    /// `loop` 0...255 is the event loop, `slot` the place there, below ``slotsMaximum``.
    @inlinable
    public init(loop: UInt8, slot: Int, generation: UInt32) {
        precondition(
            slot >= 0 && slot < ConnectionID.slotsMaximum, "slot \(slot) has more than 24 bits")
        rawValue = UInt64(loop) << 56 | UInt64(slot) << 32 | UInt64(generation)
    }

    /// The event loop that owns the connection.
    @inlinable
    public var loop: UInt8 { UInt8(truncatingIfNeeded: rawValue >> 56) }

    /// Its place in that loop's table.
    @inlinable
    public var slot: Int { Int(truncatingIfNeeded: rawValue >> 32) & 0xFF_FFFF }

    /// Whether it is carried by another connection (docs/PROTOCOL.md section 7, CHANNEL).
    @inlinable
    public var isChannel: Bool { rawValue & 1 << 55 != 0 }

    /// Its index among the sockets or among the channels, for tables.
    @inlinable
    public var place: Int { slot & (ConnectionID.channelSlotsStart - 1) }

    /// Counts the connections of the slot; never 0.
    @inlinable
    public var generation: UInt32 { UInt32(truncatingIfNeeded: rawValue) }
}

extension ConnectionID: CustomStringConvertible {
    /// `loop.slot.generation`, as logs show it.
    public var description: String { "\(loop).\(slot).\(generation)" }
}
