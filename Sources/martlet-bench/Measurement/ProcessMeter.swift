// The resources that a process has used, read from /proc, and the clocks of this one. A measurement
// is the difference of two readings.

import CommandLineOptions
import Glibc
import NetTransport

/// Nanoseconds of CLOCK_MONOTONIC.
func monotonicNanoseconds() -> UInt64 {
    nanoseconds(of: CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, in nanoseconds.
func ownThreadNanoseconds() -> UInt64 {
    nanoseconds(of: CLOCK_THREAD_CPUTIME_ID)
}

func nanoseconds(of clock: clockid_t) -> UInt64 {
    var time = timespec()
    clock_gettime(clock, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// The process or thread whose costs are measured.
enum CostSource {
    /// Another process, by its id.
    case process(Int)
    /// A thread of this process, by its CPU clock.
    case thread(clockid_t)
}

/// One reading.
struct CostReading {
    /// CPU time used so far, in nanoseconds.
    var cpuNanoseconds: UInt64 = 0
    /// 0 for a thread.
    var residentBytes: UInt64 = 0
    /// The same without the pages of mapped files, such as a store: those are the kernel's cache.
    var anonymousBytes: UInt64 = 0
    /// 0 for a thread.
    var descriptorCount = 0
    /// Bytes that it wrote to disk, by page; 0 for threads and other users' processes.
    var writtenBytes: UInt64 = 0
}

extension CostSource {
    /// Nil if the process has ended, or belongs to another user.
    func read() -> CostReading? {
        switch self {
        case .thread(let clock):
            return CostReading(cpuNanoseconds: nanoseconds(of: clock))
        case .process(let process):
            // Its own clock, because the ticks of /proc/PID/stat are a tenth of the cost of a short
            // load.
            var clock = clockid_t()
            guard clock_getcpuclockid(pid_t(process), &clock) == 0,
                let memory = ProcFile.text("/proc/\(process)/statm")?.split(separator: " "),
                memory.count > 2, let pages = UInt64(memory[1]), let filePages = UInt64(memory[2])
            else { return nil }
            let pageByteCount = UInt64(sysconf(Int32(_SC_PAGESIZE)))
            return CostReading(
                cpuNanoseconds: nanoseconds(of: clock),
                residentBytes: pages * pageByteCount,
                anonymousBytes: (pages - filePages) * pageByteCount,
                descriptorCount: ProcFile.entryCount("/proc/\(process)/fd"),
                writtenBytes: ProcFile.text("/proc/\(process)/io").flatMap(ProcFile.writtenBytes)
                    ?? 0)
        }
    }
}

/// Small files of the kernel.
enum ProcFile {
    static func text(_ path: String) -> String? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let text = String(unsafeUninitializedCapacity: 4096) {
            max(0, Glibc.read(descriptor, $0.baseAddress!, $0.count))
        }
        return text.isEmpty ? nil : text
    }

    /// The first eight-byte words of a file; fewer if it is shorter.
    static func words(_ path: String, count: Int) -> [UInt64] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        return [UInt64](unsafeUninitializedCapacity: count) { words, filled in
            let size = MemoryLayout<UInt64>.size
            filled = max(0, Glibc.read(descriptor, words.baseAddress, count * size)) / size
        }
    }

    /// From the lines of /proc/PID/io.
    static func writtenBytes(_ text: String) -> UInt64? {
        text.split(separator: "\n").first { $0.hasPrefix("write_bytes: ") }
            .flatMap { UInt64($0.dropFirst("write_bytes: ".count)) }
    }

    static func entryCount(_ path: String) -> Int {
        guard let directory = opendir(path) else { return 0 }
        defer { closedir(directory) }
        var count = 0
        while let entry = readdir(directory) {
            // "." and ".."
            if entry.pointee.d_name.0 != CChar(UInt8(ascii: ".")) { count += 1 }
        }
        return count
    }
}

/// The limits of this process, so that they are not taken for the broker's: checked before the load
/// begins, and named when one is reached.
enum OwnLimits {
    /// A connect that could not begin, with advice if there is any.
    static func explain(_ error: TransportError) -> String {
        guard case .system(_, _, let number) = error else { return "\(error)" }
        switch number {
        case EMFILE, ENFILE:
            return
                "\(error); this is the harness's limit, not the broker's: raise it with ulimit -n"
        case EADDRNOTAVAIL, EADDRINUSE:
            return "\(error); the ports of this machine have run out, not the broker: name more "
                + "source addresses with --ifaddr 127.0.0.1,127.0.0.2"
        default: return "\(error)"
        }
    }

    /// The obstacles to connects besides the broker: ports of earlier runs, which the kernel keeps
    /// for a minute. While many are in use, every connect searches long for a free one; and a
    /// connect from a port whose other end still remembers it is answered only when it is repeated,
    /// after 1, 3 and 7 seconds. Empty if there are none.
    static func explainWaiting(clients: Int) -> String {
        guard let ports = localPorts, let taken = waitingPorts, taken + clients > ports / 2 else {
            return ""
        }
        return "; \(taken) of the \(ports) ports of this machine are still taken after earlier "
            + "runs: wait a minute, or name a fresh source address, as --ifaddr 127.0.0.2"
    }

    /// Ports for outgoing connections of one address.
    private static var localPorts: Int? {
        guard let text = ProcFile.text("/proc/sys/net/ipv4/ip_local_port_range") else { return nil }
        let bounds = text.split { $0.isWhitespace }.compactMap { Int($0) }
        return bounds.count == 2 ? bounds[1] - bounds[0] + 1 : nil
    }

    /// Connections of all addresses in TIME_WAIT: "TCP: inuse 60 orphan 0 tw 15017 alloc 102 mem
    /// 218".
    private static var waitingPorts: Int? {
        let words = ProcFile.text("/proc/net/sockstat")?.split { $0.isWhitespace } ?? []
        guard let name = words.firstIndex(of: "tw"), name + 1 < words.count else { return nil }
        return Int(words[name + 1])
    }

    /// Raises the number of descriptors as far as possible; returns an error if `clients` do not
    /// fit.
    static func prepare(
        for clients: Int, descriptorsPerClient: Int, sourceAddresses: Int
    ) throws(UsageError) {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let reserve = 64
        if clients * descriptorsPerClient + reserve > Int(clamping: limit.rlim_cur) {
            throw UsageError(
                "this process may open \(limit.rlim_cur) descriptors, which is too few for "
                    + "\(clients) connections; raise the limit with ulimit -n")
        }
        guard let each = localPorts else { return }
        let ports = each * max(1, sourceAddresses)
        if clients > ports {
            throw UsageError(
                "this machine has \(ports) ports for outgoing connections, which is too few for "
                    + "\(clients); name more source addresses with --ifaddr 127.0.0.1,127.0.0.2")
        }
    }
}
