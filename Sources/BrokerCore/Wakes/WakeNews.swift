// The texts that the relay gets: JSON, which is the same for clients of all dialects. Texts of
// messages are UTF-8, as the dialects have checked.

import Primitives

/// What a request tells of the newest message that waits.
struct WakeNews: Hashable, Sendable {
    /// Unix milliseconds.
    let time: UInt64
    /// When the message expires.
    let deadline: Instant
    /// The members of the JSON text besides the time, each with a comma before it.
    let members: [UInt8]

    /// - Parameter push: the JSON object of the sender; empty for none.
    init(_ block: MessageBlock, deadline: Instant, push: [UInt8], hasContents: Bool) {
        time = block.time
        self.deadline = deadline
        var text = WakeText()
        text.write("from", string: block.sender)
        if block.kind == .group { text.write("group", string: block.address) }
        let reference = MessageFields.reference(of: block)
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

/// Appends members to a JSON object.
struct WakeText {
    private(set) var bytes: [UInt8] = []

    private mutating func begin(_ name: StaticString) {
        bytes.append(UInt8(ascii: ","))
        bytes.append(UInt8(ascii: "\""))
        name.withUTF8Buffer { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
    }

    mutating func write(_ name: StaticString, number: UInt64) {
        begin(name)
        bytes.append(contentsOf: String(number).utf8)
    }

    /// Bytes that are JSON already.
    mutating func write(_ name: StaticString, raw: some Collection<UInt8>) {
        begin(name)
        bytes.append(contentsOf: raw)
    }

    /// A text of digits, letters and dashes.
    mutating func write(_ name: StaticString, word: some StringProtocol) {
        begin(name)
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: word.utf8)
        bytes.append(UInt8(ascii: "\""))
    }

    mutating func write(_ name: StaticString, string: some Collection<UInt8>) {
        begin(name)
        appendString(string)
    }

    private mutating func appendString(_ string: some Collection<UInt8>) {
        bytes.append(UInt8(ascii: "\""))
        for byte in string {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"):
                bytes.append(UInt8(ascii: "\\"))
                bytes.append(byte)
            case 0..<0x20:
                bytes.append(contentsOf: byte < 16 ? "\\u000".utf8 : "\\u00".utf8)
                bytes.append(contentsOf: String(byte, radix: 16).utf8)
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    /// The beginning of a text: the event and the user.
    init(_ event: StaticString, ofUser user: [UInt8]) {
        bytes.append(UInt8(ascii: "{"))
        bytes.append(contentsOf: "\"event\":\"".utf8)
        event.withUTF8Buffer { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(ascii: "\""))
        write("user", string: user)
    }

    init() {}

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

    /// Ends a text with members that were made before.
    mutating func end(_ members: [UInt8] = []) -> [UInt8] {
        bytes.append(contentsOf: members)
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }
}
