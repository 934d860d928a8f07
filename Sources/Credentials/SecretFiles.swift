// Files of secrets: pre-shared keys and the keys of session tickets. A file that other users may
// read is refused, because its contents may be known.
import COpenSSL
import Glibc

/// Pre-shared TLS keys as the operator writes them: one `IDENTITY:HEXKEY` a line, the form that
/// other brokers read too; empty lines and lines that begin with `#` are skipped.
public enum PreSharedKeyFile {
    /// Reads a file.
    ///
    /// - Parameters:
    ///   - keyByteCounts: how long a key may be.
    ///   - identityByteCountMaximum: how long an identity may be.
    public static func read(
        _ path: String, keyByteCounts: ClosedRange<Int>, identityByteCountMaximum: Int
    ) throws(CredentialError) -> [String: [UInt8]] {
        let content = try SecretFile.read(path)
        var keys: [String: [UInt8]] = [:]
        let lines = content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, line) in lines.enumerated() {
            let line = line.last == UInt8(ascii: "\r") ? line.dropLast() : line
            if line.isEmpty || line.first == UInt8(ascii: "#") { continue }
            // The error names the line and not its contents, which are secret.
            func fault(_ reason: String) -> CredentialError {
                .unusable(path: path, reason: "line \(index + 1) \(reason)")
            }
            guard let colon = line.lastIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
                colon - line.startIndex <= identityByteCountMaximum,
                let identity = String(validating: line[..<colon], as: UTF8.self),
                !identity.utf8.contains(0)
            else { throw fault("must be IDENTITY:HEXKEY") }
            guard let key = bytes(hexadecimal: line[(colon + 1)...]),
                keyByteCounts.contains(key.count)
            else {
                throw fault(
                    "must have a hexadecimal key of \(keyByteCounts.lowerBound) to "
                        + "\(keyByteCounts.upperBound) bytes")
            }
            guard keys.updateValue(key, forKey: identity) == nil else {
                throw fault("repeats an identity")
            }
        }
        return keys
    }

    private static func bytes(hexadecimal digits: ArraySlice<UInt8>) -> [UInt8]? {
        guard digits.count.isMultiple(of: 2) else { return nil }
        var bytes: [UInt8] = []
        var rest = digits
        while let high = rest.popFirst(), let low = rest.popFirst() {
            guard let high = Character(UnicodeScalar(high)).hexDigitValue,
                let low = Character(UnicodeScalar(low)).hexDigitValue
            else { return nil }
            bytes.append(UInt8(high << 4 | low))
        }
        return bytes
    }
}

/// The keys that encrypt TLS session tickets. They are kept in the data directory, so that clients
/// need no full handshake after a restart of the broker.
public enum TicketKeyFile {
    /// Keys are made anew when they are this old: who steals the file must not be able to read
    /// resumed TLS 1.2 sessions of long ago. A ticket lives no longer than this either [RFC 8446,
    /// 4.6.1: seven days].
    public static let ageSecondsMaximum: Int64 = 7 * 86_400

    /// The keys in the file; new ones, written there, where it is missing, too old, or of another
    /// length.
    public static func ensure(
        _ path: String, byteCount: Int, unixSeconds: Int64
    ) throws(CredentialError) -> [UInt8] {
        var information = stat()
        if stat(path, &information) == 0 {
            let age = unixSeconds - Int64(information.st_mtim.tv_sec)
            let keys = try SecretFile.read(path)
            if age < ageSecondsMaximum, keys.count == byteCount { return keys }
        }
        let keys = SystemRandom.bytes(count: byteCount)
        try PEMFile.write(keys, to: path, permissions: 0o600)
        return keys
    }
}

/// Any file of secrets.
public enum SecretFile {
    /// The bytes of a file that only its owner, and perhaps its group, may read.
    public static func read(_ path: String) throws(CredentialError) -> [UInt8] {
        var information = stat()
        guard stat(path, &information) == 0, let content = try PEMFile.read(path) else {
            throw .file(call: "open", path: path, code: ENOENT)
        }
        guard information.st_mode & 0o007 == 0 else {
            throw .unusable(
                path: path, reason: "others may read it; take that away with: chmod o= \(path)")
        }
        return content
    }
}
