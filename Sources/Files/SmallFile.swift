// Whole files that people write or read: configurations, rules, scenarios, secrets, reports.

import Glibc

/// The reason why a small file cannot be read or written.
public enum FileFailure: Error, Hashable, Sendable, CustomStringConvertible {
    case system(SystemError)
    /// It has more bytes than allowed, so it is probably the wrong file.
    case tooLarge(byteCountMaximum: Int)

    public var description: String {
        switch self {
        case .system(let error): error.description
        case .tooLarge(let maximum): "is larger than \(maximum) bytes"
        }
    }
}

/// A file that fits into memory.
public enum SmallFile {
    /// 1 MiB: more than any file that a person writes. A wrong path, such as a device, must not
    /// fill the memory.
    public static let byteCountMaximum = 1 << 20

    /// The content.
    public static func read(_ path: String) throws(FileFailure) -> [UInt8] {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw .system(.last) }
        defer { close(descriptor) }
        let content: [UInt8]
        do throws(SystemError) {
            content = try DescriptorIO.read(
                from: descriptor, byteCountMaximum: byteCountMaximum + 1)
        } catch {
            throw .system(error)
        }
        guard content.count <= byteCountMaximum else {
            throw .tooLarge(byteCountMaximum: byteCountMaximum)
        }
        return content
    }

    /// The first line of a file: a password or a token; nil if it is empty.
    public static func firstLine(_ content: [UInt8]) -> String? {
        let line = content.prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }
        return line.isEmpty ? nil : String(decoding: line, as: UTF8.self)
    }

    /// Replaces the contents. An interrupted write leaves an incomplete file.
    public static func write(_ text: String, to path: String) throws(FileFailure) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw .system(.last) }
        defer { close(descriptor) }
        do throws(SystemError) {
            try DescriptorIO.write(text.utf8, to: descriptor)
        } catch {
            throw .system(error)
        }
    }
}
