// What a trace shows of the broker's messages to JSON clients.

import Administration
import Testing

@testable import BrokerRuntime

@Suite("A traced message of the broker")
struct TracedMessageTests {
    private func frame(_ json: String) -> [UInt8] {
        let text = Array(json.utf8)
        let bytes = (0..<8).reversed().map { UInt8(truncatingIfNeeded: text.count >> (8 * $0)) }
        let length: [UInt8] =
            text.count <= 125
            ? [UInt8(text.count)]
            : text.count <= 0xFFFF ? [126] + bytes.suffix(2) : [127] + bytes
        return [0x81] + length + text
    }

    private func packet(_ bytes: [UInt8]) -> TracedPacket {
        TracedPacket(message: bytes.span.bytes)
    }

    @Test(arguments: [10, 200, 5_000])
    func `has its members, in a frame of any length`(length: Int) {
        let text = String(repeating: "x", count: length)
        let shown = packet(
            frame(
                #"{"type":"message","number":7,"grade":"once","kind":"group","from":"bob","#
                    + #""group":"g1","t":3,"b":"\#(text)","cookie":"00aa"}"#))
        #expect(shown.packet == "message" && shown.id == 7 && shown.grade == 2)
        #expect(shown.receiver == "group g1" && shown.payloadByteCount == UInt64(length))
        #expect(shown.payload?.hasPrefix("xxxxxxxxxx") == true)
        #expect((shown.payload?.count ?? .max) <= TraceLimits.textByteCountMaximum + 1)
        #expect(shown.detail == "from bob, kind group, type 3")
    }

    @Test(arguments: [9_000, 70_000])
    func `that is long has its type and its size`(length: Int) {
        let text = String(repeating: "x", count: length)
        let shown = packet(frame(#"{"type":"response","request":7,"messages":["\#(text)"]}"#))
        #expect(shown.packet == "response" && shown.detail == "too long to show")
        #expect(shown.byteCount > UInt64(length) && shown.payload == nil)
    }

    @Test func `is found in an event, and what is no message is named`() {
        let event = packet(
            Array("id: 00000000000000aa-7\ndata: {\"type\":\"pong\",\"request\":9}\n\n".utf8))
        #expect(event.packet == "pong" && event.id == 9)
        #expect(packet(Array("data: {\"type\":\"closed\",\"reason\":142}\n\n".utf8)).code == 142)
        for other in ["HTTP/1.1 200 OK\r\n\r\n", ":\n\n", "data: ", "id: 1"] {
            #expect(packet(Array(other.utf8)).packet == "stream")
        }
        #expect(packet([0x81]).packet == "stream" && packet([]).packet == "stream")
        #expect(packet([0x81, 127, 1]).packet == "stream")
        #expect(packet(frame("{\"typ")).packet == "message")
    }
}
