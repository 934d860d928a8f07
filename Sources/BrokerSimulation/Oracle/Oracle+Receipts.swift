// Receipts: none is told before its fact, none is told twice, and none is lost.

import BrokerTerms
import Primitives
import WireFormat

/// A receipt from its reader's view.
struct ReceivedReceipt {
    let number: UInt64
    let reference: UInt64
    let messageIdentifier: String
    let from: String
    let isApplied: Bool
}

/// A receipt that a session can get.
struct ReceiptName: Hashable {
    let session: Int
    let reference: UInt64
    let user: String
    let isApplied: Bool
}

/// What a user has told about a message.
struct AppliedName: Hashable {
    let reference: UInt64
    let user: String
}

/// What is known of receipts.
struct ReceiptFacts {
    /// Messages that ask, by their ids.
    var messages: [String: Int] = [:]
    var asks: [String: MRT.SendAsks] = [:]
    /// The inbox numbers of each receipt in each session.
    var numbers: [ReceiptName: Set<UInt64>] = [:]
    /// Told of a message, by which users.
    var delivered: [Int: Set<String>] = [:]
    /// What users have asked the broker to tell, and what it has confirmed.
    var telling: Set<AppliedName> = []
    var confirmed: Set<AppliedName> = []
    var applied: Set<AppliedName> = []
    var count = 0
}

extension Oracle {
    /// A new id of a message that asks for receipts.
    func makeReceiptIdentifier(_ asks: MRT.SendAsks) -> String {
        receiptFacts.count += 1
        let identifier = "receipt-\(receiptFacts.count)"
        receiptFacts.asks[identifier] = asks
        return identifier
    }

    /// A client asks the broker to tell that its user has applied a message.
    func telling(_ reference: UInt64, user: Int) {
        receiptFacts.telling.insert(
            AppliedName(reference: reference, user: Profile.userName(user)))
    }

    /// The broker has answered that.
    func told(_ reference: UInt64, user: Int, _ reason: ReasonCode) {
        guard !reason.isFailure else { return }
        receiptFacts.confirmed.insert(
            AppliedName(reference: reference, user: Profile.userName(user)))
    }

    /// A client reads a receipt.
    func receiptReceived(_ receipt: ReceivedReceipt, session: Int, client: Int) {
        guard let message = receiptFacts.messages[receipt.messageIdentifier] else {
            fail(.receiptsAreTrue, "of a message that did not ask", client: client)
            return
        }
        history.note(
            .message(message),
            "\(receipt.isApplied ? "applied" : "delivered") by \(receipt.from), "
                + "as client \(client) is told, #\(receipt.number)")
        let send = sends[message]
        let reader = devices[sessions[session].device].user
        let hasAsked = receiptFacts.asks[receipt.messageIdentifier]?.contains(
            receipt.isApplied ? .applied : .delivered)
        if profile.clients[send.client].user != reader || hasAsked != true {
            fail(
                .receiptsAreTrue, "told to user \(reader), who did not ask", message: message,
                client: client)
        }
        checkFact(of: receipt, message, client)
        let name = ReceiptName(
            session: session, reference: receipt.reference, user: receipt.from,
            isApplied: receipt.isApplied)
        receiptFacts.numbers[name, default: []].insert(receipt.number)
        if receiptFacts.numbers[name]!.count > 1 + inheritedMaximum(reader) {
            fail(
                .receiptsAreToldOnce, "told in #\(receiptFacts.numbers[name]!.sorted())",
                message: message, client: client)
        }
    }

    private func checkFact(of receipt: ReceivedReceipt, _ message: Int, _ client: Int) {
        if receipt.isApplied {
            let name = AppliedName(reference: receipt.reference, user: receipt.from)
            receiptFacts.applied.insert(name)
            if !receiptFacts.telling.contains(name) {
                fail(
                    .receiptsAreTrue, "\(receipt.from) has not told that it is applied",
                    message: message, client: client)
            }
            return
        }
        receiptFacts.delivered[message, default: []].insert(receipt.from)
        let hasIt = sessions.contains {
            Profile.userName(devices[$0.device].user) == receipt.from
                && $0.received.contains(message)
        }
        if !hasIt {
            fail(
                .receiptsAreTrue, "\(receipt.from) does not have it", message: message,
                client: client)
        }
    }

    // MARK: At the end

    /// Checks that the senders of all messages that asked were told.
    func checkReceipts() {
        for (identifier, message) in receiptFacts.messages.sorted(by: { $0.value < $1.value }) {
            let send = sends[message]
            guard let outcome = send.outcome, !outcome.reason.isFailure, isTellable(send),
                receiptFacts.asks[identifier]?.contains(.delivered) == true,
                case .users(let users, _) = send.receivers
            else { continue }
            for user in users
            where hasSettled(user, message)
                && receiptFacts.delivered[message]?.contains(Profile.userName(user)) != true
            {
                fail(
                    .receiptsAreTold, "user \(user) has it, and nobody was told", message: message,
                    client: send.client)
            }
        }
    }

    /// Whether a session of the sender's user has been there from the send until the end, and there
    /// was room for receipts.
    private func isTellable(_ send: SendFact) -> Bool {
        guard !mayHaveLackedRoom(send) else { return false }
        let user = profile.clients[send.client].user
        return sessions.contains {
            devices[$0.device].user == user && $0.isLasting && $0.firstSeen <= send.issuedAt
                && $0.lastSeen == .never
        }
    }

    /// Whether a device of a user has a message, and its session has lasted: it has acknowledged
    /// the message by now.
    private func hasSettled(_ user: Int, _ message: Int) -> Bool {
        sessions.indices.contains {
            devices[sessions[$0].device].user == user && !isMQTT($0) && sessions[$0].isLasting
                && sessions[$0].lastSeen == .never && sessions[$0].received.contains(message)
        }
    }
}
