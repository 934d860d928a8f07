// Files of another broker, which people wrote: read as a whole and reported by line. A line that
// is not UTF-8 is reported and skipped, so that the others are not lost.

import Files
import Glibc

/// A text file with the numbers of its lines.
struct ImportFile {
    struct Line {
        let text: String
        /// `FILE:LINE`.
        let place: String
    }

    let lines: [Line]
    /// Whether all lines are UTF-8; the report tells the others.
    let isComplete: Bool

    /// Bytes of a file: a password file of a million users.
    static let byteCountMaximum = 256 << 20

    /// Reads a file; nil if it cannot be read, which the report tells.
    ///
    /// - Parameter what: the file, for the report, such as `the password file`.
    init?(_ path: String, _ what: String, report: inout ImportReport) {
        guard let content = Self.read(path, what, report: &report) else { return nil }
        var lines: [Line] = []
        var isComplete = true
        let written = content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, bytes) in written.enumerated() {
            let place = "\(path):\(index + 1)"
            let bytes = bytes.last == UInt8(ascii: "\r") ? bytes.dropLast() : bytes
            guard let text = String(validating: bytes, as: UTF8.self) else {
                // A comment in another encoding says nothing.
                guard bytes.first != UInt8(ascii: "#") else { continue }
                report.add(.refused, at: place, "the line is no UTF-8")
                isComplete = false
                continue
            }
            if !text.isEmpty { lines.append(Line(text: text, place: place)) }
        }
        self.lines = lines
        self.isComplete = isComplete
    }

    /// Whether a file begins with these bytes.
    static func begins(_ path: String, with bytes: [UInt8]) -> Bool {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        let start = try? DescriptorIO.read(from: descriptor, byteCountMaximum: bytes.count)
        return start == bytes
    }

    /// The bytes of a file; nil if it cannot be read, which the report tells.
    static func read(
        _ path: String, _ what: String, report: inout ImportReport,
        byteCountMaximum: Int = byteCountMaximum
    ) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            report.add(.refused, at: path, "\(what) cannot be read: \(SystemError.last)")
            return nil
        }
        defer { close(descriptor) }
        do throws(SystemError) {
            let content = try DescriptorIO.read(
                from: descriptor, byteCountMaximum: byteCountMaximum + 1)
            guard content.count <= byteCountMaximum else {
                report.add(.refused, at: path, "\(what) has more than \(byteCountMaximum) bytes")
                return nil
            }
            return content
        } catch {
            report.add(.refused, at: path, "\(what) cannot be read: \(error)")
            return nil
        }
    }
}
