// The messages with which a sender takes a message back or changes it, and the key with which a new
// message replaces one.

import Primitives
import WireFormat

extension JSONPacketReader {
    mutating func recall() throws(JSONFault) -> MRT.Recall {
        MRT.Recall(message: try sentMessage(), detail: try shortText("detail") ?? .empty)
    }

    mutating func replace() throws(JSONFault) -> MRT.Replace {
        let message = try sentMessage()
        let detail = try shortText("detail") ?? .empty
        return MRT.Replace(
            message: message, detail: detail, payload: try payload(isTopic: false).payload)
    }

    /// A message of the client's user.
    private mutating func sentMessage() throws(JSONFault) -> MRT.SentMessage {
        switch (try hexadecimal("reference"), try identifier("mid")) {
        case (0?, nil): throw fault("names no message", "reference")
        case (let reference?, nil): return .reference(reference)
        case (nil, let identifier?): return .messageIdentifier(identifier)
        case (nil, nil), (_?, _?):
            throw JSONFault(
                reason: .malformedPacket,
                detail: "a message is named by exactly one of reference and mid")
        }
    }

    mutating func collapseKey() throws(JSONFault) -> ByteRange {
        try identifier("collapse") ?? .empty
    }

    /// Text of the application's own.
    private mutating func identifier(_ name: StaticString) throws(JSONFault) -> ByteRange? {
        guard let text = try text(name) else { return nil }
        guard (1...WireLimits.messageIdentifierByteCountMaximum).contains(Int(text.count)) else {
            throw fault("does not have 1 to 64 bytes", name)
        }
        return text
    }
}
