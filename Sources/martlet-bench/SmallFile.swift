// Small files, whole: reports, scenario files, configurations of brokers.

import Glibc

enum SmallFile {
    static func read(_ path: String) throws(BenchFailure) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("read", path) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = piece.withUnsafeMutableBytes {
                Glibc.read(descriptor, $0.baseAddress, $0.count)
            }
            guard count >= 0 else { throw failure("read", path) }
            if count == 0 { return bytes }
            bytes += piece[..<count]
        }
    }

    /// Replaces what was there.
    static func write(_ text: String, to path: String) throws(BenchFailure) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw failure("write", path) }
        defer { close(descriptor) }
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else { throw failure("write", path) }
            rest = rest.dropFirst(count)
        }
    }

    private static func failure(_ verb: String, _ path: String) -> BenchFailure {
        BenchFailure("cannot \(verb) \(path): \(String(cString: strerror(errno)))")
    }
}
