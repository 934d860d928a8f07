// The file in which `martlet listen --state` keeps its place in the inbox: one line,
//
//     martlet-inbox 1 0123456789abcdef 1742        (version, session epoch, number)
//
// replaced as a whole, so that a crash leaves the old line or the new one.

import CommandLineOptions
import Glibc
import MartletClient

struct InboxStateFile {
    let path: String

    /// What was stored; nil where there is no file yet.
    func read() throws(CommandFailure) -> InboxRecord? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        if descriptor < 0, errno == ENOENT { return nil }
        guard descriptor >= 0 else { throw failure("open") }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        guard count >= 0 else { throw failure("read") }
        let words = String(decoding: bytes[..<count], as: UTF8.self).split { $0.isWhitespace }
        guard words.count == 4, words[0] == "martlet-inbox", words[1] == "1",
            let epoch = UInt64(words[2], radix: 16), let number = UInt64(words[3])
        else {
            throw CommandFailure(
                "\(path) is not a file of martlet listen --state; name another, or remove it",
                .failure)
        }
        return InboxRecord(epoch: epoch, number: number)
    }

    /// Stores a record; it is on disk when this returns.
    func write(_ record: InboxRecord) throws(CommandFailure) {
        let temporary = "\(path).new"
        let descriptor = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw failure("open") }
        defer { close(descriptor) }
        let line = "martlet-inbox 1 \(String(record.epoch, radix: 16)) \(record.number)\n"
        let bytes = Array(line.utf8)
        guard Glibc.write(descriptor, bytes, bytes.count) == bytes.count else {
            throw failure("write")
        }
        guard fsync(descriptor) == 0 else { throw failure("fsync") }
        guard rename(temporary, path) == 0 else { throw failure("rename") }
    }

    private func failure(_ call: String) -> CommandFailure {
        CommandFailure("\(call) \(path): \(String(cString: strerror(errno)))", .failure)
    }
}
