// The operations that send messages.

import BrokerTerms
import FoundationEssentials

extension APIOperation {
    private static let waiting = APIMember.query("wait", .number(maximum: 1))

    private static let messageMembers: [APIMember] = [
        waiting, .body("from"), .body("users", .texts), .body("group"), .body("topic"),
        .body("everybody", .boolean), .body("b"), .body("payload"), .body("base64"),
        .body("contentType"), .body("t", .number(maximum: 255)),
        .body("grade", .choice(SendMessage.Grade.allCases.map(\.rawValue))),
        .body("expirySeconds", .number(maximum: .max)), .body("mid"),
        .body("isRetained", .boolean), .body("isKept", .boolean), .body("isDelivered", .boolean),
        .body("unixMilliseconds", .number(maximum: .max)), .body("isLate", .boolean),
        .body("receipts", .texts), .body("asksReference", .boolean), .body("collapse"),
        .body("wakes", .boolean), .body("push"),
        .body("attributes", .textsByName), .body("mentions", .texts),
        .body("mentionsAll", .boolean), .body("onlyMentioned", .boolean),
        .body("priority", .choice(SendMessage.Priority.allCases.map(\.rawValue))),
    ]

    private static let payloadMembers: [APIMember] = [
        .query("from"), .query("user"), .query("topic"), .query("t", .number(maximum: 255)),
        .query("grade", .choice(SendMessage.Grade.allCases.map(\.rawValue))),
        .query("expirySeconds", .number(maximum: .max)), .query("mid"),
        .query("isRetained", .boolean),
    ]

    private static let sendMessageAnswer: [APIAnswerMember] = [
        .number("receiverCount"), .number("refusedCount"),
        .objects("refused", .text("user"), .number("reason")), .text(optional: "mid"),
        .text(optional: "reference"), .number(optional: "verdict"),
    ]

    static var sendMessage: [APIOperation] {
        let reading: Reading = { values throws(AdministrationRefusal) in
            var message = SendMessage(
                app: try values.app(), from: try values.sender(),
                users: values.texts(optional: "users"),
                group: values.text(optional: "group"),
                topic: values.text(optional: "topic"),
                everybody: values.boolean("everybody"), b: values.text(optional: "b"),
                payload: values.text(optional: "payload"),
                base64: values.text(optional: "base64"),
                contentType: values.text(optional: "contentType"),
                t: values.number("t", as: UInt8.self),
                grade: try values.word(optional: "grade", as: SendMessage.Grade.self),
                expirySeconds: values.number("expirySeconds", as: UInt64.self),
                mid: values.text(optional: "mid"), isRetained: values.boolean("isRetained"),
                isKept: values.boolean("isKept"), isDelivered: values.boolean("isDelivered"),
                unixMilliseconds: values.number("unixMilliseconds", as: UInt64.self),
                receipts: values.texts(optional: "receipts"),
                asksReference: values.boolean("asksReference"))
            message.collapse = values.text(optional: "collapse")
            message.wakes = values.boolean("wakes")
            message.push = values.text(optional: "push")
            message.attributes = values.textsByName("attributes")
            message.mentions = values.texts(optional: "mentions")
            message.mentionsAll = values.boolean("mentionsAll")
            message.onlyMentioned = values.boolean("onlyMentioned")
            message.priority = try values.word(optional: "priority", as: SendMessage.Priority.self)
            message.isLate = values.boolean("isLate")
            if let payload = values.payload {
                try message.take(payload, user: values.text(optional: "user"))
            }
            return .sendMessage(message)
        }
        return [
            APIOperation(
                .sendMessage, .post, at: "/apps/{app}/messages", role: .operate,
                summary: "Sends a message as a user, and waits until it is stored.",
                members: messageMembers, payloadMembers: payloadMembers, answer: sendMessageAnswer,
                reading: reading),
            APIOperation(
                .sendMessage, .post, at: "/messages", role: .operate, serves: [.appKey, .user],
                summary: "Sends a message with the rights of the key or token, and waits until it "
                    + "is stored.",
                members: messageMembers, payloadMembers: payloadMembers, answer: sendMessageAnswer,
                reading: reading),
        ]
    }
}

extension SendMessage {
    /// Takes content that is the payload: bytes for a topic, the text ``b`` for a user.
    fileprivate mutating func take(
        _ content: APIPayload, user: String?
    ) throws(AdministrationRefusal) {
        guard (user == nil) != (topic == nil) else {
            throw .malformed("one of ?topic and ?user names the receiver")
        }
        guard let user else {
            if let text = String(validating: content.bytes, as: UTF8.self) {
                payload = text
            } else {
                base64 = Data(content.bytes).base64EncodedString()
            }
            contentType = content.mediaType
            return
        }
        users = [user]
        guard let text = String(validating: content.bytes, as: UTF8.self) else {
            throw AdministrationRefusal(
                .payloadFormatInvalid, "the content for a user is not UTF-8")
        }
        b = text
    }
}
