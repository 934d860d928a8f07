// What a request to wake tells of the newest message. Texts of messages are UTF-8, as the dialects
// have checked.

import Primitives

/// What a request tells of the newest message that waits.
struct WakeNews: Hashable, Sendable {
    /// Unix milliseconds.
    let time: UInt64
    /// When the message expires.
    let deadline: Instant
    /// The message's reference; 0 for none: then it cannot be recalled.
    let reference: UInt64
    /// The members of the JSON text besides the time, each with a comma before it.
    let members: [UInt8]

    /// - Parameter push: the JSON object of the sender; empty for none.
    init(_ block: MessageBlock, deadline: Instant, push: [UInt8], hasContents: Bool) {
        time = block.time
        self.deadline = deadline
        var text = BrokerEventText()
        text.write("from", string: block.sender)
        if block.kind == .group { text.write("group", string: block.address) }
        reference = MessageFields.reference(of: block)
        if reference != 0 {
            let digits = String(reference, radix: 16)
            let zeros = String(repeating: "0", count: 16 - digits.utf8.count)
            text.write("reference", word: zeros + digits)
        }
        if !push.isEmpty { text.write("push", raw: push) }
        let payload = block.payload
        if hasContents, !block.marks.contains(.raw), !payload.isEmpty,
            payload.count - 1 <= CoreLimits.wakeContentBytesMaximum
        {
            text.write("t", number: UInt64(payload[0]))
            text.write("b", string: payload.dropFirst())
        }
        members = text.bytes
    }
}

extension BrokerEventText {
    mutating func write(_ targets: [WakeTarget]) {
        begin("targets")
        bytes.append(UInt8(ascii: "["))
        for (position, target) in targets.enumerated() {
            bytes.append(contentsOf: position == 0 ? "{\"id\":".utf8 : ",{\"id\":".utf8)
            bytes.append(contentsOf: String(target.identifier).utf8)
            if !target.device.isEmpty { write("device", string: target.device) }
            write("kind", word: "\(target.kind.name)")
            write("address", string: target.address)
            write("environment", word: "\(target.environment.name)")
            if !target.language.isEmpty { write("language", string: target.language) }
            bytes.append(UInt8(ascii: "}"))
        }
        bytes.append(UInt8(ascii: "]"))
    }
}
