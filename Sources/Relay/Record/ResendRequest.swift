// How another process asks the relay to send dead letters again: a file beside the record, which
// appears complete and which the relay removes.

import Files
import Glibc

package struct ResendRequest {
    private let path: String

    package init(stateFile: String) {
        path = stateFile + ".resend"
    }

    /// The numbers of dead letters; nil if there is no request.
    package func read() -> [UInt64]? {
        guard let bytes = try? SmallFile.read(path) else { return nil }
        return bytes.split(separator: UInt8(ascii: "\n")).compactMap {
            UInt64(String(decoding: $0, as: UTF8.self))
        }
    }

    package func remove() { unlink(path) }

    /// Asks for dead letters.
    ///
    /// - Throws: also if an earlier request waits, or if there are more numbers than the relay
    ///   reads.
    package func write(_ sequences: [UInt64]) throws(RecordFailure) {
        let staging = "\(path).\(getpid())"
        let text = sequences.map { "\($0)\n" }.joined()
        guard text.utf8.count <= SmallFile.byteCountMaximum else {
            throw .failed("\(sequences.count) dead letters are too many for one request; name some")
        }
        do throws(FileFailure) {
            try SmallFile.write(text, to: staging)
        } catch {
            throw .failed("cannot write \(staging): \(error)")
        }
        defer { unlink(staging) }
        // A link, unlike a new name, does not replace what is there.
        guard link(staging, path) == 0 else {
            if errno == EEXIST {
                throw .failed("\(path): an earlier request waits for the relay")
            }
            throw .failed("cannot create \(path): \(SystemError.last)")
        }
    }
}
