// A wake-up: who is to be woken where, and why.

import JSON5
import MartletClient
import Relay
import WakeTemplates

extension WakeKind {
    /// Whether a target's address is a host that its user chose. The other kinds have a service,
    /// which the operator chose.
    var hasHostOfUser: Bool {
        switch self {
        case .webhook, .udp: true
        case .apns, .fcm, .sms, .mqtt: false
        }
    }

    /// In the record.
    var number: UInt8 { UInt8(Self.allCases.firstIndex(of: self)!) }

    init?(number: UInt8) {
        guard Int(number) < Self.allCases.count else { return nil }
        self = Self.allCases[Int(number)]
    }
}

/// A target's user, and its number at the broker, which belongs to the user.
package struct WakeKey: Hashable, Sendable {
    let owner: ExactText
    package var id: UInt64

    package var user: String { owner.text }

    package init(user: String, id: UInt64) {
        owner = ExactText(user)
        self.id = id
    }

    func isOf(_ user: String) -> Bool { owner == ExactText(user) }
}

/// Where something is woken.
package struct PushTarget: Hashable, Sendable {
    package var id: UInt64
    package var device: String
    package var kind: WakeKind
    package var address: String
    package var isSandbox: Bool
    /// BCP 47; empty for none.
    package var language: String

    package init(
        id: UInt64, device: String = "", kind: WakeKind, address: String, isSandbox: Bool = false,
        language: String = ""
    ) {
        self.id = id
        self.device = device
        self.kind = kind
        self.address = address
        self.isSandbox = isSandbox
        self.language = language
    }
}

/// One wake-up for one target.
package struct Wake: Hashable, Sendable {
    /// Orders wake-ups, and names dead letters. It never repeats.
    package var sequence: UInt64
    package var user: String
    package var target: PushTarget
    /// The receiver recognises the wake-up by it: the same in each attempt.
    package var identifier: String
    package var from: String
    /// Empty for none.
    package var group: String
    /// The time of the message, in Unix milliseconds.
    package var time: UInt64
    /// Messages that wait for the user.
    package var count: UInt64
    /// The end of the validity, in Unix milliseconds.
    package var expiry: UInt64
    /// 16 hexadecimal digits; empty for none.
    package var reference: String
    /// The JSON that the sender gave; empty for none.
    package var push: [UInt8]
    /// The text of the message, where the broker lets contents out; empty for none.
    package var text: String
    /// A person asked for it: `martlet wake test`.
    package var isTest: Bool

    package var key: WakeKey { WakeKey(user: user, id: target.id) }

    /// Bytes of it in the record, about.
    var byteCount: Int {
        push.count + text.utf8.count + target.address.utf8.count + user.utf8.count + 200
    }
}

extension WakeContents {
    /// The content of a wake-up.
    ///
    /// - Parameters:
    ///   - answer: what the hook gave; nil for nothing.
    ///   - isSenderHeard: false if what the sender gave is not to be used.
    ///   - badge: the target's badge before.
    package static func make(
        _ wake: Wake, answer: JSON5Node?, isSenderHeard: Bool = true, template: ContentTemplate,
        badge: UInt64
    ) -> WakeContent {
        let variables = WakeVariables(
            from: wake.from, group: wake.group, time: wake.time, count: wake.count,
            text: wake.text, user: wake.user, device: wake.target.device,
            language: wake.target.language)
        return make(
            variables, for: wake.target.kind, push: wake.push, answer: answer,
            isSenderHeard: isSenderHeard, template: template, badge: badge)
    }
}

/// Why a wake-up was not sent.
package enum WakeEnd: UInt8, CaseIterable, Sendable {
    case expired = 0
    /// The destination does not take it.
    case refused = 1
    /// Too many targets waited.
    case queueFull = 2
    /// The configuration does not speak to this kind.
    case notConfigured = 3
    /// The hook did not answer for others and was not asked, and its silence means no.
    case hook = 4

    package var name: String {
        switch self {
        case .expired: "expired"
        case .refused: "refused"
        case .queueFull: "queue-full"
        case .notConfigured: "not-configured"
        case .hook: "hook"
        }
    }
}

/// A wake-up that is not tried any more, until somebody asks for it.
package struct DeadLetter: Hashable, Sendable {
    package var wake: Wake
    package var cause: WakeEnd
    package var reason: String
    /// Unix milliseconds.
    package var time: UInt64
}

extension DeadLetter: KeptLetter {
    package var owner: ExactText { wake.key.owner }
    package var byteCount: Int { wake.byteCount }
}

/// What came of one attempt.
package enum SendOutcome: Hashable, Sendable {
    case delivered
    /// One of several datagrams is sent.
    case sentOnce
    /// The destination says that the target does not exist any more.
    case gone(String)
    /// The destination does not take this wake-up. It is tried again unless that is final.
    case refused(String, isFinal: Bool)
    /// No answer, or a fault that passes.
    ///
    /// - Parameters:
    ///   - retryAfterSeconds: what the destination asks for; 0 for nothing.
    ///   - isDestination: whether it says something about the whole destination.
    case failed(String, retryAfterSeconds: UInt64, isDestination: Bool)
    /// No answer on a connection that the destination took: it says something about this target
    /// only.
    case hung(String)

    var isHang: Bool { if case .hung = self { true } else { false } }
}
