// Wake targets: where a relay reaches a user of whom no device is connected, and the calls that
// set, list and remove them.

import Primitives
import WireFormat

/// Where a relay reaches a user of whom no device is connected.
public struct WakeTarget: Hashable, Sendable {
    /// How the relay reaches it. Raw values are those of PROTOCOL.md.
    public enum Kind: UInt8, Hashable, Sendable, CaseIterable {
        /// A request to an HTTPS URL.
        case webhook = 1
        /// Apple's push service, by a device token of 16 to 200 hexadecimal digits.
        case apns = 2
        /// Firebase Cloud Messaging, by a registration token.
        case fcm = 3
        /// A text message to a number of E.164, through a web service that the relay knows.
        case smsWebhook = 4
        /// A message to a topic of another broker.
        case mqtt = 5
        /// A datagram to HOST:PORT.
        case udp = 6
    }

    /// Which of a service's environments knows the address.
    public enum Environment: UInt8, Hashable, Sendable, CaseIterable {
        case production = 0
        case sandbox = 1
    }

    /// How the relay reaches it.
    public var kind: Kind
    /// 1 to 2,048 bytes, of the form that the kind has.
    public var address: String
    /// The device that it wakes; empty for any device of the user.
    public var device: String
    /// Which of the service's environments knows the address.
    public var environment: Environment
    /// A language tag of BCP 47, at most 35 bytes; empty for none.
    public var language: String

    /// A target.
    public init(
        kind: Kind, address: String, device: String = "", environment: Environment = .production,
        language: String = ""
    ) {
        self.kind = kind
        self.address = address
        self.device = device
        self.environment = environment
        self.language = language
    }

    /// A target in the broker's answer; nil for one of a kind that this version does not know.
    init?(_ target: MRT.WakeTarget, in content: [UInt8]) {
        func text(_ range: ByteRange) -> String {
            String(decoding: content[range.offsets], as: UTF8.self)
        }
        guard let kind = Kind(rawValue: target.kind),
            let environment = Environment(rawValue: target.environment)
        else { return nil }
        self.init(
            kind: kind, address: text(target.address), device: text(target.device),
            environment: environment, language: text(target.language))
    }
}

/// A wake target that the broker has, and its id.
public struct ListedWakeTarget: Hashable, Sendable {
    /// Names it among all targets of the broker; at least 1, below 2^53.
    public var id: UInt64
    /// What was set.
    public var target: WakeTarget
}

extension Client {
    /// Sets a wake target of this user, at most 8 of them. One with the same device, kind and
    /// address is changed, and keeps its id.
    ///
    /// - Returns: its id.
    /// - Throws: ``MartletError/refused(_:_:)`` if the app has no wake-ups, if the address is none
    ///   of its kind, or with `quotaExceeded` if the user has 8 others.
    @discardableResult
    public func setWakeTarget(_ target: WakeTarget) async throws(MartletError) -> UInt64 {
        guard target.language.utf8.count <= WireLimits.languageByteCountMaximum,
            target.address.utf8.count <= WireLimits.wakeAddressByteCountMaximum
        else { throw .refused(.packetTooLarge, "") }
        guard !target.address.isEmpty else { throw .refused(.payloadFormatInvalid, "") }
        var bytes = ByteBuilder()
        let part = MRT.WakeTarget(
            device: try bytes.append(identifier: target.device), kind: target.kind.rawValue,
            environment: target.environment.rawValue, language: bytes.append(target.language),
            address: bytes.append(target.address))
        let answer = try await request(.setWakeTarget, part: part, bytes: bytes)
        guard let result = try? MRT.WakeTargetIdentifier(answer.content.span.bytes) else {
            throw .unreadableAnswer
        }
        return result.identifier
    }

    /// The wake targets of a user, in the order in which they were set first. Those of kinds that
    /// this version does not know are left out.
    ///
    /// - Parameter user: whose targets; nil for the own ones. Those of others require the right
    ///   `wake:` with the user.
    public func wakeTargets(
        of user: String? = nil
    ) async throws(MartletError) -> [ListedWakeTarget] {
        var bytes = ByteBuilder()
        let part = MRT.WakeTargetQuery(user: try bytes.append(identifier: user ?? ""))
        let answer = try await request(.listWakeTargets, part: part, bytes: bytes)
        let content = answer.content
        guard let list = try? MRT.WakeTargetList(content.span.bytes) else {
            throw .unreadableAnswer
        }
        var targets: [ListedWakeTarget] = []
        list.forEach(in: content.span.bytes) { entry in
            guard let target = WakeTarget(entry.target, in: content) else { return }
            targets.append(ListedWakeTarget(id: entry.identifier, target: target))
        }
        return targets
    }

    /// Sets whether messages of a group that this user owns wake members of whom no device is
    /// connected; they do by default.
    public func setWaking(_ isOn: Bool, of group: String) async throws(MartletError) {
        try await set(.groupSetWake, isOn, of: group)
    }

    /// Sets whether this user is not woken by messages of a group.
    public func setMuted(_ isMuted: Bool, in group: String) async throws(MartletError) {
        try await set(.groupMute, isMuted, of: group)
    }

    private func set(
        _ operation: MRT.Operation, _ isSet: Bool, of group: String
    ) async throws(MartletError) {
        var bytes = ByteBuilder()
        let part = MRT.GroupFlag(group: try bytes.append(identifier: group), isSet: isSet)
        _ = try await request(operation, part: part, bytes: bytes)
    }

    /// Removes a wake target.
    ///
    /// - Parameters:
    ///   - id: that of ``setWakeTarget(_:)`` or of a wake-up.
    ///   - user: whose target; nil for an own one. Those of others require the right `wake:` with
    ///     the user.
    /// - Returns: whether the user had it.
    @discardableResult
    public func removeWakeTarget(
        _ id: UInt64, of user: String? = nil
    ) async throws(MartletError) -> Bool {
        guard (1...WireLimits.varIntMaximum).contains(id) else {
            throw .invalid("\(id) is no id of a wake target")
        }
        var bytes = ByteBuilder()
        let part = MRT.WakeTargetName(
            user: try bytes.append(identifier: user ?? ""), identifier: id)
        return try await request(.removeWakeTarget, part: part, bytes: bytes).reason
            != .noSubscriptionExisted
    }
}
