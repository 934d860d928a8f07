// What a delivery tells one receiver besides the message: its attributes, and whether it is
// mentioned. Apart from the path of other messages, which have neither fields nor properties.

import BrokerCore
import Primitives
import WireFormat

/// The fields of a message for one receiver.
struct DeliveredFields {
    /// With the mention of this receiver in place of the names of all.
    var fields: MessageFields
    /// Whether it depends on the receiver.
    let mentionsSomeone: Bool
    /// Whether the attributes are properties of a publication of MQTT 5.
    let areAttributesProperties: Bool

    /// - Parameter user: the receiver.
    @inline(never)
    init(of block: MessageBlock, to user: [UInt8]) {
        var fields = MessageFields(of: block)
        areAttributesProperties = fields.attributes.isEmpty && !block.properties.isEmpty
        if areAttributesProperties { fields.attributes = Self.attributes(of: block) }
        mentionsSomeone = fields.mentionsSomeone
        if fields.mentionsSomeone {
            fields.mention = Mention(
                of: user, names: fields.mentionedNames, options: fields.mentionOptions)
            fields.mentionOptions = []
            fields.mentionedNames = []
        }
        self.fields = fields
    }

    /// The fields of a kept message on a page of its conversation, where each message has its
    /// number beside them.
    init(ofKept block: MessageBlock, to user: [UInt8]) {
        self.init(of: block, to: user)
        fields.keptNumber = 0
    }

    /// The attributes of a publication of MQTT 5, as a run: none has more than 255 bytes.
    private static func attributes(of block: MessageBlock) -> [UInt8] {
        var run: [UInt8] = []
        let properties = block.properties
        MessageAttributes.forEach(inProperties: properties.bytes) { key, value in
            for text in [key.withUnsafeBytes { Array($0) }, value.withUnsafeBytes { Array($0) }] {
                run.append(UInt8(truncatingIfNeeded: text.count))
                run += text
            }
        }
        return run
    }

    /// The members of the JSON of a message that it has because of its fields.
    func write(to writer: inout JSONWriter) {
        if !fields.attributes.isEmpty {
            writer.write("attributes") { (object: inout JSONWriter) in
                MessageAttributes.forEach(inRun: fields.attributes.span.bytes) { key, value in
                    object.write(key: key, value)
                }
            }
        }
        if let mention = fields.mention { writer.write("mentioned", mention.word) }
        if fields.isLate { writer.write("isLate", true) }
        if fields.keptNumber != 0 { writer.write("kept", fields.keptNumber) }
        if fields.isUndelivered { writer.write("deliver", false) }
    }

    /// The reference of a message whose sender asked for it, and the receipts that it asked for.
    func writeAsks(to writer: inout JSONWriter) {
        if fields.reference != 0 { writer.write(hexadecimal: "reference", fields.reference) }
        guard !fields.receipts.isDisjoint(with: .receipts) else { return }
        writer.write("receipts") { (list: inout JSONList) in
            for name in fields.receipts.receiptNames { list.append(name.utf8Bytes.bytes) }
        }
    }

    /// Both without a brace at either end; empty for none.
    var members: [UInt8] {
        var writer = JSONWriter()
        writeAsks(to: &writer)
        write(to: &writer)
        return Array(writer.bytes.dropFirst())
    }
}

extension Mention {
    /// The word for it in JSON and in MQTT.
    var word: StaticString {
        switch self {
        case .byName: "name"
        case .all: "all"
        }
    }
}

extension PacketPriority {
    /// How a transient message is treated if its receiver reads slowly.
    @inline(__always)
    init(ofTransient block: MessageBlock) {
        self =
            block.marks.isDisjoint(with: [.low, .high])
            ? .droppable : block.marks.contains(.low) ? .droppedFirst : .droppedLast
    }
}
