// A token in a file, so that it stands neither in a command line, which every user of the machine
// can read, nor in an environment.

import CommandLineOptions
import Glibc

enum TokenFile {
    /// Bytes of the file: more than the longest token and a line feed.
    private static let byteCountMaximum = 70_000

    /// The first line of a file that only its owner, and perhaps its group, may read.
    static func read(_ path: String) throws(UsageError) -> String {
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw UsageError("--token-file: \(path): \(String(cString: strerror(errno)))")
        }
        defer { close(descriptor) }
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_mode & S_IFMT == S_IFREG else {
            throw UsageError("--token-file: \(path) is no file")
        }
        guard information.st_mode & 0o007 == 0 else {
            throw UsageError(
                "--token-file: others may read \(path); take that away with: chmod o= \(path)")
        }
        var content: [UInt8] = []
        var room = [UInt8](repeating: 0, count: byteCountMaximum)
        while content.count < byteCountMaximum {
            let count = Glibc.read(descriptor, &room, byteCountMaximum - content.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                throw UsageError("--token-file: \(path): \(String(cString: strerror(errno)))")
            }
            if count == 0 { break }
            content += room[..<count]
        }
        let line = content.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        guard !line.isEmpty else {
            throw UsageError("--token-file: the first line of \(path) is empty")
        }
        return String(decoding: line, as: UTF8.self)
    }
}
