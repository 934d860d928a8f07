// Whole files that people write: the rule file, and secrets.

import Glibc

/// A file that fits into memory.
public enum SmallFile {
    /// More than any rule file or token.
    static let byteCountMaximum = 1 << 20

    /// The content; nil where it cannot be read, or is too large to be what it should be.
    public static func read(_ path: String) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var content: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return nil }
            if count == 0 { return content }
            content += chunk[..<count]
            guard content.count <= byteCountMaximum else { return nil }
        }
    }
}
