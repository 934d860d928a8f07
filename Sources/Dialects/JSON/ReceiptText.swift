// A receipt in the words of JSON, for clients of JSON and of MQTT.

import BrokerCore
import Primitives
import WireFormat

public enum ReceiptText {
    /// A receipt as a JSON object; empty for what is none.
    public static func json(_ payload: RawSpan) -> [UInt8] {
        var writer = JSONWriter()
        write(payload, to: &writer)
        return writer.bytes.isEmpty ? [] : writer.end()
    }

    /// Writes the members of a receipt.
    static func write(_ payload: RawSpan, to writer: inout JSONWriter) {
        let whole = ByteRange(offset: 0, count: payload.byteCount)
        guard let receipt = MRT.Receipt(whole, in: payload) else { return }
        switch receipt.event {
        case .delivered: writer.write("event", "delivered" as StaticString)
        case .applied: writer.write("event", "applied" as StaticString)
        case .counts: writer.write("event", "counts" as StaticString)
        }
        writer.write(hexadecimal: "reference", receipt.reference)
        if !receipt.messageIdentifier.isEmpty {
            writer.write("mid", receipt.messageIdentifier.bytes(in: payload))
        }
        switch receipt.event {
        case .delivered(let device):
            writer.write("device", device.bytes(in: payload))
        case .applied(let device, let code, let words):
            writer.write("device", device.bytes(in: payload))
            writer.write("code", UInt64(code))
            if !words.isEmpty { writer.write("text", words.bytes(in: payload)) }
        case .counts(let group, let delivered, let applied, let failed, let members):
            writer.write("group", group.bytes(in: payload))
            writer.write("delivered", UInt64(delivered))
            writer.write("applied", UInt64(applied))
            writer.write("failed", UInt64(failed))
            writer.write("members", UInt64(members))
        }
    }
}
