// The rules: the destination and the form of each message. They decide, and send nothing.

import BrokerTerms
import ClientProgram
import WireFormat

/// Publications from the MQTT broker to Martlet.
struct InwardRule: Hashable, Sendable {
    /// The receiver.
    enum Target: Hashable, Sendable {
        case user(Template)
        case group(Template)
        case topic(Template)
    }

    /// The conversion of the payload to a message.
    enum Form: String, CaseIterable, Sendable {
        /// It is the text `b`; the rule gives `t`.
        case text
        /// It is the JSON `{"t":"…","b":"…"}`.
        case json
        /// It is unchanged; only to a topic.
        case raw
    }

    var filter: TopicFilter
    var target: Target
    var form: Form
    /// `t` of the form ``Form/text``.
    var type: UInt8 = 0
    /// The highest QoS of the subscription.
    var qos = MQTT.QoS.exactlyOnce
    /// Whether the message becomes the retained message of its topic; only to a topic.
    var isRetained = false
}

/// Messages from Martlet to the MQTT broker.
struct OutwardRule: Hashable, Sendable {
    /// The messages that it selects.
    enum Source: Hashable, Sendable {
        /// Messages to the bridge's own user: of one sender, or, if nil, of any.
        case inbox(String?)
        /// Messages to one group, or, if nil, to any that the user is a member of.
        case group(String?)
        /// Broadcasts of one sender, or, if nil, of any.
        case broadcast(String?)
        case topic(TopicFilter)
    }

    /// The conversion of the message to a payload.
    enum Form: String, CaseIterable, Sendable {
        /// `b` alone.
        case text
        /// The JSON that Martlet's own MQTT clients receive, with `from` and `time`.
        case json
    }

    var source: Source
    var topic: Template
    var form = Form.text
    /// The highest QoS of the publication.
    var qos = MQTT.QoS.exactlyOnce
    var isRetained = false
}

/// A message for Martlet, ready to be sent.
struct PreparedSend: Hashable, Sendable {
    enum Target: Hashable, Sendable {
        case user([UInt8])
        case group([UInt8])
        case topic([UInt8])
    }

    var target: Target
    var isRaw: Bool
    var isRetained = false
    var payload: [UInt8]
    var expirySeconds: UInt32 = 0
}

/// A publication for the MQTT broker.
struct PreparedPublish: Hashable, Sendable {
    var topic: [UInt8]
    var payload: [UInt8]
    var qos: MQTT.QoS
    var isRetained = false
    /// User properties in their encoding of 5.0.
    var properties: [UInt8] = []
}

/// A message from Martlet, with what the rules use of it.
struct ReceivedMessage {
    var kind: MRT.DeliveryKind
    var grade: MRT.Grade
    var from: [UInt8]
    var time: UInt64
    /// Topic or group.
    var address: [UInt8]
    var isRaw: Bool
    var isPossibleDuplicate = false
    var payload: [UInt8]
}

/// The decision of the rules about a message.
enum Route<Prepared> {
    case forward(Prepared)
    /// No rule matches it.
    case unmatched
    /// It can never be delivered.
    case refused(ReasonCode)
}

/// All rules of a bridge.
struct RuleSet: Hashable, Sendable {
    var inward: [InwardRule] = []
    var outward: [OutwardRule] = []
    /// Topics for permanently refused messages; nil for none.
    var inwardDeadLetter: Template?
    var outwardDeadLetter: Template?

    // MARK: - To Martlet

    /// The decision about a publication. The first rule that matches applies; no two can.
    func route(topic: [UInt8], payload: [UInt8]) -> Route<PreparedSend> {
        let levels = TopicLevels(topic)
        guard let rule = inward.first(where: { $0.filter.matches(levels) }) else {
            return .unmatched
        }
        let values = TemplateValues(topic: levels)
        let target: PreparedSend.Target
        switch rule.target {
        case .user(let template):
            guard let name = template.filled(values) else { return .refused(.topicNameInvalid) }
            target = .user(name)
        case .group(let template):
            guard let name = template.filled(values) else { return .refused(.topicNameInvalid) }
            target = .group(name)
        case .topic(let template):
            guard let name = template.filled(values) else { return .refused(.topicNameInvalid) }
            target = .topic(name)
        }
        switch rule.form {
        case .raw:
            return .forward(
                PreparedSend(
                    target: target, isRaw: true, isRetained: rule.isRetained, payload: payload))
        case .text:
            guard TextRules.isUTF8(payload.span.bytes) else {
                return .refused(.payloadFormatInvalid)
            }
            return .forward(
                PreparedSend(
                    target: target, isRaw: false, isRetained: rule.isRetained,
                    payload: [rule.type] + payload))
        case .json:
            var binary = [UInt8](repeating: 0, count: payload.count)
            let count = payload.withUnsafeBytes { json in
                binary.withUnsafeMutableBytes { TextBody.readJSON(json.bytes, into: $0) }
            }
            guard let count else { return .refused(.payloadFormatInvalid) }
            return .forward(
                PreparedSend(
                    target: target, isRaw: false, isRetained: rule.isRetained,
                    payload: Array(binary[..<count])))
        }
    }

    /// The topic for a publication that Martlet refused permanently; nil for none.
    func deadLetter(topic: [UInt8], payload: [UInt8]) -> PreparedSend? {
        guard let name = inwardDeadLetter?.filled(TemplateValues(topic: TopicLevels(topic))) else {
            return nil
        }
        return PreparedSend(target: .topic(name), isRaw: true, payload: payload)
    }

    // MARK: - From Martlet

    /// The decision about a message.
    func route(_ message: ReceivedMessage) -> Route<PreparedPublish> {
        let levels = message.kind == .topic ? TopicLevels(message.address) : nil
        guard
            let rule = outward.first(where: { matches($0.source, message: message, levels: levels) }
            )
        else { return .unmatched }
        let values = TemplateValues(
            topic: levels, from: message.from[...],
            group: message.kind == .group ? message.address[...] : [])
        guard let topic = rule.topic.filled(values),
            TextRules.isTopicName(topic.span.bytes)
        else { return .refused(.topicNameInvalid) }
        return .forward(
            PreparedPublish(
                topic: topic, payload: payload(of: message, rule.form),
                qos: min(rule.qos, MQTT.QoS(rawValue: message.grade.rawValue)!),
                isRetained: rule.isRetained, properties: Self.properties(of: message)))
    }

    private func matches(
        _ source: OutwardRule.Source, message: ReceivedMessage, levels: TopicLevels?
    ) -> Bool {
        func isNamed(_ name: String?, _ bytes: [UInt8]) -> Bool {
            name.map { $0.utf8.elementsEqual(bytes) } ?? true
        }
        switch source {
        case .inbox(let from): return message.kind == .unicast && isNamed(from, message.from)
        case .broadcast(let from):
            return message.kind == .broadcast && isNamed(from, message.from)
        case .group(let group): return message.kind == .group && isNamed(group, message.address)
        case .topic(let filter): return levels.map { filter.matches($0) } ?? false
        }
    }

    private func payload(of message: ReceivedMessage, _ form: OutwardRule.Form) -> [UInt8] {
        if message.isRaw { return message.payload }
        switch form {
        case .text: return Array(message.payload.dropFirst())
        case .json:
            let (payload, from, address) = (message.payload, message.from, message.address)
            var envelope = TextEnvelope(
                payload: payload.span.bytes, from: from.span.bytes, time: message.time)
            if message.kind == .group { envelope.group = address.span.bytes }
            return bytes(of: envelope.byteCount) { envelope.write(to: &$0) }
        }
    }

    /// The topic for a message that the MQTT broker refused permanently; nil for none.
    func deadLetter(_ message: ReceivedMessage, qos: MQTT.QoS) -> PreparedPublish? {
        guard let topic = outwardDeadLetter?.filled(TemplateValues(from: message.from[...])),
            TextRules.isTopicName(topic.span.bytes)
        else { return nil }
        return PreparedPublish(
            topic: topic, payload: payload(of: message, .json), qos: qos,
            properties: Self.properties(of: message))
    }

    /// The metadata that Martlet's own MQTT clients receive beside the payload.
    private static func properties(of message: ReceivedMessage) -> [UInt8] {
        var bytes: [UInt8] = []
        func add(_ name: StaticString, _ value: [UInt8]) {
            bytes.append(MQTT.PropertyIdentifier.userProperty.rawValue)
            for text in [Array(name.description.utf8), value] {
                bytes += [UInt8(text.count >> 8), UInt8(text.count & 0xFF)]
                bytes += text
            }
        }
        add("from", message.from)
        add("time", Array(String(message.time).utf8))
        if message.kind == .group { add("groupid", message.address) }
        if message.isPossibleDuplicate { add("possible-duplicate", [UInt8(ascii: "1")]) }
        return bytes
    }
}

/// Bytes that a writer fills.
func bytes(of byteCount: Int, _ write: (inout PacketWriter) -> Void) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: byteCount) { room, count in
        var writer = PacketWriter(UnsafeMutableRawBufferPointer(room).mutableBytes)
        write(&writer)
        count = writer.byteCount
    }
}
