// The file of the operators in the data directory (docs/decisions/0007): names, roles, and the
// digests of tokens.
//
//     martlet-operators 1
//     NAME ROLE MADE EXPIRES DIGEST
//     end

import Administration
import Credentials

/// The form of the file.
enum OperatorFile {
    private static let heading = "martlet-operators 1"
    /// Without it, a file that was cut at the end of a line would be another one.
    private static let ending = "end"

    static func text(of operators: [Operators.Operator]) -> [UInt8] {
        var text = heading + "\n"
        for one in operators {
            let expires = one.expiresUnixSeconds.map { "\($0)" } ?? "never"
            let digest = one.digest.bytes.map { byte in
                (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }.joined()
            text += "\(one.name) \(one.role.rawValue) \(one.madeUnixSeconds) \(expires) \(digest)\n"
        }
        return Array((text + ending + "\n").utf8)
    }

    /// - Throws: the line that is damaged. A broker must not start with fewer operators, and so
    ///   with other rights, than were written.
    static func parse(
        _ content: [UInt8], path: String
    ) throws(CredentialError) -> [Operators.Operator] {
        func fault(_ line: Int, _ reason: String) -> CredentialError {
            .unusable(
                path: path,
                reason: "line \(line) \(reason); restore the file from a backup, or delete it and "
                    + "make the operators again with martlet operator add")
        }
        guard let text = String(validating: content, as: UTF8.self) else {
            throw fault(1, "is not UTF-8")
        }
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.first.map(String.init) == heading else {
            throw fault(1, "is not \"\(heading)\"")
        }
        guard lines.popLast() == "", lines.popLast().map(String.init) == ending else {
            throw fault(lines.count + 1, "is not \"\(ending)\"")
        }
        var operators: [Operators.Operator] = []
        for (index, line) in lines.enumerated().dropFirst() {
            guard let one = parse(line) else { throw fault(index + 1, "is damaged") }
            guard !operators.contains(where: { $0.name == one.name }) else {
                throw fault(index + 1, "repeats an operator")
            }
            operators.append(one)
        }
        return operators
    }

    private static func parse(_ line: Substring) -> Operators.Operator? {
        let words = line.split(separator: " ", omittingEmptySubsequences: false).map(String.init)
        guard words.count == 5, Operators.isName(words[0]),
            let role = OperatorRole(rawValue: words[1]), let made = UInt64(words[2]),
            words[3] == "never" || UInt64(words[3]) != nil,
            words[4].utf8.count == 2 * SHA256Digest.byteCount
        else { return nil }
        let digits = words[4].compactMap(\.hexDigitValue)
        guard digits.count == 2 * SHA256Digest.byteCount else { return nil }
        let bytes = stride(from: 0, to: digits.count, by: 2).map {
            UInt8(digits[$0] << 4 | digits[$0 + 1])
        }
        guard let digest = SHA256Digest(stored: bytes) else { return nil }
        return Operators.Operator(
            name: words[0], role: role, madeUnixSeconds: made,
            expiresUnixSeconds: UInt64(words[3]), digest: digest)
    }
}
