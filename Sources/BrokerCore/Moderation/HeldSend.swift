// A message that waits for a verdict, with the bytes of its request.

import BrokerTerms
import Primitives

/// A message that is neither numbered nor stored nor answered before a moderator has decided on it,
/// or that waits behind such a message of its sender.
struct HeldSend {
    private(set) var request: SendRequest
    /// The bytes to which its ranges refer.
    private(set) var bytes: [UInt8] = []
    /// The number of the question; 0 for a message on which nobody is asked.
    let question: UInt64
    /// When the wait for a verdict ends.
    let deadline: Instant
    /// What holds if there is no verdict.
    let acceptsWhenSilent: Bool
    var verdict: Verdict?

    init(
        _ request: SendRequest, in source: borrowing Step, question: UInt64, deadline: Instant,
        acceptsWhenSilent: Bool, verdict: Verdict?
    ) {
        self.request = request
        self.question = question
        self.deadline = deadline
        self.acceptsWhenSilent = acceptsWhenSilent
        self.verdict = verdict
        let source = source.bytes
        self.request.payload = bytes.take(request.payload, of: source)
        self.request.properties = bytes.take(request.properties, of: source)
        self.request.messageIdentifier = bytes.take(request.messageIdentifier, of: source)
        switch request.target {
        case .user(let user): self.request.target = .user(bytes.take(user, of: source))
        case .users(let names, let count):
            self.request.target = .users(ids: bytes.take(names, of: source), count: count)
        case .group(let group): self.request.target = .group(bytes.take(group, of: source))
        case .topic(let topic): self.request.target = .topic(bytes.take(topic, of: source))
        case .everybody: break
        }
        // Setting them makes a send unusual. An empty one has a place in the other bytes too.
        guard request.isUnusual else { return }
        self.request.attributes = bytes.take(request.attributes, of: source)
        self.request.mentions.names = bytes.take(request.mentions.names, of: source)
        self.request.collapseKey = bytes.take(request.collapseKey, of: source)
        self.request.push = bytes.take(request.push, of: source)
    }

    /// Memory that it takes, about.
    var byteCount: Int { bytes.count + MemoryLayout<HeldSend>.stride }

    /// Gives the message another content.
    mutating func rewrite(_ content: [UInt8]) {
        let start = Int(request.payload.offset)
        let payload = bytes[start..<(start + Int(request.payload.count))]
        let type = Array(payload.prefix(request.isRaw ? 0 : 1))
        let old = payload.dropFirst(type.count)
        request.messageByteCount = Self.messageByteCount(of: request, old, content)
        request.payload = ByteRange(offset: bytes.count, count: type.count + content.count)
        bytes += type + content
    }

    /// Bytes of the minimal JSON form with another text.
    private static func messageByteCount(
        of request: SendRequest, _ old: ArraySlice<UInt8>, _ new: [UInt8]
    ) -> UInt32 {
        let count = Int(request.messageByteCount) - escapedCount(old) + escapedCount(new)
        return request.isRaw ? 0 : UInt32(clamping: count)
    }

    private static func escapedCount(_ text: some Collection<UInt8>) -> Int {
        text.reduce(0) { sum, byte in
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"), 8, 9, 10, 12, 13: sum + 2
            case 0..<0x20: sum + 6
            default: sum + 1
            }
        }
    }

    /// The reason for which the message cannot have a content; nil if it can.
    func fault(ofContent content: [UInt8], _ limits: borrowing CoreLimits) -> ReasonCode? {
        if request.isRaw {
            return content.count > Int(limits.payloadMaximum) ? .packetTooLarge : nil
        }
        guard String(validating: content, as: UTF8.self) != nil else {
            return .payloadFormatInvalid
        }
        var rewritten = self
        rewritten.rewrite(content)
        return rewritten.request.messageByteCount > limits.messageMaximum ? .packetTooLarge : nil
    }
}
