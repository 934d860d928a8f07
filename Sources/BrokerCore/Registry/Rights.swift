// What a client may do, as texts that an operator or an account server writes:
//
//     send:PATTERN        send to users whose id matches     send:*   send:pump-*   send:%u
//     publish:FILTER      publish on topics that match       publish:site/%u/#
//     subscribe:FILTER    subscribe to filters that FILTER covers; `$SYS` only by name
//     presence:PATTERN    ask whether users are online
//     attach:PATTERN      attach users whose id matches, as a gateway does with its sensors
//     group:create        make groups
//     broadcast           send to everybody
//
// `*` in a PATTERN stands for any characters, FILTER is an MQTT filter, `%u` and `%d` stand for the
// user and the device of the bearer, `%%` for a percent sign. Rights only grant: what no right
// allows is refused. Pure values; who bears which rights is decided in `Broker+Access.swift`.

import Primitives

/// Why a text is not a right.
public enum RightsError: Error, Hashable, Sendable {
    /// More than ``Rights/countMaximum``, or a text longer than ``Rights/textByteCountMaximum``.
    case tooLarge
    /// Not one of the kinds, or a kind without what it must have behind its colon.
    case unknownKind([UInt8])
    /// A filter that breaks the rules of MQTT 4.7, or a percent sign that stands for nothing.
    case malformedPattern([UInt8])
}

/// One thing that somebody wants to do. The bytes are valid during the call that takes it.
public enum RightsAction {
    case send(user: UnsafeRawBufferPointer)
    /// Allowed to members, by no right.
    case sendGroup(UnsafeRawBufferPointer)
    case broadcast
    case publish(topic: UnsafeRawBufferPointer)
    case subscribe(filter: UnsafeRawBufferPointer)
    case presence(user: UnsafeRawBufferPointer)
    case attach(user: UnsafeRawBufferPointer)
    case createGroup

    @usableFromInline
    var kind: RightKind {
        switch self {
        case .send: .send
        case .sendGroup: .sendGroup
        case .broadcast: .broadcast
        case .publish: .publish
        case .subscribe: .subscribe
        case .presence: .presence
        case .attach: .attach
        case .createGroup: .createGroup
        }
    }

    fileprivate var subject: UnsafeRawBufferPointer {
        switch self {
        case .send(let bytes), .sendGroup(let bytes), .publish(let bytes), .subscribe(let bytes),
            .presence(let bytes), .attach(let bytes):
            bytes
        case .broadcast, .createGroup: UnsafeRawBufferPointer(start: nil, count: 0)
        }
    }
}

/// What a right is about.
@usableFromInline
enum RightKind: UInt8, Sendable {
    case send, broadcast, publish, subscribe, presence, attach, createGroup, sendGroup

    fileprivate var bit: UInt8 { 1 << rawValue }
}

/// The rights of one bearer, compiled. Sixteen bytes; copies share the list.
public struct Rights: Hashable, Sendable {
    /// Rights of one token or app. Each is tried in turn for a restricted bearer's message.
    public static let countMaximum = 64
    /// Bytes of one text: a filter of many levels fits.
    public static let textByteCountMaximum = 1_024

    private let list: [Right]
    /// Kinds that are allowed for everything: the common case, answered without the list.
    @usableFromInline let unlimited: UInt8

    /// What an app's users may do where nobody says otherwise: everything among themselves but
    /// waking the whole fleet at once.
    public static let ordinary = known(
        ["send:*", "publish:#", "subscribe:#", "presence:*", "group:create"])
    /// ``ordinary``, broadcasts and the broker's own topics, for the demo app.
    public static let everything = known(
        [
            "send:*", "publish:#", "subscribe:#", "subscribe:$SYS/#", "presence:*",
            "group:create", "broadcast",
        ])

    /// Nothing at all.
    public init() {
        list = []
        unlimited = 0
    }

    /// Compiles texts.
    public init(_ texts: [[UInt8]]) throws(RightsError) {
        guard texts.count <= Self.countMaximum else { throw .tooLarge }
        var list: [Right] = []
        var unlimited: UInt8 = 0
        for text in texts {
            let right = try Right(text)
            list.append(right)
            if right.isUnlimited { unlimited |= right.kind.bit }
        }
        self.list = list
        self.unlimited = unlimited
    }

    /// The rights as they were written, in their order.
    public var texts: [[UInt8]] { list.map(\.text) }

    /// Whether an action is allowed whatever its subject: one load and one branch.
    @inline(__always)
    func allowsAll(_ kind: RightKind) -> Bool {
        unlimited & kind.bit != 0
    }

    /// Whether the bearer may do it.
    func allows(_ action: RightsAction, _ bearer: RightsBearer) -> Bool {
        allowsAll(action.kind) || deciding(action, bearer) != nil
    }

    /// The first right that allows it and does not begin with a wildcard: for what begins with `$`.
    func decidingByName(_ action: RightsAction, _ bearer: RightsBearer) -> [UInt8]? {
        for right in list
        where right.kind == action.kind && right.pattern.beginsWithText
            && right.pattern.covers(action.subject, bearer)
        {
            return right.text
        }
        return nil
    }

    /// The first right that allows a kind whatever its subject.
    func decidingAll(_ kind: RightKind) -> [UInt8]? {
        list.first { $0.kind == kind && $0.isUnlimited }?.text
    }

    /// The first right that allows it, as it was written; nil where none does.
    func deciding(_ action: RightsAction, _ bearer: RightsBearer) -> [UInt8]? {
        for right in list
        where right.kind == action.kind && right.pattern.covers(action.subject, bearer) {
            return right.text
        }
        return nil
    }

    /// Rights that are written in this program.
    private static func known(_ texts: [String]) -> Rights {
        do throws(RightsError) {
            return try Rights(texts.map { Array($0.utf8) })
        } catch {
            preconditionFailure("a built-in right cannot be read: \(error)")
        }
    }
}

/// Who bears rights: what `%u` and `%d` stand for.
struct RightsBearer {
    var user: Name
    var device: Name

    /// Whether a name can stand in a pattern. MQTT allows client ids that would change what a
    /// filter means, and a device may have no name at all; a right with `%u` or `%d` gives neither
    /// anything. What is spellable adds no level and no wildcard.
    static func isSpellable(_ name: some Collection<UInt8>) -> Bool {
        !name.isEmpty
            && !name.contains {
                $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#")
            }
    }
}

/// One right.
private struct Right: Hashable, Sendable {
    let text: [UInt8]
    let kind: RightKind
    let pattern: RightPattern
    let isUnlimited: Bool

    init(_ text: [UInt8]) throws(RightsError) {
        guard text.count <= Rights.textByteCountMaximum else { throw .tooLarge }
        self.text = text
        let colon = text.firstIndex(of: UInt8(ascii: ":")) ?? text.endIndex
        let name = String(decoding: text[..<colon], as: UTF8.self)
        let rest = Array(text[min(colon + 1, text.count)...])
        switch (name, rest.isEmpty) {
        case ("send", false): (kind, pattern) = (.send, try RightPattern(name: rest))
        case ("presence", false): (kind, pattern) = (.presence, try RightPattern(name: rest))
        case ("attach", false): (kind, pattern) = (.attach, try RightPattern(name: rest))
        case ("publish", false): (kind, pattern) = (.publish, try RightPattern(filter: rest))
        case ("subscribe", false): (kind, pattern) = (.subscribe, try RightPattern(filter: rest))
        case ("broadcast", true) where colon == text.endIndex:
            (kind, pattern) = (.broadcast, .everything)
        case ("group", false) where rest == Array("create".utf8):
            (kind, pattern) = (.createGroup, .everything)
        default: throw .unknownKind(text)
        }
        isUnlimited = pattern == .everything
    }
}
