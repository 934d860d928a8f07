// The memory of argon2id hashes, which a thread keeps from one hash to the next. Without it, each
// hash maps 7 MiB and gives them back, and the kernel then interrupts the other cores of the
// process to forget the pages: 70 hashes a second raised the 99th percentile of message latency
// by half (docs/PERFORMANCE.md).

import CArgon2
import Glibc

/// Memory for hashes, one at a time, that is kept between them. Without any it allocates nothing.
public final class HashingMemory {
    private var kept: UnsafeMutableRawBufferPointer?
    /// Hashes that use it: at most one.
    private var useCount = 0

    public init() {}

    deinit { kept?.deallocate() }

    /// Gives the memory back.
    public func release() {
        precondition(useCount == 0, "memory is released while \(useCount) hashes use it")
        kept?.deallocate()
        kept = nil
    }

    /// Calls a function with those that allocate here. libargon2 passes nothing to them, so they
    /// find the memory by the thread.
    func lend(_ hash: (allocate_fptr, deallocate_fptr) -> Int32) -> Int32 {
        pthread_setspecific(Self.key, Unmanaged.passUnretained(self).toOpaque())
        defer { pthread_setspecific(Self.key, nil) }
        return hash(
            { place, count in
                guard let place, let memory = HashingMemory.ofThisThread else {
                    return ARGON2_MEMORY_ALLOCATION_ERROR.rawValue
                }
                place.pointee = memory.take(count)
                return ARGON2_OK.rawValue
            }, { _, _ in HashingMemory.ofThisThread?.useCount -= 1 })
    }

    private func take(_ count: Int) -> UnsafeMutablePointer<UInt8> {
        precondition(useCount == 0, "\(useCount) hashes use the memory of one")
        useCount = 1
        if let kept, kept.count >= count {
            return kept.bindMemory(to: UInt8.self).baseAddress!
        }
        kept?.deallocate()
        // libargon2 reads words of 16 bytes; 64 is a line of the cache.
        let new = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 64)
        kept = new
        return new.bindMemory(to: UInt8.self).baseAddress!
    }

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        let code = pthread_key_create(&key, nil)
        precondition(code == 0, "pthread_key_create: \(code)")
        return key
    }()

    private static var ofThisThread: HashingMemory? {
        pthread_getspecific(key).map {
            Unmanaged<HashingMemory>.fromOpaque($0).takeUnretainedValue()
        }
    }
}
