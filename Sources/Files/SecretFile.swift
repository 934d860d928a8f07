// A token or password in a file, so that it is neither on a command line, which every user of the
// machine can read, nor in the environment.

import Glibc

/// The reason why a secret cannot be read.
public struct SecretFileFailure: Error, Hashable, Sendable, CustomStringConvertible {
    public let description: String
}

/// A file whose first line is a secret.
public enum SecretFile {
    /// The maximum of the file: more than the longest token and a line feed.
    private static let byteCountMaximum = 70_000

    /// The first line of a file that only its owner, and perhaps its group, may read.
    public static func read(_ path: String) throws(SecretFileFailure) -> String {
        guard let line = SmallFile.firstLine(try content(path)) else {
            throw SecretFileFailure(description: "the first line of \(path) is empty")
        }
        return line
    }

    /// A whole file that only its owner, and perhaps its group, may read.
    public static func content(_ path: String) throws(SecretFileFailure) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw SecretFileFailure(description: "\(path): \(SystemError.last)")
        }
        defer { close(descriptor) }
        var information = stat()
        guard fstat(descriptor, &information) == 0, information.st_mode & S_IFMT == S_IFREG else {
            throw SecretFileFailure(description: "\(path) is not a regular file")
        }
        guard information.st_mode & 0o007 == 0 else {
            throw SecretFileFailure(
                description: "others may read \(path); take that away with: chmod o= \(path)")
        }
        do throws(SystemError) {
            return try DescriptorIO.read(from: descriptor, byteCountMaximum: byteCountMaximum)
        } catch {
            throw SecretFileFailure(description: "\(path): \(error)")
        }
    }
}
