// Reads Tests/Vectors; the format is described in the README there.

import Foundation

/// One line of a vector file.
package struct Vector: CustomStringConvertible, Sendable {
    package var name: String
    /// `MRT1`, or `MQTT` and its level.
    package var dialect: String
    /// What the bytes are a part of: the code of an operation, or `event`; nil for a whole packet.
    package var part: Substring?
    package var isFromClient: Bool
    package var bytes: [UInt8]
    package var meaning: String

    package var description: String { name }

    package init(line: Substring) {
        let fields = line.split(separator: "\t", omittingEmptySubsequences: false)
        precondition(fields.count == 5, "five fields: \(line)")
        precondition(fields[2] == "c>b" || fields[2] == "b>c", "a direction: \(line)")
        name = String(fields[0])
        let dialect = fields[1].split(separator: "/")
        self.dialect = String(dialect[0])
        part = dialect.count == 2 ? dialect[1] : nil
        isFromClient = fields[2] == "c>b"
        bytes = hexadecimal(fields[3])
        meaning = String(fields[4])
    }

    /// Every vector of MRT.
    package static let all = load([
        "mrt-connect", "mrt-messages", "mrt-requests", "mrt-session", "mrt-invalid", "fields",
    ])

    package static func load(_ names: [String]) -> [Vector] {
        names.flatMap { name in
            let file = folder.appending(path: "\(name).txt")
            let lines = try! String(contentsOf: file, encoding: .utf8).split(separator: "\n")
            return lines.filter { !$0.hasPrefix("#") }.map(Vector.init(line:))
        }
    }

    package static let valid = all.filter(\.isValid)

    /// Parts of packets of MRT.
    package static let parts = load(["mrt-parts"])
    package static let validParts = parts.filter(\.isValid)

    private var isValid: Bool { !meaning.hasPrefix("error=") }

    package static subscript(name: String) -> Vector {
        all.first { $0.name == name }!
    }

    /// The root of the repository.
    package static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    private static let folder = root.appending(path: "Tests/Vectors")
}

/// Bytes from pairs of hexadecimal digits.
package func hexadecimal(_ text: Substring) -> [UInt8] {
    precondition(text.count.isMultiple(of: 2), "pairs of digits: \(text)")
    var bytes: [UInt8] = []
    var rest = text
    while !rest.isEmpty {
        bytes.append(UInt8(rest.prefix(2), radix: 16)!)
        rest = rest.dropFirst(2)
    }
    return bytes
}
