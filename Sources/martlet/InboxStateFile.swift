// The file of `martlet listen --state`, which stores the position in the inbox: one line,
//
//     martlet-inbox 1 0123456789abcdef 1742        (version, session epoch, number)
//
// It is replaced as a whole, so that a crash leaves the old line or the new one. Only the line feed
// makes the line complete.

import CommandLineOptions
import Files
import Glibc
import MartletClient

struct InboxStateFile {
    let path: String

    private static let mark = "martlet-inbox 1 "
    /// Twice the length of the longest line.
    private static let byteCountMaximum = 128

    /// The stored record; nil if there is no file, or the first write of the file was interrupted.
    func read() throws(CommandFailure) -> InboxRecord? {
        // O_NONBLOCK opens a pipe without a writer immediately; it is then refused, because it
        // stores nothing.
        let descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        if descriptor < 0, errno == ENOENT { return nil }
        guard descriptor >= 0 else { throw failure("open") }
        defer { close(descriptor) }
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { throw failure("read") }
        guard information.st_mode & S_IFMT == S_IFREG else {
            throw CommandFailure("\(path) is not a regular file; name another", .failure)
        }
        let bytes: [UInt8]
        do throws(SystemError) {
            bytes = try DescriptorIO.read(
                from: descriptor, byteCountMaximum: Self.byteCountMaximum + 1)
        } catch {
            throw failure("read", error)
        }
        if isIncomplete(bytes) {
            StandardStream.error.print(
                "martlet: the last write of \(path) was interrupted; starting without a position")
            return nil
        }
        guard let record = Self.record(bytes) else {
            throw CommandFailure(
                "\(path) is not a file of martlet listen --state; name another, or remove it",
                .failure)
        }
        return record
    }

    /// A complete line with valid numbers.
    private static func record(_ bytes: [UInt8]) -> InboxRecord? {
        guard bytes.last == UInt8(ascii: "\n"),
            let text = String(validating: bytes.dropLast(), as: UTF8.self), text.hasPrefix(mark)
        else { return nil }
        let words = text.dropFirst(mark.count).split(
            separator: " ", omittingEmptySubsequences: false)
        guard words.count == 2, let epoch = UInt64(words[0], radix: 16),
            let number = UInt64(words[1])
        else { return nil }
        let record = InboxRecord(epoch: epoch, number: number)
        return record.isPossible ? record : nil
    }

    /// The beginning of a line, or only zeros after one: a loss of power during the first write can
    /// leave these.
    private func isIncomplete(_ bytes: [UInt8]) -> Bool {
        guard bytes.count <= Self.byteCountMaximum, bytes.last != UInt8(ascii: "\n") else {
            return false
        }
        var written = bytes[...]
        while written.last == 0 { written = written.dropLast() }
        let mark = Array(Self.mark.utf8)
        guard written.prefix(mark.count).elementsEqual(mark.prefix(written.count)) else {
            return false
        }
        return written.dropFirst(mark.count).allSatisfy { byte in
            byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\n")
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
        }
    }

    /// Stores a record; it is on disk when this returns.
    func write(_ record: InboxRecord) throws(CommandFailure) {
        let temporary = "\(path).new"
        let line = "\(Self.mark)\(String(record.epoch, radix: 16)) \(record.number)\n"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("open") }
        var written: SystemError?
        do throws(SystemError) {
            try DescriptorIO.write(line.utf8, to: descriptor)
            if fsync(descriptor) != 0 { throw .last }
        } catch {
            written = error
        }
        if close(descriptor) != 0, written == nil { written = .last }
        if let written { throw failure("write", written) }
        guard rename(temporary, path) == 0 else { throw failure("rename") }
        try syncDirectory()
    }

    /// The new name is on disk when the directory is.
    private func syncDirectory() throws(CommandFailure) {
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
        let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("open the directory of") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw failure("sync the directory of") }
    }

    private func failure(_ call: String, _ error: SystemError = .last) -> CommandFailure {
        CommandFailure("cannot \(call) \(path): \(error)", .failure)
    }
}
