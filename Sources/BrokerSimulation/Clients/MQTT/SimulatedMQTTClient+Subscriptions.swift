// What an MQTT client subscribes to: plain topics, shared ones, its messages to its user,
// everybody's, and groups, which it joins by that. What was not answered is asked again on the next
// connection.

import BrokerTerms
import Primitives
import WireFormat

extension SimulatedMQTTClient {
    func subscribe(_ filter: Int, _ grade: MRT.Grade) { want(.topics(filter), grade) }

    func unsubscribe(_ filter: Int) { wantNoMore(.topics(filter)) }

    /// Wants to be subscribed, in this grade.
    func want(_ filter: FilterName, _ grade: MRT.Grade) {
        guard state != nil, !isAsked(about: filter) else { return }
        wishes[filter] = grade
        confirmed.remove(filter)
        runOn()
    }

    func wantNoMore(_ filter: FilterName) {
        guard isConnected, !isAsked(about: filter), wishes[filter] != nil, pending.count < 8
        else { return }
        wishes[filter] = nil
        confirmed.remove(filter)
        oracle.unsubscribing(index, filter: filter)
        let identifier = takeIdentifier()
        var source = ByteSource()
        source.append(filter: text(of: filter))
        let packet = MQTT.Unsubscribe(
            version, identifier, filters: ByteRange(offset: 0, count: source.bytes.count), count: 1)
        pending[identifier] = PendingSubscription(
            filter: filter, grade: nil, askedAt: context.now,
            fullTimesBefore: oracle.fullTimes, change: nil)
        write(packet, from: source.bytes)
        _ = survives()
    }

    private func isAsked(about filter: FilterName) -> Bool {
        pending.values.contains { $0.filter == filter }
    }

    /// Asks for the subscriptions that it wants and has not. False when the power went away.
    func askForMissing() -> Bool {
        guard context.now >= retryWishesAt || retryWishesAt == .never else { return true }
        retryWishesAt = .never
        let missing = wishes.keys.filter { !confirmed.contains($0) && !isAsked(about: $0) }
        for filter in missing.sorted(by: { text(of: $0) < text(of: $1) }) {
            // Identifiers are few; publications need some too.
            guard pending.count < 3 else { return true }
            guard let grade = wishes[filter] else { continue }
            ask(for: filter, grade)
            guard survives() else { return false }
        }
        return true
    }

    private func ask(for filter: FilterName, _ grade: MRT.Grade) {
        oracle.subscribing(index, filter: filter, grade: grade)
        var change: Int?
        if case .group(let group) = filter {
            change = oracle.membershipChanging(habits.user, isJoin: true, in: group)
        }
        let identifier = takeIdentifier()
        let options = MQTT.SubscriptionOptions(maximumQoS: MQTT.QoS(grade))
        var source = ByteSource()
        source.append(filter: text(of: filter))
        _ = source.append([options.byte])
        let packet = MQTT.Subscribe(
            version, identifier,
            subscriptions: ByteRange(offset: 0, count: source.bytes.count), count: 1)
        pending[identifier] = PendingSubscription(
            filter: filter, grade: grade, askedAt: context.now,
            fullTimesBefore: oracle.pastFullTimes, change: change)
        write(packet, from: source.bytes)
    }

    /// SUBACK or UNSUBACK has come, with this code; nil where it has none.
    func subscriptionAnswered(_ identifier: UInt16, isSubscribing: Bool, code: UInt8?) {
        guard let request = pending.removeValue(forKey: identifier),
            isSubscribing == (request.grade != nil)
        else {
            return oracle.fail(
                .nobodyIsAtFault, "an answer to no subscription", client: index)
        }
        guard let grade = request.grade, let code, let session else { return runOn() }
        if let change = request.change, case .group(let group) = request.filter {
            let reason =
                code <= 2
                ? .success
                : code == 0x80 ? .quotaExceeded : ReasonCode(rawValue: code) ?? .unspecifiedError
            oracle.membershipAnswered(change, in: group, reason, client: index)
        }
        if code == grade.rawValue {
            confirmed.insert(request.filter)
            oracle.checkSubscribed(index, to: request.filter)
            oracle.subscribed(
                session, filter: request.filter, grade: grade, askedAt: request.askedAt,
                fullTimesBefore: request.fullTimesBefore)
        } else if code <= 2 {
            oracle.fail(
                .confirmedIsDone, "QoS \(grade.rawValue) was asked for, \(code) granted",
                client: index)
        } else {
            refused(request.filter, code)
        }
        runOn()
    }

    /// There was no room, or the group is gone. The user's messages are asked for again.
    private func refused(_ filter: FilterName, _ code: UInt8) {
        let isPlausible =
            code == 0x80 || code == ReasonCode.quotaExceeded.rawValue
            || code == ReasonCode.notAuthorized.rawValue
                && (filter.isGroup || !oracle.maySubscribe(index, to: filter))
        if !isPlausible {
            oracle.fail(
                .everySendIsAnswered, "a subscription was refused: \(code)", client: index)
        }
        if filter == .user {
            retryWishesAt = context.now.advanced(bySeconds: 5)
        } else {
            wishes[filter] = nil
        }
    }

    private func text(of filter: FilterName) -> [UInt8] {
        switch filter {
        case .topics(let index): Array(Profile.filters[index].utf8)
        case .share(let index): Array("$share/team/\(Profile.filters[index])".utf8)
        case .user: Array("$u/\(Profile.userName(habits.user))".utf8)
        case .everybody: Array("$b".utf8)
        case .group(let group): Array("$g/".utf8) + oracle.groups[group].name
        case .system: Array("$SYS/#".utf8)
        }
    }
}

extension MQTT.QoS {
    /// The quality of service that a grade has in MQTT.
    init(_ grade: MRT.Grade) {
        switch grade {
        case .transient: self = .atMostOnce
        case .durable: self = .atLeastOnce
        case .once: self = .exactlyOnce
        }
    }

    var grade: MRT.Grade {
        switch self {
        case .atMostOnce: .transient
        case .atLeastOnce: .durable
        case .exactlyOnce: .once
        }
    }
}

extension FilterName {
    fileprivate var isGroup: Bool { if case .group = self { true } else { false } }
}

extension ByteSource {
    fileprivate mutating func append(filter: [UInt8]) {
        append(uint16: UInt16(filter.count))
        _ = append(filter)
    }
}

extension [UInt8] {
    fileprivate static func < (left: [UInt8], right: [UInt8]) -> Bool {
        left.lexicographicallyPrecedes(right)
    }
}
