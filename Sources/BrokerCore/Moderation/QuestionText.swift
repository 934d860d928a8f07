// What a moderator is told of a message: JSON, which is the same for clients of all dialects.

import Primitives

extension BrokerEventText {
    /// The receivers and the content of a message.
    mutating func write(_ request: SendRequest, in step: borrowing Step) {
        switch request.target {
        case .user(let name):
            write("to", raw: Self.list(of: [Array(name.bytes(in: step.bytes))]))
        case .users(let ids, let count):
            var reader = ListReader(ids.bytes(in: step.bytes))
            write(
                "to",
                raw: Self.list(
                    of: (0..<min(count, CoreLimits.listCountMaximum)).map { _ in
                        Array(reader.next())
                    }))
        case .group(let name): write("group", string: name.bytes(in: step.bytes))
        case .everybody: write("everybody", raw: "true".utf8)
        case .topic(let name): write("topic", string: name.bytes(in: step.bytes))
        }
        if !request.messageIdentifier.isEmpty {
            write("mid", string: request.messageIdentifier.bytes(in: step.bytes))
        }
        if request.isRetained { write("retained", raw: "true".utf8) }
        write(fieldsOf: request, in: step)
        let payload = Array(request.payload.bytes(in: step.bytes))
        if !request.isRaw, let type = payload.first {
            write("t", number: UInt64(type))
            write("b", string: payload.dropFirst())
        } else if Self.isText(payload) {
            write("payload", string: payload)
        } else {
            writeBase64("base64", payload)
        }
    }

    /// What receivers get beside the content, or relays get of it.
    private mutating func write(fieldsOf request: SendRequest, in step: borrowing Step) {
        if !request.attributes.isEmpty {
            begin("attributes")
            var reader = ListReader(request.attributes.bytes(in: step.bytes))
            var separator = UInt8(ascii: "{")
            while !reader.isAtEnd {
                bytes.append(separator)
                separator = UInt8(ascii: ",")
                appendString(Array(reader.next()))
                bytes.append(UInt8(ascii: ":"))
                appendString(Array(reader.next()))
            }
            bytes.append(UInt8(ascii: "}"))
        }
        // As a text, so that the question can be read whatever a client calls JSON.
        if !request.push.isEmpty { write("push", string: request.push.bytes(in: step.bytes)) }
        if !request.properties.isEmpty {
            writeBase64("properties", Array(request.properties.bytes(in: step.bytes)))
        }
    }

    /// Whether bytes are a text that JSON writes with few escapes: a control character has six
    /// bytes there.
    private static func isText(_ payload: [UInt8]) -> Bool {
        !payload.contains { $0 < 0x20 && $0 != 9 && $0 != 10 && $0 != 13 }
            && String(validating: payload, as: UTF8.self) != nil
    }

    private mutating func writeBase64(_ name: StaticString, _ source: [UInt8]) {
        begin(name)
        bytes.append(UInt8(ascii: "\""))
        appendBase64(source)
        bytes.append(UInt8(ascii: "\""))
    }

    private static func list(of names: [[UInt8]]) -> [UInt8] {
        var list = BrokerEventText()
        list.bytes.append(UInt8(ascii: "["))
        for (position, name) in names.enumerated() {
            if position > 0 { list.bytes.append(UInt8(ascii: ",")) }
            list.appendString(name)
        }
        list.bytes.append(UInt8(ascii: "]"))
        return list.bytes
    }

    /// Appends bytes in the alphabet of RFC 4648 section 4, with padding.
    private mutating func appendBase64(_ source: [UInt8]) {
        let alphabet = Array(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
        for start in stride(from: 0, to: source.count, by: 3) {
            let group = source[start..<min(start + 3, source.count)]
            var bits: UInt32 = 0
            for place in 0..<3 {
                bits = bits << 8 | (place < group.count ? UInt32(group[start + place]) : 0)
            }
            for place in 0..<4 {
                let shift = UInt32(18 - 6 * place)
                bytes.append(
                    place > group.count
                        ? UInt8(ascii: "=") : alphabet[Int(bits >> shift & 0x3F)])
            }
        }
    }
}
