// A recall or a change of a message in the words of JSON, for clients of JSON and of MQTT.

import BrokerCore
import Primitives
import WireFormat

enum RevisionText {
    /// Writes the members of a recall or of a change.
    static func write(_ payload: RawSpan, isUpdate: Bool, to writer: inout JSONWriter) {
        let whole = ByteRange(offset: 0, count: payload.byteCount)
        guard let revision = MRT.Revision(isUpdate ? .update : .recall, whole, in: payload) else {
            return
        }
        writer.write("event", isUpdate ? "MESSAGE_UPDATE" : "MESSAGE_RECALL" as StaticString)
        writer.write(hexadecimal: "reference", revision.reference)
        if !revision.messageIdentifier.isEmpty {
            writer.write("mid", revision.messageIdentifier.bytes(in: payload))
        }
        writer.write("code", UInt64(revision.code))
        writer.write("detail", revision.detail.bytes(in: payload))
        guard let content = revision.content else { return }
        let bytes = content.bytes(in: payload)
        writer.write("t", UInt64(bytes[0]))
        writer.write("b", bytes.extracting(1...))
    }

    /// Writes the members of the answer to a recall or a change.
    static func write(_ answer: RecallAnswer, to writer: inout JSONWriter) {
        writer.write("withdrawn", UInt64(answer.withdrawn))
        writer.write("late", UInt64(answer.late))
        writer.write("lateUsers") { (list: inout JSONList) in
            for name in answer.names { name.withUnsafeBytes { list.append($0.bytes) } }
        }
    }
}

extension MessageKind {
    /// Whether it tells about another message that its sender took back or changed.
    var isRevision: Bool { self == .recall || self == .update }
}
