// The resources that the process uses, as counted by the kernel.

import Glibc

/// The current memory and descriptors.
struct ProcessUsage {
    /// Resident memory. It includes the store's mapped pages, which the kernel may reclaim at any
    /// time.
    let residentBytes: UInt64
    let descriptorCount: UInt64
    /// The limit of descriptors (LimitNOFILE).
    let descriptorLimit: UInt64

    static func now() -> ProcessUsage {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return ProcessUsage(
            residentBytes: residentPages() * UInt64(sysconf(Int32(_SC_PAGESIZE))),
            descriptorCount: entryCount(of: "/proc/self/fd"),
            descriptorLimit: UInt64(limit.rlim_cur))
    }

    /// The second field of statm [proc(5)]; 0 without /proc.
    private static func residentPages() -> UInt64 {
        guard let file = fopen("/proc/self/statm", "re") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        guard fgets(&line, Int32(line.count), file) != nil else { return 0 }
        let text = line.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        let fields = text.split(separator: " ")
        return fields.count > 1 ? UInt64(fields[1]) ?? 0 : 0
    }

    private static func entryCount(of path: String) -> UInt64 {
        guard let directory = opendir(path) else { return 0 }
        defer { closedir(directory) }
        var count: UInt64 = 0
        while let entry = readdir(directory) {
            if entry.pointee.d_type == UInt8(DT_LNK) { count += 1 }
        }
        return count
    }
}
