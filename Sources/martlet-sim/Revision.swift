// The revision of this program's sources: that of the checkout in which it was compiled. It is only
// printed.

import Glibc

enum Revision {
    /// The abbreviated commit, with a plus sign if files differ from it.
    static func current() -> String {
        let folder = #filePath.split(separator: "/").dropLast().joined(separator: "/")
        let git = "git -C '/\(folder)'"
        guard let commit = firstLine("\(git) rev-parse --short=12 HEAD 2>/dev/null") else {
            return "an unknown revision"
        }
        let changes = firstLine("\(git) status --porcelain -uno 2>/dev/null")
        return changes == nil ? commit : commit + "+"
    }

    private static func firstLine(_ command: String) -> String? {
        guard let pipe = popen(command, "r") else { return nil }
        defer { pclose(pipe) }
        var buffer = [CChar](repeating: 0, count: 256)
        guard fgets(&buffer, Int32(buffer.count), pipe) != nil else { return nil }
        let line = buffer.prefix { $0 != 0 && $0 != 10 }.map { UInt8(bitPattern: $0) }
        return line.isEmpty ? nil : String(decoding: line, as: UTF8.self)
    }
}
