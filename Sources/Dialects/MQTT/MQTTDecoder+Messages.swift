// Messages of MQTT clients as sends. A topic may be the address of a user, a list, a group or
// everybody; its payload must then be a message as JSON.

import BrokerCore
import Primitives
import WireFormat

extension MQTTDecoder {
    /// The send of a PUBLISH.
    ///
    /// - Parameters:
    ///   - topic: the range of the topic in the turn's buffer.
    ///   - name: the same bytes.
    static func request(
        of publish: MQTT.Publish, _ packet: ReceivedPacket, topic: ByteRange,
        name: UnsafeRawBufferPointer
    ) -> SendRequest {
        var request = request(
            topic: topic, name: name, payload: publish.payload, qos: publish.qos, packet)
        request.isRetained = publish.isRetained && request.isForTopic
        request.packetIdentifier = publish.packetIdentifier
        request.expirySeconds = publish.messageExpirySeconds.map(UInt64.init)
        takeProperties(publish.properties, of: .publish, packet, into: &request)
        return request
    }

    /// The send of a will.
    static func request(of will: MQTT.Will, _ packet: ReceivedPacket) -> SendRequest {
        var request = request(
            topic: packet.place(will.topic), name: will.topic.bytes(in: packet.body),
            payload: will.payload, qos: will.qos, packet)
        request.isRetained = will.isRetained && request.isForTopic
        request.expirySeconds = will.messageExpirySeconds.map(UInt64.init)
        takeProperties(will.properties, of: .will, packet, into: &request)
        // Wills are in no history, nobody waits for their results, and they are sent at a time that
        // their client does not know.
        request.isKept = false
        request.isNeverKept = false
        request.isUndelivered = false
        request.isLate = false
        request.senderUnixMilliseconds = 0
        request.priority = .normal
        request.mentions = Mentions()
        request.asks = []
        if !request.collapseKey.isEmpty { request.collapseKey = .empty }
        return request
    }

    /// A message for a topic, which may be an address.
    private static func request(
        topic: ByteRange, name: UnsafeRawBufferPointer, payload: ByteRange, qos: MQTT.QoS,
        _ packet: ReceivedPacket
    ) -> SendRequest {
        let grade = Grade(qos)
        let payload = packet.place(payload)
        guard let (target, isValid) = address(topic, name) else {
            return SendRequest(
                number: 0, grade: grade, target: .topic(topic), isRaw: true, payload: payload,
                messageByteCount: 0)
        }
        var request = SendRequest(
            number: 0, grade: grade, target: target, payload: payload, messageByteCount: 0)
        if !isValid { request.fault = .topicNameInvalid }
        if let (message, byteCount) = readMessage(payload, packet) {
            request.payload = message
            request.messageByteCount = UInt32(byteCount)
        } else {
            request.fault = request.fault ?? .payloadFormatInvalid
        }
        return request
    }

    /// Decodes `$u/user`, `$u` for the users in the properties, `$g/group` or `$b`; false if no
    /// user or group can have that name.
    private static func address(
        _ topic: ByteRange, _ name: UnsafeRawBufferPointer
    ) -> (SendTarget, isValid: Bool)? {
        func range(_ rest: UnsafeRawBufferPointer) -> ByteRange {
            ByteRange(
                offset: Int(topic.offset) + name.count - rest.count, count: rest.count)
        }
        return switch AddressedTopic(name) {
        case .everybody?: (.everybody, true)
        case .list?: (.users(ids: .empty, count: 0), true)
        case .user(let user)?: (.user(range(user)), TextRules.isIdentifier(user.bytes))
        case .group(let group)?: (.group(range(group)), TextRules.isIdentifier(group.bytes))
        case nil: nil
        }
    }

    /// Replaces a JSON message with its binary form, and returns the size of its shortest JSON
    /// form; nil if it is not a message.
    private static func readMessage(
        _ json: ByteRange, _ packet: ReceivedPacket
    ) -> (message: ByteRange, byteCount: Int)? {
        guard !json.isEmpty else { return nil }
        let message = packet.replace(json, byteCount: Int(json.count)) { output in
            TextBody.readJSON(json.bytes(in: packet.bytes.bytes), into: output) ?? 0
        }
        // Even an empty text has its type before it.
        guard !message.isEmpty,
            let byteCount = TextBody.minimalJSONByteCount(message.bytes(in: packet.bytes.bytes))
        else { return nil }
        return (message, byteCount)
    }

    // MARK: - Properties

    /// Decodes the properties of a message and moves those that are forwarded together. For a
    /// message to an address it reads `mid`, the application's id, and on `$u` the receivers in
    /// `to`.
    private static func takeProperties(
        _ section: MQTT.PropertySection, of owner: MQTT.PropertyOwner, _ packet: ReceivedPacket,
        into request: inout SendRequest
    ) {
        if request.isForTopic {
            // On a plain topic all of them belong to the publisher [MQTT-3.3.2-17].
            if section.carriedByteCount > 0 {
                takeClass(section, of: owner, packet, into: &request)
            }
            request.properties = carried(section, of: owner, packet)
            return
        }
        if section.carriedByteCount > 0 {
            takeAsks(section, of: owner, packet, into: &request)
            takeClass(section, of: owner, packet, into: &request)
            takeAddressed(section, of: owner, packet, into: &request)
            takeOptions(of: owner, in: packet.bytes, into: &request)
        } else if case .users = request.target {
            request.fault = .topicNameInvalid
        }
    }

    private static func carried(
        _ section: MQTT.PropertySection, of owner: MQTT.PropertyOwner, _ packet: ReceivedPacket
    ) -> ByteRange {
        let count = Int(section.carriedByteCount)
        if count == 0 { return .empty }
        let range = packet.place(section.range)
        if count == Int(range.count) { return range }
        return packet.replace(range, byteCount: count) { output in
            var writer = PacketWriter(output.mutableBytes)
            section.write(to: &writer, of: owner, from: packet.body.bytes)
            return writer.byteCount
        }
    }

    /// The same for a message to users, a group or everybody. Reserved user properties are
    /// stripped: only the broker may set them, and receivers must not see the list of recipients.
    /// The list of `to` is written before the other properties, in its shorter form.
    private static func takeAddressed(
        _ section: MQTT.PropertySection, of owner: MQTT.PropertyOwner, _ packet: ReceivedPacket,
        into request: inout SendRequest
    ) {
        let range = packet.place(section.range)
        let body = packet.body
        var receivers = UserList(MessageProperty.receiver)
        var mentioned = UserList(MessageProperty.mention)
        var (listByteCount, namesByteCount, keyByteCount, ownByteCount) = (0, 0, 0, 0)
        let collapse = collapseKey(in: section, of: owner, in: body.bytes)
        let push = push(in: section, of: owner, in: body.bytes, into: &request)
        let whole = packet.replace(range, byteCount: Int(range.count)) { output in
            var writer = PacketWriter(output.mutableBytes)
            receivers.write(section, of: owner, in: body, to: &writer)
            listByteCount = writer.byteCount
            mentioned.write(section, of: owner, in: body, to: &writer)
            namesByteCount = writer.byteCount
            if let collapse { writer.write(bytes: collapse.bytes(in: body).bytes) }
            keyByteCount = writer.byteCount
            if let push { writer.write(bytes: push.bytes(in: body).bytes) }
            ownByteCount = writer.byteCount
            section.write(to: &writer, of: owner, from: body.bytes) { property in
                property.identifier != .userProperty
                    || !MessageProperty.isReserved(property.text.bytes(in: body))
            }
            return writer.byteCount
        }
        request.properties = ByteRange(
            offset: Int(whole.offset) + ownByteCount, count: Int(whole.count) - ownByteCount)
        if namesByteCount > listByteCount {
            request.mentions.names = ByteRange(
                offset: Int(whole.offset) + listByteCount, count: namesByteCount - listByteCount)
        }
        if let collapse {
            request.collapseKey = ByteRange(
                offset: Int(whole.offset) + namesByteCount, count: Int(collapse.count))
            if collapse.isEmpty { request.fault = .payloadFormatInvalid }
        }
        if let push {
            request.push = ByteRange(
                offset: Int(whole.offset) + keyByteCount, count: Int(push.count))
        }
        if mentioned.hasInvalid { request.fault = .topicNameInvalid }
        if mentioned.count > WireLimits.mentionCountMaximum
            || Int(request.mentions.names.count) > WireLimits.mentionsByteCountMaximum
        {
            request.fault = .quotaExceeded
        }
        if case .users = request.target {
            request.target = .users(
                ids: ByteRange(offset: Int(whole.offset), count: listByteCount),
                count: receivers.count)
            if receivers.count == 0 || receivers.hasInvalid { request.fault = .topicNameInvalid }
            if receivers.count > WireLimits.receiverCountMaximum { request.fault = .quotaExceeded }
        } else if receivers.count > 0 || receivers.hasInvalid {
            // The topic names the receiver: a list in addition is a mistake of the client, which is
            // refused.
            request.fault = .topicNameInvalid
        }
    }

    /// The key of a message that replaces one; empty for one that breaks its rule, nil for none.
    private static func collapseKey(
        in section: MQTT.PropertySection, of owner: MQTT.PropertyOwner,
        in body: RawSpan
    ) -> ByteRange? {
        var reader = MQTT.PropertyReader(section, of: owner, in: body)
        while let property = try? reader.next() {
            let name = property.text.bytes(in: body)
            guard property.identifier == .userProperty,
                name.withUnsafeBytes({ $0.elementsEqual(MessageProperty.collapse.utf8Bytes) })
            else { continue }
            let key = property.value.bytes(in: body)
            return TextRules.isMessageIdentifier(key) ? property.value : .empty
        }
        return nil
    }

    /// Reads `wake` and `push`. Returns what the message has for those who are woken; nil for none.
    private static func push(
        in section: MQTT.PropertySection, of owner: MQTT.PropertyOwner, in body: RawSpan,
        into request: inout SendRequest
    ) -> ByteRange? {
        var push: ByteRange?
        var reader = MQTT.PropertyReader(section, of: owner, in: body)
        while let property = try? reader.next() {
            guard property.identifier == .userProperty else { continue }
            let name = property.text.bytes(in: body)
            let value = property.value.bytes(in: body)
            if name.isEqual(MessageProperty.wake) {
                if value.isEqual("no") { request.isWithoutWake = true }
            } else if name.isEqual(MessageProperty.push) {
                if MRTDecoder.isPush(value) {
                    push = property.value
                } else {
                    refuse(.pushText, &request)
                }
            }
        }
        return push
    }

    /// Reads `reference` and `receipts`. The caller gives the message its reference.
    private static func takeAsks(
        _ section: MQTT.PropertySection, of owner: MQTT.PropertyOwner, _ packet: ReceivedPacket,
        into request: inout SendRequest
    ) {
        var reader = MQTT.PropertyReader(section, of: owner, in: packet.body.bytes)
        while let property = try? reader.next() {
            guard property.identifier == .userProperty else { continue }
            let name = property.text.bytes(in: packet.body)
            let value = property.value.bytes(in: packet.body)
            if name.elementsEqual(MessageProperty.asksReference.utf8Bytes) {
                if flag(value, of: &request) { request.asks.insert(.reference) }
            } else if name.elementsEqual(MessageProperty.receipts.utf8Bytes) {
                // An empty list asks for nothing, which no sender means.
                if value.isEmpty { refuse(.receiptsWord, &request) }
                for word in value.split(separator: UInt8(ascii: ",")) {
                    let word = trimmed(word)
                    if word.elementsEqual("delivered".utf8) {
                        request.asks.insert(.delivered)
                    } else if word.elementsEqual("applied".utf8) {
                        request.asks.insert(.applied)
                    } else {
                        refuse(.receiptsWord, &request)
                    }
                }
            }
        }
    }

    /// Reads the priority of a message of QoS 0 and the time of a late reading, which may be on any
    /// topic, and to a group whom it mentions besides the members in `mention`.
    private static func takeClass(
        _ section: MQTT.PropertySection, of owner: MQTT.PropertyOwner, _ packet: ReceivedPacket,
        into request: inout SendRequest
    ) {
        var reader = MQTT.PropertyReader(section, of: owner, in: packet.body.bytes)
        while let property = try? reader.next() {
            guard property.identifier == .userProperty else { continue }
            let name = property.text.bytes(in: packet.body)
            let value = property.value.bytes(in: packet.body)
            if name.elementsEqual(MessageProperty.late.utf8Bytes) {
                request.isLate = true
                request.senderUnixMilliseconds = decimal(value) ?? 0
            } else if name.elementsEqual(MessageProperty.priority.utf8Bytes) {
                guard request.grade == .transient else { continue }
                switch value {
                case _ where value.elementsEqual("low".utf8): request.priority = .low
                case _ where value.elementsEqual("high".utf8): request.priority = .high
                case _ where value.elementsEqual("normal".utf8): request.priority = .normal
                default: refuse(.propertyValue, &request)
                }
            } else if request.isForTopic {
                continue
            } else if name.elementsEqual(MessageProperty.mentionAll.utf8Bytes) {
                if flag(value, of: &request) { request.mentions.options.insert(.all) }
            } else if name.elementsEqual(MessageProperty.mentionOnly.utf8Bytes) {
                if flag(value, of: &request) { request.mentions.options.insert(.only) }
            }
        }
    }

    /// A decimal number of 63 bits.
    private static func decimal(_ digits: UnsafeRawBufferPointer) -> UInt64? {
        guard (1...19).contains(digits.count) else { return nil }
        var number: UInt64 = 0
        for digit in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
            number = number * 10 + UInt64(digit - UInt8(ascii: "0"))
        }
        return number <= WireLimits.varIntMaximum ? number : nil
    }

    /// Reads `mid` of a numbered message, and `history`.
    private static func takeOptions(
        of owner: MQTT.PropertyOwner, in bytes: UnsafeRawBufferPointer,
        into request: inout SendRequest
    ) {
        guard !request.properties.isEmpty else { return }
        var hasIdentifier = request.packetIdentifier == 0
        var reader = MQTT.PropertyReader(
            MQTT.PropertySection(carried: request.properties), of: owner, in: bytes.bytes)
        // They were checked when they were read, so this cannot fail.
        while let property = try? reader.next() {
            guard property.identifier == .userProperty else { continue }
            let (name, value) = (property.text.bytes(in: bytes), property.value)
            if name.elementsEqual(MessageProperty.history.utf8Bytes) {
                let value = value.bytes(in: bytes)
                request.isUndelivered = value.elementsEqual("only".utf8)
                request.isKept = request.isUndelivered || flag(value, of: &request)
                request.isNeverKept = !request.isKept
            }
            guard !hasIdentifier, name.elementsEqual(MessageProperty.identifier.utf8Bytes) else {
                continue
            }
            hasIdentifier = true
            if (1...WireLimits.messageIdentifierByteCountMaximum).contains(Int(value.count)) {
                request.messageIdentifier = value
            } else {
                refuse(.identifierRule, &request)
            }
        }
    }

    /// The value of a property that is on or off: `1` or `true`, `0` or `false`. Another one
    /// refuses the message.
    private static func flag(
        _ value: some Collection<UInt8>, of request: inout SendRequest
    ) -> Bool {
        if value.elementsEqual("1".utf8) || value.elementsEqual("true".utf8) { return true }
        if !value.elementsEqual("0".utf8), !value.elementsEqual("false".utf8) {
            refuse(.propertyValue, &request)
        }
        return false
    }

    /// A word without the blanks around it.
    private static func trimmed(_ word: some Collection<UInt8>) -> [UInt8] {
        let blank = UInt8(ascii: " ")
        var rest = Array(word.drop { $0 == blank })
        while rest.last == blank { rest.removeLast() }
        return rest
    }

    private static func refuse(_ cause: LimitName, _ request: inout SendRequest) {
        guard request.fault == nil else { return }
        (request.fault, request.faultCause) = (.payloadFormatInvalid, cause)
    }
}

extension SendRequest {
    /// Whether the topic is plain, not an address.
    fileprivate var isForTopic: Bool {
        if case .topic = target { true } else { false }
    }
}

extension ReceivedPacket {
    /// Replaces bytes with the output of `body`, which is not longer.
    ///
    /// - Parameter byteCount: the maximum that `body` writes.
    fileprivate func replace(
        _ range: ByteRange, byteCount: Int, _ body: (UnsafeMutableRawBufferPointer) -> Int
    ) -> ByteRange {
        withUnsafeTemporaryAllocation(byteCount: byteCount, alignment: 1) { output in
            let count = body(output)
            precondition(
                count <= Int(range.count), "\(count) bytes in place of \(range.count)")
            UnsafeMutableRawBufferPointer(rebasing: arena[Int(range.offset)...])
                .copyMemory(from: UnsafeRawBufferPointer(rebasing: output[..<count]))
            return ByteRange(offset: Int(range.offset), count: count)
        }
    }
}

/// The user properties that the broker reads or sets.
enum MessageProperty {
    /// From a sender: one receiver of a list.
    static let receiver: StaticString = "to"
    /// From a sender, and returned in the acknowledgement: the application's id of a message.
    static let identifier: StaticString = "mid"
    /// From a sender: `1` or `true` for a message that is kept in its conversation, `0` or `false`
    /// for one that is not, whatever is kept by default, and `only` for one that is kept and not
    /// delivered.
    static let history: StaticString = "history"
    /// From a sender: `1` to be told the message's reference.
    static let asksReference: StaticString = "reference"
    /// From a sender, and to a receiver: the receipts that are asked for, with commas between them.
    static let receipts: StaticString = "receipts"
    /// From a sender: the key of a message that replaces one.
    static let collapse: StaticString = "collapse"
    /// In an acknowledgement, and to a receiver: the message's reference in hexadecimal digits.
    static let reference: StaticString = "martlet-reference"
    /// In an acknowledgement: the code of a moderator, below 0 for a refused message and otherwise
    /// for one that was changed.
    static let verdict: StaticString = "martlet-verdict"
    /// To a receiver: the number of a kept message in its conversation.
    static let kept: StaticString = "martlet-kept"
    /// From a sender, once for each user: a member of the group whom the message mentions.
    static let mention: StaticString = "mention"
    /// From a sender: `1` to mention all members, and for only those to get it who are mentioned.
    static let mentionAll: StaticString = "mention-all"
    static let mentionOnly: StaticString = "mention-only"
    /// To a receiver who is mentioned: `name` or `all`.
    static let mentioned: StaticString = "mentioned"
    /// From a sender: `low`, `normal` or `high`, for a message of QoS 0.
    static let priority: StaticString = "martlet-priority"
    /// From a sender, and to a receiver: the time of a reading that could not be sent earlier.
    static let late: StaticString = "martlet-late"
    /// From a sender: `no` for a message that wakes nobody, and a JSON object for the relay that
    /// wakes its receivers.
    static let wake: StaticString = "wake"
    static let push: StaticString = "push"
    /// In an acknowledgement: the reason code of MRT, as a decimal number.
    static let reason: StaticString = "reason"
    /// In an acknowledgement: the position of a refused receiver in the list, from 0, and the
    /// reason.
    static let refused: StaticString = "refused"
    /// In an acknowledgement: the number of receivers that were refused while others got the
    /// message.
    static let refusedCount: StaticString = "refused-count"
    /// In CONNECT: `pull` for a client that reads what history keeps. In CONNACK: the number of its
    /// conversations with unread messages.
    static let sync: StaticString = "sync"
    static let unread: StaticString = "unread"
    /// To a receiver: the sender, the time, and the group.
    static let sender: StaticString = "from"
    static let time: StaticString = "time"
    static let group: StaticString = "groupid"
    /// To a receiver: the broker ended between a send and its acknowledgement, and the sender sent
    /// again. The DUP flag means something else.
    static let doubt: StaticString = "possible-duplicate"

    /// Whether only the broker may set a property of a message to an address.
    static func isReserved(_ name: UnsafeRawBufferPointer) -> Bool {
        for reserved in [
            receiver, sender, time, group, doubt, asksReference, receipts, collapse, reference,
            mention, mentionAll, mentionOnly, mentioned, priority, late, wake,
            push,
        ]
        where name.elementsEqual(reserved.utf8Bytes) {
            return true
        }
        return false
    }
}

/// Users in the properties of a message, each in one with the same name.
private struct UserList {
    private let property: StaticString
    private(set) var count = 0
    private(set) var hasInvalid = false

    init(_ property: StaticString) { self.property = property }

    /// Writes each of them as a length byte and the name.
    mutating func write(
        _ section: MQTT.PropertySection, of owner: MQTT.PropertyOwner,
        in body: UnsafeRawBufferPointer, to writer: inout PacketWriter
    ) {
        var reader = MQTT.PropertyReader(section, of: owner, in: body.bytes)
        while let property = try? reader.next() {
            guard property.identifier == .userProperty,
                property.text.bytes(in: body).elementsEqual(self.property.utf8Bytes)
            else { continue }
            let name = property.value.bytes(in: body)
            guard TextRules.isIdentifier(name.bytes) else {
                hasInvalid = true
                continue
            }
            writer.write(byte: UInt8(name.count))
            writer.write(bytes: name.bytes)
            count += 1
        }
    }
}
