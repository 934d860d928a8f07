// Reads Tests/Vectors; the format is described in the README there.

import Foundation
import Testing

/// One line of a vector file.
struct Vector: CustomTestStringConvertible, Sendable {
    var name: String
    /// What the bytes are a part of: the code of an operation, or `event`; nil for a whole packet.
    var part: Substring?
    var isFromClient: Bool
    var bytes: [UInt8]
    var meaning: String

    var testDescription: String { name }

    init(line: Substring) {
        let fields = line.split(separator: "\t", omittingEmptySubsequences: false)
        precondition(fields.count == 5, "five fields: \(line)")
        let dialect = fields[1].split(separator: "/")
        precondition(dialect[0] == "MRT1" && dialect.count <= 2, "a known dialect: \(line)")
        part = dialect.count == 2 ? dialect[1] : nil
        precondition(fields[2] == "c>b" || fields[2] == "b>c", "a direction: \(line)")
        name = String(fields[0])
        isFromClient = fields[2] == "c>b"
        bytes = hexadecimal(fields[3])
        meaning = String(fields[4])
    }

    /// Every vector of every file but those of parts.
    static let all = ["mrt-connect", "mrt-messages", "mrt-requests", "mrt-invalid"].flatMap(read)
    static let valid = all.filter(\.isValid)

    static let parts = read("mrt-parts")
    static let validParts = parts.filter(\.isValid)

    private var isValid: Bool { !meaning.hasPrefix("error=") }

    private static func read(_ name: String) -> [Vector] {
        let file = folder.appending(path: "\(name).txt")
        let lines = try! String(contentsOf: file, encoding: .utf8).split(separator: "\n")
        return lines.filter { !$0.hasPrefix("#") }.map(Vector.init(line:))
    }

    static subscript(name: String) -> Vector {
        all.first { $0.name == name }!
    }

    /// The root of the repository.
    static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    private static let folder = root.appending(path: "Tests/Vectors")
}

/// Bytes from pairs of hexadecimal digits.
func hexadecimal(_ text: Substring) -> [UInt8] {
    precondition(text.count.isMultiple(of: 2), "pairs of digits: \(text)")
    var bytes: [UInt8] = []
    var rest = text
    while !rest.isEmpty {
        bytes.append(UInt8(rest.prefix(2), radix: 16)!)
        rest = rest.dropFirst(2)
    }
    return bytes
}
