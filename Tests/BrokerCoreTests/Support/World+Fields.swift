// Sends with what few sends have: attributes, mentions, a priority, a time of their own.

import BrokerTerms
import Primitives

@testable import BrokerCore

extension World {
    /// A send with fields; names and attributes are encoded as the dialects do.
    func sendFields(
        _ name: String, _ number: UInt64, to target: Target, _ text: String,
        grade: Grade = .durable, time: UInt64 = 0, isLate: Bool = false, isKept: Bool = false,
        priority: SendPriority = .normal, mentions users: [String] = [],
        _ options: Mentions.Options = [], attributes: KeyValuePairs<String, String> = [:],
        asks: SendAsks = []
    ) {
        var bytes = World.preceding
        var request = SendRequest(
            number: grade == .transient ? 0 : number, grade: grade,
            target: target.append(to: &bytes), senderUnixMilliseconds: time,
            payload: bytes.appendRange("\0" + text),
            messageByteCount: UInt32(text.utf8.count) + 16)
        request.isLate = isLate
        request.isKept = isKept
        request.priority = priority
        request.mentions = Mentions(options: options, names: bytes.appendRun(users))
        request.attributes = bytes.appendRun(attributes.flatMap { [$0.key, $0.value] })
        if !asks.isEmpty {
            request.asks = asks
            request.reference = 0xA0 + number
        }
        step(.sendReceived(connections[name]!, request), bytes: bytes)
    }
}

extension [UInt8] {
    /// Appends texts, each after a byte with its length.
    fileprivate mutating func appendRun(_ texts: [String]) -> ByteRange {
        let start = count
        for text in texts {
            append(UInt8(text.utf8.count))
            append(contentsOf: text.utf8)
        }
        return ByteRange(offset: start, count: count - start)
    }
}

extension MessageFields {
    /// What a delivery tells besides the message, for a line of a transcript.
    var text: String {
        var parts: [String] = []
        if isLate { parts.append("late") }
        if !mentionedNames.isEmpty || !mentionOptions.isEmpty {
            let names = Self.texts(of: mentionedNames).joined(separator: " ")
            parts.append("mentions \(mentionOptions.contains(.all) ? "all " : "")\(names)")
        }
        if let mention { parts.append("mentioned \(mention)") }
        let attributes = Self.texts(of: attributes)
        for index in stride(from: 0, to: attributes.count, by: 2) {
            parts.append("\(attributes[index])=\(attributes[index + 1])")
        }
        return parts.map { ", \($0)" }.joined()
    }

    private static func texts(of run: [UInt8]) -> [String] {
        var rest = run[...]
        var texts: [String] = []
        while let count = rest.first.map(Int.init) {
            texts.append(String(decoding: rest.dropFirst().prefix(count), as: UTF8.self))
            rest = rest.dropFirst(count + 1)
        }
        return texts
    }
}
