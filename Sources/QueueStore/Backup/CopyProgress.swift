// The progress of a copy, and its cancellation.

import Synchronization

/// Shared by the copying thread and the threads that read the progress.
public final class CopyProgress: Sendable {
    private let done = Atomic(0)
    private let total = Atomic(0)
    private let isCancelled = Atomic(false)

    public init() {}

    /// Bytes read so far, of the original and then of the copy.
    public var doneByteCount: Int { done.load(ordering: .relaxed) }
    /// The maximum of bytes to read: twice those of the originals that were begun, free pages
    /// included.
    public var totalByteCount: Int { total.load(ordering: .relaxed) }

    /// Makes the copy fail at its next page.
    public func cancel() {
        isCancelled.store(true, ordering: .relaxed)
    }

    func begin(totalByteCount: Int) {
        total.add(totalByteCount, ordering: .relaxed)
    }

    func advance(byByteCount count: Int) throws(StoreError) {
        done.add(count, ordering: .relaxed)
        try check()
    }

    /// Throws after ``cancel()``.
    public func check() throws(StoreError) {
        if isCancelled.load(ordering: .relaxed) { throw .cancelled }
    }
}
