// A token in a file, so that it is neither on a command line, which every user of the machine can
// read, nor in the environment.

import CommandLineOptions
import Files
import Glibc

enum TokenFile {
    /// The maximum of the file: more than the longest token and a line feed.
    private static let byteCountMaximum = 70_000

    /// The first line of a file that only its owner, and perhaps its group, may read.
    static func read(_ path: String) throws(UsageError) -> String {
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw UsageError("--token-file: \(path): \(SystemError.last)")
        }
        defer { close(descriptor) }
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_mode & S_IFMT == S_IFREG else {
            throw UsageError("--token-file: \(path) is not a regular file")
        }
        guard information.st_mode & 0o007 == 0 else {
            throw UsageError(
                "--token-file: others may read \(path); take that away with: chmod o= \(path)")
        }
        let content: [UInt8]
        do throws(SystemError) {
            content = try DescriptorIO.read(from: descriptor, byteCountMaximum: byteCountMaximum)
        } catch {
            throw UsageError("--token-file: \(path): \(error)")
        }
        guard let token = SmallFile.firstLine(content) else {
            throw UsageError("--token-file: the first line of \(path) is empty")
        }
        return token
    }
}
