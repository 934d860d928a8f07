// A value that few owners have.

/// What can be made from nothing.
public protocol EmptyInitializable: ~Copyable {
    init()
}

/// One word for a value that most of its owners never need. Without memory of its own it reads as
/// an empty one; the first change makes some.
public struct Rare<Value: EmptyInitializable & ~Copyable>: ~Copyable {
    @usableFromInline var storage: UnsafeMutablePointer<Value>?

    @inlinable
    public init() {}

    deinit { giveUp() }

    /// Whether it has memory of its own.
    @inlinable
    public var exists: Bool { storage != nil }

    @inlinable
    public var value: Value {
        _read {
            if let storage {
                yield storage.pointee
            } else {
                yield Value()
            }
        }
        _modify {
            let storage = self.storage ?? make()
            yield &storage.pointee
        }
    }

    /// Forgets the value and gives its memory back.
    public mutating func reset() {
        giveUp()
        storage = nil
    }

    @usableFromInline
    mutating func make() -> UnsafeMutablePointer<Value> {
        let made = UnsafeMutablePointer<Value>.allocate(capacity: 1)
        made.initialize(to: Value())
        storage = made
        return made
    }

    private func giveUp() {
        storage?.deinitialize(count: 1)
        storage?.deallocate()
    }
}

// The value owns its memory alone.
extension Rare: @unchecked Sendable where Value: Sendable & ~Copyable {}
