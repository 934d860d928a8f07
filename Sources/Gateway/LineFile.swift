// A file of lines, which a gateway reads again while it runs: one line of a device in each line of
// the text.

/// The file of `--lines`.
public enum LineFile {
    /// The fault of a file, with its place.
    public struct Fault: Error, Hashable, CustomStringConvertible {
        public let description: String
    }

    /// Throws if a file that is read again may be half written: its devices would be disconnected,
    /// or opened at another place.
    public static func requireComplete(_ text: [UInt8], path: String) throws(Fault) {
        guard text.last != 0x0A else { return }
        throw Fault(
            description: text.isEmpty
                ? "\(path) is empty"
                : "\(path): the last line has no end, so the file may be half written")
    }

    /// Reads `USER=PLACE` and `USER/DEVICE=PLACE`; empty lines, and those that begin with `#`, say
    /// nothing.
    ///
    /// - Parameter path: for the message of a fault.
    /// - Throws: the first line that has no such form.
    public static func lines(text: [UInt8], path: String) throws(Fault) -> [LineSettings] {
        var lines: [LineSettings] = []
        // Some editors begin a text with U+FEFF.
        let text = text.starts(with: [0xEF, 0xBB, 0xBF]) ? text.dropFirst(3) : text[...]
        for (index, bytes) in text.split(separator: 0x0A, omittingEmptySubsequences: false)
            .enumerated()
        {
            let isSpace: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }
            let start = bytes.drop(while: isSpace)
            guard let first = start.first, first != UInt8(ascii: "#") else { continue }
            let end = start.lastIndex { !isSpace($0) }!
            guard let text = String(validating: start[...end], as: UTF8.self),
                let line = LineSettings(text)
            else {
                throw Fault(
                    description: "\(path):\(index + 1): a line must be written like "
                        + "plant7-1=/dev/ttyUSB0@115200 or plant7-1/pump=tcp://127.0.0.1:7001")
            }
            lines.append(line)
        }
        return lines
    }
}
