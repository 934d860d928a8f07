// The rights of a client, as texts that an operator or an account server writes:
//
//     send:PATTERN        send to users whose id matches     send:*   send:pump-*   send:%u
//     publish:FILTER      publish on topics that match       publish:site/%u/#
//     subscribe:FILTER    subscribe to filters that FILTER covers; `$SYS` only by name
//     presence:PATTERN    ask whether users are online
//     receipts:PATTERN    ask what users, or the members of groups, did with a message
//     attach:PATTERN      attach users whose id matches, as a gateway does with its sensors and an
//                         app key with rights at its logins
//     group:create        make groups
//     broadcast           send to everybody
//     !RIGHT              refuse what RIGHT would allow, whatever other rights allow
//
// `*` in a PATTERN stands for any characters, FILTER is an MQTT filter, `%u` and `%d` stand for the
// user and the device of the principal, `%%` for a percent sign. A right with `!` denies, and
// denials count before the other rights, in any order. What no right allows is refused. A right
// with a name that contains `/`, `+` or `#` allows nothing and denies everything of its kind. A
// subscription is denied if one topic that it receives is: a filter is admitted once, and its
// messages are not checked one by one. `Broker+Access.swift` decides which rights a client has.

import Primitives

/// The reason for which a text is not a right.
public enum RightsError: Error, Hashable, Sendable {
    /// More than ``Rights/countMaximum``, or a text longer than ``Rights/textByteCountMaximum``.
    case tooLarge
    /// An unknown kind, or a kind without what it requires after the colon.
    case unknownKind([UInt8])
    /// A filter that breaks the rules of MQTT 4.7, or a percent sign without a meaning.
    case malformedPattern([UInt8])
}

/// An action that needs a right. Its bytes are valid during the call that takes it.
public enum RightsAction {
    case send(user: UnsafeRawBufferPointer)
    /// No right allows it: members may send to their group.
    case sendGroup(UnsafeRawBufferPointer)
    case broadcast
    case publish(topic: UnsafeRawBufferPointer)
    case subscribe(filter: UnsafeRawBufferPointer)
    case presence(user: UnsafeRawBufferPointer)
    /// A user or a group.
    case receipts(of: UnsafeRawBufferPointer)
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
        case .receipts: .receipts
        case .attach: .attach
        case .createGroup: .createGroup
        }
    }

    var subject: UnsafeRawBufferPointer {
        switch self {
        case .send(let bytes), .sendGroup(let bytes), .publish(let bytes), .subscribe(let bytes),
            .presence(let bytes), .receipts(let bytes), .attach(let bytes):
            bytes
        case .broadcast, .createGroup: UnsafeRawBufferPointer(start: nil, count: 0)
        }
    }
}

/// The kind of action that a right allows.
@usableFromInline
enum RightKind: UInt8, CaseIterable, Sendable {
    case send, broadcast, publish, subscribe, presence, attach, createGroup, sendGroup, receipts

    fileprivate var bit: UInt16 { 1 << UInt16(rawValue) }
}

/// What the rights of a principal say about an action.
enum RightsVerdict: Equatable {
    /// The first right that allows it, as it was written.
    case allowed([UInt8])
    /// The first right that denies it, as it was written.
    case denied([UInt8])
    /// No right is about it.
    case unmentioned
}

/// The rights of one principal, parsed. Sixteen bytes; copies share the list.
public struct Rights: Hashable, Sendable {
    /// Maximum number of rights of one token or app: one bit of a word for each.
    public static let countMaximum = 64
    /// Maximum length of one text in bytes. A filter of many levels fits.
    public static let textByteCountMaximum = 1_024

    private let list: RightList
    /// The kinds that are allowed for every subject. This is the common case, and it needs no look
    /// at the list.
    @usableFromInline let unlimited: UInt16

    /// The rights of an app's users by default: everything except broadcasts, which wake the whole
    /// fleet at once.
    public static let ordinary = known(
        ["send:*", "publish:#", "subscribe:#", "presence:*", "receipts:*", "group:create"])
    /// ``ordinary``, broadcasts and the broker's own topics; for the demo app.
    public static let everything = known(
        [
            "send:*", "publish:#", "subscribe:#", "subscribe:$SYS/#", "presence:*",
            "receipts:*", "group:create", "broadcast",
        ])

    /// No rights.
    public init() {
        list = .nothing
        unlimited = 0
    }

    /// Parses texts. Throws ``RightsError`` for the first text that is not a right, or if there are
    /// too many.
    public init(_ texts: [[UInt8]]) throws(RightsError) {
        guard texts.count <= Self.countMaximum else { throw .tooLarge }
        var rights: [Right] = []
        var filters = RightFilters()
        var unlimited: UInt16 = 0
        var denied: UInt16 = 0
        for text in texts {
            let (right, filter) = try Right.read(text)
            if let filter { filters.insert(filter, right: rights.count) }
            rights.append(right)
            if right.denies {
                denied |= right.kind.bit
            } else if right.isUnlimited {
                unlimited |= right.kind.bit
            }
        }
        list = RightList(rights, filters)
        self.unlimited = unlimited & ~denied
    }

    /// The rights as they were written, in that order.
    public var texts: [[UInt8]] { list.rights.map(\.text) }

    /// Whether one of the rights is one of these texts.
    func hasText(in texts: Set<[UInt8]>) -> Bool {
        list.rights.contains { texts.contains($0.text) }
    }

    /// Equal if the texts are equal. Equal rights allow the same.
    public static func == (left: Rights, right: Rights) -> Bool {
        left.list === right.list
            || left.unlimited == right.unlimited
                && left.list.rights.elementsEqual(right.list.rights) { $0.text == $1.text }
    }

    public func hash(into hasher: inout Hasher) {
        for right in list.rights { hasher.combine(right.text) }
    }

    /// Whether they allow to create groups.
    public var mayCreateGroups: Bool { allowsAll(.createGroup) }

    /// Whether a kind is allowed for every subject: one load and one branch.
    @inline(__always)
    func allowsAll(_ kind: RightKind) -> Bool {
        unlimited & kind.bit != 0
    }

    /// The verdict on an action whose subject begins with `$`: rights that begin with a wildcard
    /// do not allow it, and all deny it.
    ///
    /// - Parameter comparisons: see ``deciding(_:for:comparisons:)``.
    func decidingByName(
        _ action: RightsAction, for names: PrincipalNames, comparisons: inout Int
    ) -> RightsVerdict {
        if let denial = denial(of: action, for: names, comparisons: &comparisons) {
            return .denied(denial)
        }
        let covering = list.filters.covering(
            action.subject, among: list.bits(of: action.kind) & list.filters.beginningWithText,
            for: names, comparisons: &comparisons)
        return list.first(of: covering).map { .allowed($0) } ?? .unmentioned
    }

    /// The verdict on a kind for every subject: a single denial refuses it.
    func decidingAll(_ kind: RightKind) -> RightsVerdict {
        if let denial = list.first(of: list.denials(of: kind)) { return .denied(denial) }
        let right = list.rights.first { $0.kind == kind && $0.isUnlimited }
        return right.map { .allowed($0.text) } ?? .unmentioned
    }

    /// The verdict on an action: the first right that denies it, otherwise the first that allows
    /// it.
    ///
    /// - Parameter comparisons: increased by the comparisons made, in the unit of
    ///   ``CoreLimits/comparisonsPerWork``.
    func deciding(
        _ action: RightsAction, for names: PrincipalNames, comparisons: inout Int
    ) -> RightsVerdict {
        if let denial = denial(of: action, for: names, comparisons: &comparisons) {
            return .denied(denial)
        }
        let bits = list.bits(of: action.kind)
        let allowing: [UInt8]?
        switch action.kind {
        case .publish, .subscribe:
            allowing = list.first(
                of: list.filters.covering(
                    action.subject, among: bits, for: names, comparisons: &comparisons))
        case .send, .sendGroup, .broadcast, .presence, .receipts, .attach, .createGroup:
            allowing = list.first(
                of: bits, matching: action, for: names, comparisons: &comparisons)
        }
        return allowing.map { .allowed($0) } ?? .unmentioned
    }

    /// The first right that denies an action; nil if none does.
    private func denial(
        of action: RightsAction, for names: PrincipalNames, comparisons: inout Int
    ) -> [UInt8]? {
        let bits = list.denials(of: action.kind)
        if bits == 0 { return nil }
        let unspellable = bits & list.bitsWithUnspellableNames(names)
        if unspellable != 0 { return list.first(of: unspellable) }
        switch action.kind {
        case .publish, .subscribe:
            return list.first(
                of: list.filters.overlapping(
                    action, among: bits, for: names, comparisons: &comparisons))
        case .send, .sendGroup, .broadcast, .presence, .receipts, .attach, .createGroup:
            return list.first(of: bits, matching: action, for: names, comparisons: &comparisons)
        }
    }

    /// Rights that are constants of this program.
    private static func known(_ texts: [String]) -> Rights {
        do throws(RightsError) {
            return try Rights(texts.map { Array($0.utf8) })
        } catch {
            preconditionFailure("a built-in right cannot be read: \(error)")
        }
    }
}

/// The list that copies of ``Rights`` share.
private final class RightList: Sendable {
    static let nothing = RightList([], RightFilters())

    let rights: [Right]
    /// The filters of `publish` and `subscribe`, by the positions of their rights.
    let filters: RightFilters
    /// For each kind, the positions of the rights that allow it, as bits.
    private let bitsOfKinds: [UInt64]
    /// The same for the rights that deny it.
    private let denialsOfKinds: [UInt64]
    /// The positions of the rights with `%u`, and of those with `%d`, as bits.
    private let bitsWithUser: UInt64
    private let bitsWithDevice: UInt64

    init(_ rights: [Right], _ filters: RightFilters) {
        self.rights = rights
        self.filters = filters
        var bits = [UInt64](repeating: 0, count: RightKind.allCases.count)
        var denials = bits
        var (user, device): (UInt64, UInt64) = (0, 0)
        for (index, right) in rights.enumerated() {
            let bit: UInt64 = 1 << UInt64(index)
            if right.hasUser { user |= bit }
            if right.hasDevice { device |= bit }
            if right.denies {
                denials[Int(right.kind.rawValue)] |= bit
            } else {
                bits[Int(right.kind.rawValue)] |= bit
            }
        }
        bitsOfKinds = bits
        denialsOfKinds = denials
        bitsWithUser = user
        bitsWithDevice = device
    }

    /// The positions of the rights whose `%u` or `%d` stands for a name that would change the
    /// meaning of a filter.
    func bitsWithUnspellableNames(_ names: PrincipalNames) -> UInt64 {
        if bitsWithUser | bitsWithDevice == 0 { return 0 }
        return (PrincipalNames.changesFilters(names.user) ? bitsWithUser : 0)
            | (PrincipalNames.changesFilters(names.device) ? bitsWithDevice : 0)
    }

    func bits(of kind: RightKind) -> UInt64 { bitsOfKinds[Int(kind.rawValue)] }

    func denials(of kind: RightKind) -> UInt64 { denialsOfKinds[Int(kind.rawValue)] }

    /// The text of the first right of a set of positions whose pattern of names matches.
    ///
    /// - Parameter comparisons: increased by the number of parts compared.
    func first(
        of bits: UInt64, matching action: RightsAction, for names: PrincipalNames,
        comparisons: inout Int
    ) -> [UInt8]? {
        var rest = bits
        while rest != 0 {
            let index = rest.trailingZeroBitCount
            rest &= rest - 1
            if rights[index].isUnlimited
                || RightPattern.matches(
                    rights[index].name, action.subject, for: names, comparisons: &comparisons)
            {
                return rights[index].text
            }
        }
        return nil
    }

    /// The text of the first right of a set of positions; nil if it is empty.
    func first(of bits: UInt64) -> [UInt8]? {
        bits == 0 ? nil : rights[bits.trailingZeroBitCount].text
    }
}

/// The names of a principal: the values of `%u` and `%d`.
struct PrincipalNames {
    var user: Name
    var device: Name

    /// Whether a pattern may compare a name. MQTT allows client ids that would change the meaning
    /// of a filter, and a device may have an empty name; a right with `%u` or `%d` allows nothing
    /// to either. A spellable name adds no level and no wildcard.
    static func isSpellable(_ name: some Collection<UInt8>) -> Bool {
        !name.isEmpty && !changesFilters(name)
    }

    /// Whether a name adds a level or a wildcard to a filter. Clients choose their ids, so a
    /// right with such a name denies everything of its kind, if it denies.
    static func changesFilters(_ name: some Collection<UInt8>) -> Bool {
        name.contains {
            $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#")
        }
    }
}

private struct Right: Sendable {
    /// Begins a right that denies.
    private static let denial = UInt8(ascii: "!")

    let text: [UInt8]
    let kind: RightKind
    let denies: Bool
    /// Parts of a pattern for names; otherwise empty.
    var name: [RightPattern.Part] = []
    /// Whether the pattern contains `%u`, and whether it contains `%d`.
    var hasUser = false
    var hasDevice = false
    /// Whether it is about every subject.
    var isUnlimited = false

    /// Parses one right. Returns its filter if it has one.
    static func read(
        _ text: [UInt8]
    ) throws(RightsError) -> (right: Right, filter: [RightPattern.Level]?) {
        guard text.count <= Rights.textByteCountMaximum else { throw .tooLarge }
        let denies = text.first == denial
        let (kind, pattern) = try read(text[(denies ? 1 : 0)...], whole: text)
        var right = Right(text: text, kind: kind, denies: denies)
        switch pattern {
        case .everything:
            right.isUnlimited = true
            let hasFilter = kind == .publish || kind == .subscribe
            return (right, hasFilter ? [.rest] : nil)
        case .name(let parts):
            right.name = parts
            right.note(parts)
            return (right, nil)
        case .filter(let levels):
            for case .text(let parts) in levels { right.note(parts) }
            return (right, levels)
        }
    }

    private mutating func note(_ parts: [RightPattern.Part]) {
        hasUser = hasUser || parts.contains(.user)
        hasDevice = hasDevice || parts.contains(.device)
    }

    /// Parses a right without its `!`.
    private static func read(
        _ text: ArraySlice<UInt8>, whole: [UInt8]
    ) throws(RightsError) -> (RightKind, RightPattern) {
        let colon = text.firstIndex(of: UInt8(ascii: ":")) ?? text.endIndex
        let word = String(decoding: text[..<colon], as: UTF8.self)
        let rest = Array(text[min(colon + 1, text.endIndex)...])
        return switch (word, rest.isEmpty) {
        case ("send", false): (.send, try RightPattern(name: rest))
        case ("presence", false): (.presence, try RightPattern(name: rest))
        case ("receipts", false): (.receipts, try RightPattern(name: rest))
        case ("attach", false): (.attach, try RightPattern(name: rest))
        case ("publish", false): (.publish, try RightPattern(filter: rest))
        case ("subscribe", false): (.subscribe, try RightPattern(filter: rest))
        case ("broadcast", true) where colon == text.endIndex: (.broadcast, .everything)
        case ("group", false) where rest == Array("create".utf8): (.createGroup, .everything)
        default: throw .unknownKind(whole)
        }
    }
}
