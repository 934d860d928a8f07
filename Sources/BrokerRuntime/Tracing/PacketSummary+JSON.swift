// What a trace shows of the messages of JSON clients. Those of a client are packets of MRT by now,
// and have the names of their types again; those of the broker are read as JSON.

import Administration
import BrokerTerms
import Primitives
import WireFormat

extension PacketSummary {
    /// The type of the message that became this packet.
    func messageType(_ type: MRT.PacketType) throws(WireError) -> String {
        switch type {
        case .connect: "connect"
        case .auth: "authenticate"
        case .send: "send"
        case .ack: "ack"
        case .pingRequest: "ping"
        case .disconnect: "disconnect"
        case .request:
            switch try MRT.Request(body: body).operation {
            case .subscribe: "subscribe"
            case .unsubscribe: "unsubscribe"
            case .setWill: "setWill"
            case .clearWill: "clearWill"
            case .presence: "presence"
            case .groupCreate: "createGroup"
            case .groupJoin: "joinGroup"
            case .groupLeave: "leaveGroup"
            case .groupKick: "kickMember"
            case .groupBan: "banMember"
            case .groupList: "listGroups"
            case .groupDescribe: "describeGroup"
            case .groupSetMeta: "setGroupMeta"
            case .groupSetAllowList: "setGroupAllowed"
            case .groupSetHistory: "setGroupHistory"
            case .groupHistory: "groupHistory"
            case .history: "history"
            case .conversations: "conversations"
            case .markRead: "read"
            case .hideHistory: "hide"
            case .searchHistory: "history"
            case .applied: "applied"
            case .recall: "recall"
            case .replace: "replace"
            case .setWakeTarget: "setWakeTarget"
            case .listWakeTargets: "wakeTargets"
            case .removeWakeTarget: "removeWakeTarget"
            // JSON has no such request.
            case .reportWakes: "request"
            case .groupSetWake: "setGroupWake"
            case .groupMute: "muteGroup"
            case nil: "request"
            }
        case .connack, .result, .deliver, .response, .channel, .pingResponse: "\(type)"
        }
    }
}

/// The members of the broker's messages that a trace shows. Cookies and epochs are not among them.
private struct ShownMessage: Decodable {
    var type: String
    var number: UInt64?
    var request: UInt64?
    var reason: UInt64?
    var name: String?
    var detail: String?
    var member: String?
    var user: String?
    var device: String?
    var from: String?
    var topic: String?
    var group: String?
    var kind: String?
    var event: String?
    var grade: String?
    var t: UInt64?
    var b: String?
    var payload: String?
    var base64: String?
    var mid: String?
    var isDuplicate: Bool?
    var isRetained: Bool?
    var isSessionPresent: Bool?
    var refusedCount: UInt64?
}

extension TracedPacket {
    /// The record of what the broker writes to a JSON client: a frame of text, an event, or what
    /// belongs to the response of an event stream.
    init(message bytes: RawSpan) {
        let all = bytes.withUnsafeBytes { Array($0) }
        let json = Self.json(in: all)
        guard !json.isEmpty, json.count <= TraceLimits.messageByteCountMaximum,
            let message = try? AdministrationLine.decode(ShownMessage.self, from: json)
        else {
            self.init(
                .out, json.isEmpty ? "stream" : Self.type(of: json),
                byteCount: UInt64(json.isEmpty ? all.count : json.count))
            if json.count > TraceLimits.messageByteCountMaximum { detail = "too long to show" }
            return
        }
        self.init(.out, message.type, byteCount: UInt64(json.count))
        id = message.number ?? message.request
        reason = message.name
        code = message.reason
        user = message.user
        topic = message.topic.map(Self.shown)
        receiver = message.group.map { "group \(Self.shown($0))" }
        grade = ["transient", "durable", "once"].firstIndex(of: message.grade).map(UInt64.init)
        setContent(of: message)
        var words = [message.detail, message.member, message.event].compactMap { $0 }
        if let sender = message.from { words.append("from \(Self.shown(sender))") }
        if let kind = message.kind { words.append("kind \(kind)") }
        if let type = message.t { words.append("type \(type)") }
        if let identifier = message.mid { words.append("message id \(Self.shown(identifier))") }
        if let count = message.refusedCount { words.append("\(count) receivers refused") }
        if message.isDuplicate == true { words.append("duplicate") }
        if message.isRetained == true { words.append("retained") }
        if message.isSessionPresent == true { words.append("session present") }
        if !words.isEmpty { detail = words.joined(separator: ", ") }
    }

    /// The type of a message that is not read, or the event of another system's: the encoder writes
    /// it first.
    private static func type(of json: [UInt8]) -> String {
        for member in ["type", "event"] {
            let start = Array("{\"\(member)\":\"".utf8)
            guard json.starts(with: start) else { continue }
            let name = json.dropFirst(start.count).prefix { $0 != UInt8(ascii: "\"") }
            return String(decoding: name, as: UTF8.self)
        }
        return "message"
    }

    private mutating func setContent(of message: ShownMessage) {
        if let text = message.b ?? message.payload {
            payloadByteCount = UInt64(text.utf8.count)
            payload = Self.shown(text)
        } else if let text = message.base64 {
            payloadByteCount = UInt64(text.utf8.count / 4 * 3)
            payload = Self.shown(text)
        }
    }

    /// A text, cut after ``TraceLimits/textByteCountMaximum``.
    private static func shown(_ text: String) -> String {
        PacketSummary.text(Array(text.utf8).span.bytes)
    }

    /// The JSON in a frame of text or in an event; empty if there is none.
    private static func json(in bytes: [UInt8]) -> [UInt8] {
        guard let first = bytes.first else { return [] }
        if first == 0x80 | WebSocketOpcode.text.rawValue, bytes.count >= 2 {
            // The broker does not mask its frames (RFC 6455, 5.1).
            let headerByteCount = bytes[1] == 127 ? 10 : bytes[1] == 126 ? 4 : 2
            return Array(bytes.dropFirst(headerByteCount))
        }
        let mark = Array("data: ".utf8)
        var line = bytes[...]
        // The field `id` may precede it.
        if line.starts(with: "id: ".utf8) {
            line = line.drop { $0 != UInt8(ascii: "\n") }.dropFirst()
        }
        guard line.starts(with: mark) else { return [] }
        return Array(line.dropFirst(mark.count).prefix { $0 != UInt8(ascii: "\n") })
    }
}
