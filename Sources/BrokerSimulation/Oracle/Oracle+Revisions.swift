// Recalls, replacements and collapse keys: what was withdrawn reaches nobody, and who is late is
// told.

import BrokerTerms
import Primitives
import WireFormat

/// What is known of one message that may be revised.
struct RevisionFact {
    /// What each withdrawn user may get: at least this content, and nothing after a recall.
    var contents: [String: Int] = [:]
    /// When a recall was asked for, and the late users that its answer named.
    var recalledAt: Instant?
    var late: Set<String> = []
    /// The number of the last replacement that was asked for.
    var content = 0
    /// The inbox numbers of a recall in each session.
    var numbers: [Int: Set<UInt64>] = [:]
    /// The oldest content that each user has got.
    var received: [String: Int] = [:]

    static let nothing = Int.max
}

/// What is known of recalls and replacements.
struct RevisionFacts {
    /// Messages by their ids, and those that may be revised now, by users.
    var messages: [String: Int] = [:]
    var revisable: [Int: [Int]] = [:]
    var facts: [Int: RevisionFact] = [:]
    /// The ids of messages with a collapse key, in their order.
    var collapsing: [String: [String]] = [:]
    var keys: [String: String] = [:]
    /// Those of which the broker has sent a copy.
    var sent: Set<Int> = []
    var count = 0

    var isEmpty: Bool { count == 0 }
}

extension Oracle {
    /// A new id of a message that may be revised.
    func makeRevisableIdentifier(_ order: Order, user: Int) -> String {
        revisionFacts.count += 1
        let identifier = "revised-\(revisionFacts.count)"
        if !order.collapseKey.isEmpty {
            let key = "\(user) \(order.collapseKey) \(receiversCollapsing(order, user: user))"
            revisionFacts.keys[identifier] = key
            revisionFacts.collapsing[key, default: []].append(identifier)
        }
        return identifier
    }

    /// The receivers that a collapse key is for: those that exist and that the sender may send to,
    /// in whatever order it names them.
    private func receiversCollapsing(_ order: Order, user: Int) -> Receivers {
        guard case .users(let users, _) = order.receivers else { return order.receivers }
        let permitted = profile.restrictions[user]?.sendsTo
        let found = Set(users).filter { $0 < profile.userCount && permitted?.contains($0) != false }
        return .users(found.sorted(), isList: true)
    }

    /// The sender of a message has stored its result. Only the latest of several messages with an
    /// id is revised, so the broker must not have forgotten it meanwhile.
    func noteRevisable(_ message: Int) {
        let send = sends[message]
        revisionFacts.messages[send.messageIdentifier] = message
        guard let outcome = send.outcome, !outcome.reason.isFailure, send.forgetfulness == 0,
            outcome.deathsBefore == send.deathsBefore, deaths == send.deathsBefore,
            !mayHaveLackedRoom(send), revisionFacts.keys[send.messageIdentifier] == nil
        else { return }
        revisionFacts.revisable[profile.clients[send.client].user, default: []].append(message)
    }

    /// A message that a user can revise; it may be revised again.
    func takeRevisable(of user: Int) -> Int? {
        guard let messages = revisionFacts.revisable[user], let last = messages.last else {
            return nil
        }
        if revisionFacts.facts[last] != nil {
            revisionFacts.revisable[user]!.removeLast()
        }
        return last
    }

    func nextContent(of message: Int) -> Int {
        (revisionFacts.facts[message]?.content ?? 0) + 1
    }

    /// A client asks for a recall, or for a replacement.
    func revising(_ message: Int, content: Int?) {
        history.note(
            .message(message), content.map { "is to be replaced, \($0)" } ?? "is to be recalled")
        var fact = revisionFacts.facts[message] ?? RevisionFact()
        if let content {
            fact.content = content
        } else if fact.recalledAt == nil {
            fact.recalledAt = now
        }
        revisionFacts.facts[message] = fact
    }

    /// The answer.
    func revised(
        _ message: Int, content: Int?, withdrawnCount: Int, lateCount: Int, late: [String],
        client: Int
    ) {
        history.note(
            .message(message), "withdrawn of \(withdrawnCount), late for \(late)")
        guard case .users(let users, _) = sends[message].receivers else { return }
        let names = users.map(Profile.userName)
        if withdrawnCount + lateCount != names.count || late.count != lateCount
            || !Set(late).isSubset(of: names)
        {
            fail(
                .recallsAreTrue, "\(withdrawnCount) withdrawn, late for \(late), sent to \(names)",
                message: message, client: client)
        }
        for name in names where !late.contains(name) {
            let least = content ?? RevisionFact.nothing
            if let received = revisionFacts.facts[message]?.received[name], received < least {
                fail(
                    .recallsAreTrue, "withdrawn from \(name), who has it", message: message,
                    client: client)
            }
            revisionFacts.facts[message]?.contents[name] = least
        }
        if content == nil { revisionFacts.facts[message]?.late = Set(late) }
    }

    /// A message that may be revised was received.
    func checkRevision(
        _ received: ReceivedMessage, message: Int, session: Int, client: Int
    ) {
        guard sends[message].messageIdentifier.hasPrefix("revised-") else { return }
        let user = devices[sessions[session].device].user
        let name = Profile.userName(user)
        var fact = revisionFacts.facts[message] ?? RevisionFact()
        defer { revisionFacts.facts[message] = fact }
        fact.received[name] = min(fact.received[name] ?? .max, received.content)
        if let least = fact.contents[name], received.content < least {
            fail(
                .recallsAreTrue, "received with content \(received.content), withdrawn before",
                message: message, client: client)
        }
        let isAlone = devices.count { $0.user == user } == 1
        if isAlone, let told = fact.numbers[session]?.min(), received.number > told {
            fail(
                .recallsAreToldOnce, "#\(received.number) follows its recall, #\(told)",
                message: message, client: client)
        }
    }

    /// A client is told of a recall or a change.
    func revisionTold(
        _ identifier: String, isRecall: Bool, number: UInt64, session: Int, client: Int
    ) {
        guard let message = revisionFacts.messages[identifier],
            var fact = revisionFacts.facts[message]
        else {
            return fail(.recallsAreTold, "of a message that nobody revised", client: client)
        }
        history.note(
            .message(message),
            "\(isRecall ? "recalled" : "changed"), as client \(client) is told, #\(number)")
        let user = devices[sessions[session].device].user
        if isRecall ? fact.recalledAt == nil : fact.content == 0 {
            fail(.recallsAreTold, "nobody revised it so", message: message, client: client)
        }
        guard isRecall else { return }
        fact.numbers[session, default: []].insert(number)
        revisionFacts.facts[message] = fact
        if fact.numbers[session]!.count > 1 + inheritedMaximum(user) {
            fail(
                .recallsAreToldOnce, "told in #\(fact.numbers[session]!.sorted())",
                message: message, client: client)
        }
    }

    // MARK: At the end

    /// Whether a message may be missing because it was recalled, or gave way to a newer one.
    func mayBeRevised(_ message: Int) -> Bool {
        if revisionFacts.facts[message]?.recalledAt != nil { return true }
        let identifier = sends[message].messageIdentifier
        guard let key = revisionFacts.keys[identifier] else { return false }
        // A repeated send that the broker has forgotten is newer than those behind it.
        if deaths > sends[message].deathsBefore || mayHaveLackedRoom(sends[message]) { return true }
        return revisionFacts.collapsing[key]?.last != identifier
    }

    /// Checks that the devices of late users were told.
    func checkRevisions() {
        guard !profile.hasSmallQueues else { return }
        for (message, fact) in revisionFacts.facts.sorted(by: { $0.key < $1.key }) {
            guard let recalledAt = fact.recalledAt else { continue }
            for session in sessions.indices
            where sessions[session].isLasting && sessions[session].firstSeen <= recalledAt
                && sessions[session].lastSeen == .never && !isMQTT(session)
                && fact.late.contains(Profile.userName(devices[sessions[session].device].user))
                && fact.numbers[session] == nil
            {
                fail(
                    .recallsAreTold,
                    "late for user \(devices[sessions[session].device].user), "
                        + "whom nobody told", message: message)
            }
        }
    }
}
