// The ids of dialogs and messages, made from what the broker names them by, so that nothing has to
// be stored.

/// A dialog: a group by its id, or two users.
enum DialogName: Hashable, Sendable {
    case group(String)
    /// In the order of their bytes.
    case users(String, String)

    private static let usersPrefix = "u-"

    /// The dialog of two users, whoever begins it.
    static func between(_ first: String, _ second: String) -> DialogName {
        first.utf8.lexicographicallyPrecedes(second.utf8)
            ? .users(first, second) : .users(second, first)
    }

    /// Nil for what is the id of no dialog.
    init?(identifier: String) {
        guard identifier.hasPrefix(Self.usersPrefix) else {
            guard !identifier.isEmpty else { return nil }
            self = .group(identifier)
            return
        }
        let digits = identifier.dropFirst(Self.usersPrefix.count).utf8.map { byte in
            byte < 0x80 ? Character(Unicode.Scalar(byte)).hexDigitValue : nil
        }
        guard digits.count % 2 == 0, !digits.contains(nil) else { return nil }
        let bytes = stride(from: 0, to: digits.count, by: 2).map {
            UInt8((digits[$0] ?? 0) << 4 | (digits[$0 + 1] ?? 0))
        }
        // No id of a user contains a slash.
        let names = bytes.split(
            separator: UInt8(ascii: "/"), omittingEmptySubsequences: false
        ).map { String(validating: $0, as: UTF8.self) }
        guard names.count == 2, let first = names[0], let second = names[1] else { return nil }
        self = .between(first, second)
        // One dialog has one id.
        guard self.identifier == identifier else { return nil }
    }

    var identifier: String {
        switch self {
        case .group(let group): group
        case .users(let first, let second):
            Self.usersPrefix
                + "\(first)/\(second)".utf8.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }
                .joined()
        }
    }

    /// The other one of two users; nil for a group, and for who is none of them.
    func other(than user: String) -> String? {
        guard case .users(let first, let second) = self else { return nil }
        if first.isSameName(as: user) { return second }
        return second.isSameName(as: user) ? first : nil
    }

    static func == (left: DialogName, right: DialogName) -> Bool {
        left.identifier.isSameName(as: right.identifier)
    }

    func hash(into hasher: inout Hasher) { hasher.combine(Array(identifier.utf8)) }
}

/// The id of a message: that of its dialog, and its number there.
struct DialogMessageName: Hashable, Sendable {
    let dialog: DialogName
    let number: UInt64

    init(dialog: DialogName, number: UInt64) {
        self.dialog = dialog
        self.number = number
    }

    /// Nil for what is the id of no message.
    init?(identifier: String) {
        guard let point = identifier.lastIndex(of: "."),
            let dialog = DialogName(identifier: String(identifier[..<point])),
            let number = UInt64(identifier[identifier.index(after: point)...])
        else { return nil }
        self.init(dialog: dialog, number: number)
    }

    var identifier: String { "\(dialog.identifier).\(number)" }
}
