// The operators of the HTTP API, in a file of the data directory (docs/decisions/0007): who they
// are, their roles, and the digests of their tokens.
//
//     martlet-operators 1
//     NAME ROLE MADE EXPIRES DIGEST
//     end

import Administration
import Credentials
import Glibc
import NetTransport
import Primitives
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

/// Counts requests by address within a minute, and in total: those that are refused for their
/// credential, and registrations. It bounds the log lines that an address can cause, the passwords
/// that it can guess and the users that it can make.
final class AddressCounts: Sendable {
    private struct Window {
        let start: Instant
        var count: UInt64
    }

    private struct State {
        var total: UInt64 = 0
        var windows: [SocketAddress: Window] = [:]
    }

    private let state = Locked(State())

    /// Requests of an address within ``windowSeconds`` that are answered and logged one by one: a
    /// person who mistypes needs fewer.
    static let countMaximum: UInt64 = 10
    static let windowSeconds: UInt64 = 60
    /// Addresses that are counted at a time, about 100 bytes each. When there are more, those that
    /// began first are forgotten.
    static let addressesMaximum = 1_024

    /// All requests since the start.
    var total: UInt64 { state.withLock { $0.total } }

    /// Addresses that are counted.
    var addressCount: Int { state.withLock { $0.windows.count } }

    /// Counts a request. Returns the seconds to wait if the address has had too many.
    func note(_ peer: SocketAddress, at now: Instant) -> UInt64? {
        let address = peer.counted
        return state.withLock { state in
            state.total += 1
            var window = state.windows[address] ?? Window(start: now, count: 0)
            if Self.hasEnded(window, at: now) { window = Window(start: now, count: 0) }
            window.count += 1
            state.windows[address] = window
            if state.windows.count > Self.addressesMaximum { Self.trim(&state, at: now) }
            guard window.count > Self.countMaximum else { return nil }
            let passed = now.milliseconds(since: window.start) / 1_000
            return Self.windowSeconds - min(passed, Self.windowSeconds - 1)
        }
    }

    /// Whether another request of an address would be answered with the time to wait.
    func isExceeded(by peer: SocketAddress, at now: Instant) -> Bool {
        state.withLock { state in
            guard let window = state.windows[peer.counted], !Self.hasEnded(window, at: now)
            else { return false }
            return window.count >= Self.countMaximum
        }
    }

    private static func hasEnded(_ window: Window, at now: Instant) -> Bool {
        now.milliseconds(since: window.start) >= windowSeconds * 1_000
    }

    /// Forgets windows that have ended; if there are none, the older half.
    private static func trim(_ state: inout State, at now: Instant) {
        state.windows = state.windows.filter { !hasEnded($0.value, at: now) }
        guard state.windows.count > addressesMaximum else { return }
        let starts = state.windows.values.map(\.start).sorted { $0 < $1 }
        let middle = starts[starts.count / 2]
        state.windows = state.windows.filter { $0.value.start > middle }
    }
}
