// The operators of the HTTP API: who they are, their roles, and the digests of their tokens.

import Administration
import Credentials
import Glibc
import Threads

/// The operators. The administration thread changes them; event loops ask for them.
final class Operators: Sendable {
    struct Operator: Sendable {
        let name: String
        let role: OperatorRole
        let madeUnixSeconds: UInt64
        /// Nil for unlimited.
        let expiresUnixSeconds: UInt64?
        let digest: SHA256Digest
    }

    /// The file's name in the data directory.
    static let fileName = "operators"
    /// People and programs that administer one broker. Each credential is compared with all.
    static let countMaximum = 256
    static let nameByteCountMaximum = 64

    private let path: String
    private let operators: Locked<[Operator]>
    let failures = AddressCounts()
    /// Operators who signed in to the dashboard by a link, and links that were not used yet.
    let links = LoginLinks()

    /// Without a file, and without operators.
    init() {
        path = Self.fileName
        operators = Locked([])
    }

    /// Reads the file of a data directory, if there is one.
    init(dataDirectory: String) throws(CredentialError) {
        path = "\(dataDirectory)/\(Self.fileName)"
        var information = stat()
        guard stat(path, &information) == 0 || errno != ENOENT else {
            operators = Locked([])
            return
        }
        operators = Locked(try OperatorFile.parse(SecretFile.read(path), path: path))
    }

    /// All operators, in the order of their names.
    var list: [Operator] { operators.withLock { $0 } }

    /// The operator with a token, unless it has expired.
    func find(_ token: RawSpan, unixSeconds: UInt64) -> Operator? {
        guard let token = OperatorToken(presented: token) else { return nil }
        var found: Operator?
        // All are compared, so that the time tells nothing of who is there.
        for known in list where known.digest.matches(token.digest) { found = known }
        if found == nil { return links.find(token.digest, unixSeconds: unixSeconds) }
        if let expires = found?.expiresUnixSeconds, expires <= unixSeconds { return nil }
        return found
    }

    /// Whether an operator that was found is still one, with the same token and role.
    func admits(_ found: Operator, unixSeconds: UInt64) -> Bool {
        if let expires = found.expiresUnixSeconds, expires <= unixSeconds { return false }
        return list.contains { known in
            known.name == found.name && known.role == found.role
                && known.digest.matches(found.digest)
        } || links.find(found.digest, unixSeconds: unixSeconds) != nil
    }

    /// Adds an operator. Returns false if there is one of this name.
    func add(_ new: Operator) throws(CredentialError) -> Bool {
        var list = list
        guard !list.contains(where: { $0.name == new.name }) else { return false }
        list.append(new)
        list.sort { $0.name < $1.name }
        try replace(with: list)
        return true
    }

    /// Removes an operator, with links and logins by them. Returns false if there is none of this
    /// name.
    func remove(_ name: String) throws(CredentialError) -> Bool {
        let hadLinks = links.remove(name)
        var list = list
        guard let index = list.firstIndex(where: { $0.name == name }) else { return hadLinks }
        list.remove(at: index)
        try replace(with: list)
        return true
    }

    private func replace(with list: [Operator]) throws(CredentialError) {
        try PrivateFile.write(OperatorFile.text(of: list), to: path)
        // Without it a loss of power may bring an operator back.
        try PrivateDirectory.sync(String(path.dropLast(Self.fileName.utf8.count + 1)))
        operators.withLock { $0 = list }
    }

    /// Whether a name can stand in the file, in a path and in the log as it is.
    static func isName(_ name: String) -> Bool {
        (1...nameByteCountMaximum).contains(name.utf8.count)
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "."), UInt8(ascii: "_"),
                    UInt8(ascii: "-"), UInt8(ascii: "@"):
                    true
                default: false
                }
            }
    }
}
