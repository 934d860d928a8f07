// The oracle: it records what every client requested, was told and received, and compares this with
// the properties. It does not depend on the broker's code. This file has the model of sends and
// sessions; Oracle+Receiving.swift checks received messages, Oracle+FinalCheck.swift the end of a
// run.

import BrokerTerms
import Primitives
import WireFormat

final class Oracle {
    let profile: Profile
    let history: History
    var now = Instant(milliseconds: 0)
    /// The first violated property; nothing after it is checked.
    private(set) var violation: Violation?

    var sends: [SendFact] = []
    var sessions: [SessionFact] = []
    var devices: [DeviceFact]
    var receipts: [Receipt: ReceiptFact] = [:]
    var groups: [GroupFact] = []
    /// By the names of their messages.
    var wills: [Int: WillFact] = [:]
    /// The highest number of each sender that a session has received.
    var routes: [Route: UInt64] = [:]
    /// Sends that their client may send again, by client.
    private var openSends: [[Int]]
    /// How many publications with an id each client has written, again or not.
    var identifierCounts: [Int]
    private var sessionIndices: [SessionKey: Int] = [:]

    /// When the backup was made, and whether it was restored. Most properties cannot be checked
    /// after that.
    private(set) var backupAt: Instant?
    private(set) var hasBackup = false
    /// How often the broker has started, and how often before the restore.
    private var starts = 0
    private var startsBeforeRestore = 0
    /// What each device had received at the restore.
    private var receivedBeforeBackup: [Int: Set<Int>] = [:]
    private(set) var deaths = 0
    private(set) var lastDeath = Instant(milliseconds: 0)
    /// The orderly stops among them.
    private(set) var stops = 0
    private(set) var fullTimes = 0
    private(set) var isStoreFull = false
    /// When the store last had no space.
    private(set) var lastFull = Instant(milliseconds: 0)
    private(set) var brokerUpSince = Instant(milliseconds: 0)
    /// Losses that the properties permit.
    var excusedCount = 0
    /// Messages that clients have processed.
    var receivedCount = 0

    /// Users who have a device that speaks MQTT.
    let mqttUsers: Set<Int>
    /// The gateways that carry clients now, by client.
    var gatewaysByClient: [Int: Int] = [:]
    /// Filters that some session subscribes to with the lowest grade: their deliveries may be lost.
    private(set) var sharedAtMostOnce: Set<FilterName> = []
    /// What is known of conversations, and of what users have read of them.
    var conversationFacts: [ConversationName: ConversationFact] = [:]
    var readingFacts: [ConversationReader: ReadingFact] = [:]
    /// Retained publications by topic, in order.
    var retained: [Int: [Int]] = [:]
    /// What is known of receipts.
    var receiptFacts = ReceiptFacts()
    var revisionFacts = RevisionFacts()
    /// What is known of wake-ups, and of a moderator's verdicts.
    var wakeFacts = WakeFacts()
    var moderationFacts = ModerationFacts()

    private struct SessionKey: Hashable {
        let device: Int
        let epoch: UInt64
    }

    init(_ profile: Profile, _ history: History) {
        self.profile = profile
        self.history = history
        devices = (0..<profile.deviceCount).map { device in
            DeviceFact(user: profile.clients.first { $0.device == device }!.user)
        }
        openSends = profile.clients.map { _ in [] }
        identifierCounts = profile.clients.map { _ in 0 }
        mqttUsers = Set(profile.clients.filter { $0.mqtt != nil }.map(\.user))
    }

    func fail(
        _ property: Property, _ text: @autoclosure () -> String, message: Int? = nil,
        client: Int? = nil, isOfBackup: Bool = false
    ) {
        guard violation == nil, !hasBackup || isOfBackup || property.outlivesBackup else { return }
        violation = Violation(
            property: property, text: text(), message: message, client: client, time: now)
    }

    // MARK: Backups

    func backupMade() {
        backupAt = now
        history.note(.broker, "a backup is made")
    }

    func backupPutBack() {
        hasBackup = true
        startsBeforeRestore = starts
        for session in sessions.indices {
            receivedBeforeBackup[sessions[session].device, default: []]
                .formUnion(sessions[session].received)
        }
        history.note(.broker, "the backup is restored")
    }

    /// A message that is not in the backup, and was received before the restore, can be delivered
    /// again only because its sender repeats it: then it is marked. A connection of the earlier
    /// broker may still deliver what that one had sent.
    func checkSecond(_ received: ReceivedMessage, message: Int, session: Int, client: Int) {
        let send = sends[message]
        guard hasBackup, !received.isMarked, received.canBeMarked, received.grade != .transient,
            !send.isMQTT, !send.isWill, let backupAt, send.issuedAt > backupAt,
            sessions[session].brokerStart > startsBeforeRestore,
            receivedBeforeBackup[sessions[session].device]?.contains(message) == true
        else { return }
        fail(
            .secondIsMarked, "received twice without a mark, after a backup was put back",
            message: message, client: client, isOfBackup: true)
    }

    // MARK: The broker, seen from outside

    func brokerStarted() {
        starts += 1
        brokerUpSince = now
    }

    func brokerDied(_ how: String) {
        deaths += 1
        lastDeath = now
        history.note(.broker, how)
        wakesAreUncertain()
        for device in devices.indices { endConnection(device) }
    }

    /// Another node leads: whatever waits was sent to none, or to a deposed one.
    func tookOver() {
        for message in sends.indices where sends[message].outcome == nil {
            sends[message].wasReachable = false
        }
    }

    /// It was asked to stop, and has stored its state: it forgets no result that it had sent, or
    /// would have sent.
    func brokerStopped() {
        stops += 1
        brokerDied("stops")
    }

    func storeChanged(isFull: Bool) {
        if isFull && !isStoreFull { fullTimes += 1 }
        if !isFull && isStoreFull { lastFull = now }
        isStoreFull = isFull
        history.note(.broker, isFull ? "the store is full" : "the store has room again")
    }

    /// How often the store has been full, and the broker has had the time to detect that it has
    /// space again: the next commit reports it.
    var pastFullTimes: Int {
        let isOver = !isStoreFull && now >= lastFull.advanced(bySeconds: 30)
        return isOver ? fullTimes : fullTimes - 1
    }

    // MARK: Sends

    /// An application sends a message. Returns the index of the send.
    func issue(_ send: SendFact) -> Int {
        sends.append(send)
        let message = sends.count - 1
        sends[message].stopsBefore = stops
        if receiptFacts.asks[send.messageIdentifier] != nil {
            receiptFacts.messages[send.messageIdentifier] = message
        }
        if send.grade != .transient { openSends[send.client].append(message) }
        history.note(
            .message(message),
            "client \(send.client) sends to \(send.receivers), \(send.grade)"
                + (send.expirySeconds == 0 ? "" : ", expires in \(send.expirySeconds) s")
                + (send.messageIdentifier.isEmpty ? "" : ", id \(send.messageIdentifier)")
                + (send.repeats.map { ", which repeats message \($0)" } ?? ""))
        return message
    }

    /// The client has assigned a number to a send.
    func number(_ message: Int, outboxEpoch: UInt64, _ number: UInt64) {
        sends[message].outboxEpoch = outboxEpoch
        sends[message].number = number
    }

    /// The client refused a send itself: it was never transmitted.
    func withdraw(_ message: Int) { abandon(message) }

    /// A client has lost its record of a send.
    func abandon(_ message: Int) {
        close(message)
        history.note(.message(message), "its sender has forgotten it")
    }

    /// A client will not repeat a message: it has stored its result, or has forgotten it.
    func close(_ message: Int) {
        openSends[sends[message].client].removeAll { $0 == message }
        if sends[message].outcome != nil { sends[message].closedAt = now }
        if sends[message].messageIdentifier.hasPrefix("revised-") { noteRevisable(message) }
    }

    /// A client repeats a message. If it was told of a refusal and lost power before it had stored
    /// that, this is a new send.
    func reopen(_ message: Int) {
        if sends[message].outcome?.reason.isFailure == true { sends[message].outcome = nil }
    }

    /// Sends that a client may repeat.
    func open(_ client: Int) -> [Int] { openSends[client] }

    /// A sender receives the result of a send.
    func resolve(
        _ message: Int, _ reason: ReasonCode, messageIdentifier: String, refusedCount: Int,
        refused: [(index: Int, reason: ReasonCode)]
    ) {
        let send = sends[message]
        history.note(
            .message(message),
            "result \(reason.name)" + (refusedCount == 0 ? "" : ", refused for \(refusedCount)"))
        // In MQTT a repeated publication does not report it.
        let isLeftOut = send.attemptCount > 1 && messageIdentifier.isEmpty
        if messageIdentifier != send.messageIdentifier, !isLeftOut {
            fail(
                .messageIDComesBack,
                "the result says \"\(messageIdentifier)\", not \"\(send.messageIdentifier)\"",
                message: message, client: send.client)
        }
        let outcome = SendFact.Outcome(
            reason: reason, refusedCount: refusedCount, refusedIndices: refused.map(\.index),
            at: now, deathsBefore: deaths, mayHaveLackedRoom: mayHaveLackedRoom(send))
        checkReason(message, outcome: outcome, refused: refused)
        if let earlier = send.outcome {
            // Reported again, because the client lost power before it had stored it.
            if reason.isFailure, !earlier.reason.isFailure, !mayBeForgotten(message) {
                fail(
                    .everySendIsAnswered, "first \(earlier.reason.name), then \(reason.name)",
                    message: message, client: send.client)
            }
            return
        }
        sends[message].outcome = outcome
        checkVerdict(on: message, reason)
        wakesResolve(message)
        if reason.isFailure && send.receivedCount > 0 { checkRefusedDelivery(message) }
    }

    /// Whether a send can have this result.
    private func checkReason(
        _ message: Int, outcome: SendFact.Outcome, refused: [(index: Int, reason: ReasonCode)]
    ) {
        let send = sends[message]
        var unknown: [Int] = []
        if case .users(let users, _) = send.receivers {
            unknown = users.indices.filter { users[$0] == profile.userCount }
        }
        let isPlausible =
            switch outcome.reason {
            case .sent: true
            case .noMatchingSubscribers: send.receivers.kind != .unicast
            case .topicNameInvalid: !unknown.isEmpty || isOutside(message)
            case .notAuthorized: isOutside(message) || isForbidden(send)
            case .quotaExceeded: true
            case .implementationSpecificError: isRefusedByModerator(message)
            default: false
            }
        if !isPlausible {
            fail(
                .everySendIsAnswered, "no reason for the result \(outcome.reason.name)",
                message: message, client: send.client)
        }
        guard outcome.reason == .sent else { return }
        // A repeat of an accepted message gets its result, and is delivered to nobody: only for the
        // first one its sender has to be a member, and to have the right.
        let isRepeat = send.repeats != nil
        if !isRepeat { checkMembership(message) }
        if case .users(let users, isList: true) = send.receivers,
            users.contains(where: { !isForbidden(send, to: $0) })
        {
            // Receivers to whom the client may not send are refused one by one.
        } else if isForbidden(send), !isRepeat {
            fail(
                .rightsAreKept, "accepted, as no right allows", message: message,
                client: send.client)
        }
        let isNamed = refused.count == outcome.refusedCount
        for index in unknown
        where isNamed && !isForbidden(send, to: profile.userCount)
            && !refused.contains(where: { $0 == (index, .topicNameInvalid) })
        {
            fail(
                .everySendIsAnswered, "sent to receiver \(index) of the list, whom nobody knows",
                message: message, client: send.client)
        }
    }

    /// Whether a send to a group may have arrived when its sender was no member.
    func isOutside(_ message: Int) -> Bool {
        let send = sends[message]
        guard case .group(let group) = send.receivers else { return false }
        return !isMember(
            profile.clients[send.client].user, of: group, from: send.issuedAt, through: now)
    }

    /// Only members send to a group.
    private func checkMembership(_ message: Int) {
        let send = sends[message]
        guard case .group(let group) = send.receivers else { return }
        let user = profile.clients[send.client].user
        if isStranger(user, to: group, from: send.issuedAt, through: now) {
            fail(
                .addresseesOnly, "sent to group \(group) by user \(user), who is no member",
                message: message, client: send.client)
        }
    }

    /// Whether the broker may have forgotten a send when it is repeated.
    func mayBeForgotten(_ message: Int) -> Bool {
        let send = sends[message]
        return send.forgetfulness > 0
            || (send.grade == .durable && (deaths > send.deathsBefore || send.attemptCount > 1))
    }

    /// Whether the store, or a queue, may have had no space for a send when it first arrived.
    func mayHaveLackedRoom(_ send: SendFact) -> Bool {
        fullTimes > send.fullTimesBefore || isStoreFull || profile.hasSmallQueues
    }

    /// A refused send was received. Only grade *durable*, and deliveries to a subscription of the
    /// lowest grade, are made before the message is stored. Only there can a broker that dies, or a
    /// store that becomes full, refuse a message that was delivered; and a send that a broker may
    /// forget can be refused when it is repeated.
    func checkRefusedDelivery(_ message: Int) {
        let send = sends[message]
        let isExcused =
            mayBeForgotten(message)
            || (send.grade == .durable || send.keptCount == 0)
                && (deaths > send.deathsBefore || mayHaveLackedRoom(send))
        if isExcused {
            excusedCount += 1
        } else {
            fail(
                .refusedReachesNobody, "refused, and received", message: message,
                client: send.client)
        }
    }

    // MARK: Sessions

    /// A client is about to log in as a device that another client may be logged in as.
    func rivalComes(_ client: Int) {
        let device = profile.clients[client].device
        forgetSends(device)
        willsMayBeSent(of: device)
    }

    /// A client asks to forget its session, or to end it with the connection.
    func sessionMayEnd(_ client: Int) {
        let device = profile.clients[client].device
        devices[device].mayEnd = true
        devices[device].endAskedAt = devices[device].endAskedAt ?? now
        willsMayBeSent(of: device)
    }

    /// A client gives up a connection on which it has asked for a clean start, before it has seen
    /// CONNACK. The broker may execute that CONNECT after the client's next one.
    func startedLate(_ client: Int) {
        sessionMayEnd(client)
        devices[profile.clients[client].device].hasLateStart = true
    }

    /// The broker has accepted a client's connection, whatever follows.
    func connecting(_ client: Int) { devices[profile.clients[client].device].attempts += 1 }

    /// A client sees CONNACK, on a connection that is open or has already ended. Returns the
    /// session.
    func connected(
        _ client: Int, epoch: UInt64, isPresent: Bool, isStanding: Bool, hasWill: Bool?,
        expirySeconds: UInt32, brokerStart: Int
    ) -> Int {
        let device = profile.clients[client].device
        let key = SessionKey(device: device, epoch: epoch)
        let known = sessionIndices[key]
        history.note(
            .client(client),
            "CONNACK, session \(String(epoch, radix: 16)), \(isPresent ? "present" : "new")")
        if known != devices[device].session || known == nil {
            checkEnd(of: device, client, isReturning: known != nil)
            forgetSends(device)
        } else if !isPresent, !isShared(device) {
            // CONNACKs of rivals may overtake each other.
            fail(.sessionsLast, "the same epoch for a session that is new", client: client)
        }
        willsReturn(
            device, hasWill: hasWill,
            isCertain: isPresent && known != nil && isStanding, session: devices[device].session)
        devices[device].attempts = 0
        let session = known ?? sessions.count
        if known == nil {
            sessionIndices[key] = session
            devices[device].sessionCount += 1
            sessions.append(
                SessionFact(
                    device: device, epoch: epoch, isLasting: expirySeconds > 0, firstSeen: now,
                    lastSeen: now))
        }
        sessions[session].lastSeen = now
        sessions[session].brokerStart = brokerStart
        if let asked = devices[device].endAskedAt, known != nil {
            sessions[session].doubts.append(asked...now)
        }
        devices[device].endAskedAt = nil
        // A rival may have logged in meanwhile, with a numbering of its own.
        if isShared(device) { forgetSends(device) }
        devices[device].session = session
        if isStanding { devices[device].lastEnd = nil }
        devices[device].expirySeconds = expirySeconds
        devices[device].mayEnd = expirySeconds == 0
        return session
    }

    /// The device has another session than before: its last one must have ended.
    private func checkEnd(of device: Int, _ client: Int, isReturning: Bool) {
        let fact = devices[device]
        guard fact.session != nil else { return }
        // One rival may request the end while the other's CONNACK is still in flight.
        if isShared(device) { return }
        if isReturning {
            fail(.sessionsLast, "a session that was over is back", client: client)
        }
        devices[device].hasLateStart = false
        guard !fact.mayEnd, !fact.hasLateStart else { return }
        if let end = fact.lastEnd, fact.expirySeconds != .max,
            now >= end.advanced(bySeconds: UInt64(fact.expirySeconds))
        {
            return
        }
        let ago = fact.lastEnd.map { "\(now.milliseconds(since: $0)) ms ago" } ?? "not at all"
        fail(
            .sessionsLast,
            "the session is gone; its connection ended \(ago), its expiry is "
                + "\(fact.expirySeconds) s", client: client)
    }

    /// Whether a device has rivals.
    func isShared(_ device: Int) -> Bool {
        profile.clients.count { $0.device == device } > 1
    }

    /// A client's connection ends, at the earliest possible time.
    func connectionEnded(_ client: Int) {
        // A service has no device.
        guard client < profile.clients.count else { return }
        let device = profile.clients[client].device
        endConnection(device)
        for (carried, gateway) in gatewaysByClient where gateway == client {
            endConnection(profile.clients[carried].device)
        }
    }

    private func endConnection(_ device: Int) {
        devices[device].lastEnd = devices[device].lastEnd ?? now
        willsLose(device)
    }

    /// The broker may forget the numbers of a device's sends.
    private func forgetSends(_ device: Int) {
        for client in profile.clients.indices where profile.clients[client].device == device {
            for message in openSends[client] { sends[message].forgetfulness += 1 }
        }
    }

    // MARK: Subscriptions

    /// A subscription is requested. One that it replaces has no certain grade until the answer.
    func subscribing(_ client: Int, filter: FilterName, grade: MRT.Grade) {
        if grade == .transient { sharedAtMostOnce.insert(filter) }
        let device = profile.clients[client].device
        if grade == .once { devices[device].sharedOnce.insert(filter) }
        devices[device].filtersAskedFor[filter] = devices[device].filtersAskedFor[filter] ?? now
        unsubscribing(client, filter: filter)
    }

    func subscribed(
        _ session: Int, filter: FilterName, grade: MRT.Grade, askedAt: Instant? = nil,
        fullTimesBefore: Int = 0
    ) {
        sessions[session].filters[filter] = FilterFact(
            grade: grade, askedAt: askedAt ?? now, confirmedAt: now,
            fullTimesBefore: fullTimesBefore)
    }

    /// The end of a subscription is requested, perhaps without a connection yet.
    func unsubscribing(_ client: Int, filter: FilterName) {
        guard let session = devices[profile.clients[client].device].session,
            let fact = sessions[session].filters[filter]
        else { return }
        sessions[session].filters[filter]?.endedAt = min(fact.endedAt, now)
    }

    /// Whether a plain subscription matches a topic, by its index.
    static func matches(_ topic: Int, _ filter: FilterName) -> Bool {
        guard case .topics(let index) = filter else { return false }
        return matches(topic: Profile.topics[topic], filter: Profile.filters[index])
    }

    /// Whether a shared one may match it.
    static func matches(_ topic: Int, share: FilterName) -> Bool {
        guard case .share(let index) = share else { return false }
        return matches(topic: Profile.topics[topic], filter: Profile.filters[index])
    }

    /// Whether a topic matches a filter (MQTT 4.7): the plain definition.
    static func matches(topic: String, filter: String) -> Bool {
        let levels = topic.split(separator: "/", omittingEmptySubsequences: false)
        let wanted = filter.split(separator: "/", omittingEmptySubsequences: false)
        for (index, want) in wanted.enumerated() {
            if want == "#" { return true }
            // "a/#" matches "a" too; the check after the loop covers that.
            guard index < levels.count, want == "+" || want == levels[index] else { return false }
            if index == levels.count - 1, wanted.count == levels.count + 1, wanted.last == "#" {
                return true
            }
        }
        return wanted.count == levels.count
    }
}
