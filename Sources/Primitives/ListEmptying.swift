// Emptying lists that are filled again and again: those of a batch, those of a turn.

/// Bounds of what a list keeps when it is emptied.
@usableFromInline
enum ListLimits {
    /// Bytes of an empty list: 25,000 entries of a batch, which holds some 16,384. A dozen lists
    /// that kept 4 MiB each were 27 MiB after a burst. What a rare burst needed beyond goes back; a
    /// list that needs as much each time pays a tenth of a microsecond for each page.
    @usableFromInline static let keptBytesMaximum = 1 << 20
}

extension Array {
    /// Empties the list and keeps its memory, where that is not the memory of a burst. The
    /// library's way replaces a range, which takes its time also where the list is empty, as most
    /// of a batch's dozens are.
    @inlinable @inline(__always)
    public mutating func removeAllKeepingCapacity() {
        if isEmpty { return }
        if capacity * MemoryLayout<Element>.stride > ListLimits.keptBytesMaximum {
            self = []
        } else {
            removeAll(keepingCapacity: true)
        }
    }
}

extension ContiguousArray {
    /// As that of an array.
    @inlinable @inline(__always)
    public mutating func removeAllKeepingCapacity() {
        if isEmpty { return }
        if capacity * MemoryLayout<Element>.stride > ListLimits.keptBytesMaximum {
            self = []
        } else {
            removeAll(keepingCapacity: true)
        }
    }
}
