// Descriptors that are held for a moment, so that other threads of the process cannot use them.

import Glibc

/// Descriptors of `/dev/null`, released when it goes out of scope.
struct DescriptorReserve: ~Copyable {
    /// LMDB opens three: its lock, the data file, and the data file for synchronous writes. The
    /// others are for connections that an event loop accepts between the release and LMDB's calls,
    /// which take some 100 microseconds (strace).
    static let count = 32

    private let descriptors: [Int32]

    /// Nil if the process has too few descriptors left, or no `/dev/null`.
    init?() {
        var descriptors: [Int32] = []
        while descriptors.count < Self.count {
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else {
                for opened in descriptors { close(opened) }
                return nil
            }
            descriptors.append(descriptor)
        }
        self.descriptors = descriptors
    }

    deinit {
        for descriptor in descriptors { close(descriptor) }
    }
}
