// Descriptors that are held for a moment, so that other threads of the process cannot use them.

import Glibc

/// Descriptors of `/dev/null`, until ``release()``.
struct DescriptorReserve: ~Copyable {
    /// LMDB opens three: its lock, the data file, and the data file for writing through. The others
    /// are for the connections that an event loop accepts between the release and LMDB's calls,
    /// which take some 100 microseconds (strace).
    static let count = 32

    private var descriptors: [Int32] = []

    init() {
        while descriptors.count < Self.count {
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { return }
            descriptors.append(descriptor)
        }
    }

    deinit {
        for descriptor in descriptors { close(descriptor) }
    }

    /// Whether the process had so many.
    var isComplete: Bool { descriptors.count == Self.count }

    mutating func release() {
        for descriptor in descriptors { close(descriptor) }
        descriptors = []
    }
}
