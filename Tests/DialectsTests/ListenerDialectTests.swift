// What a listener's clients may speak: the paths of a web listener take one dialect each.

import Primitives
import Testing
import WireFormat

@testable import Dialects

@Suite("A listener of one dialect")
struct ListenerDialectTests {
    private static func mqtt(level: UInt8) -> [UInt8] {
        let properties: [UInt8] = level == 5 ? [0] : []
        let body = [0, 4] + Array("MQTT".utf8) + [level, 2, 0, 60] + properties + [0, 1, 0x61]
        return [0x10, UInt8(body.count)] + body
    }

    @Test func `refuses clients of the other one in that dialect`() {
        let mrt = TestLoop(allowsAnonymous: true)
        mrt.decoder.terms[0].dialects = .mrt
        #expect(mrt.receive(Self.mqtt(level: 4)) == [])
        #expect(mrt.written() == [0x20, 2, 0, 1])
        mrt.reopen()
        #expect(mrt.receive(Self.mqtt(level: 5)) == [])
        #expect(mrt.written() == [0x20, 3, 0, 0x84, 0])
        let mqtt = TestLoop()
        mqtt.decoder.terms[0].dialects = .mqtt
        #expect(mqtt.receive(packet("connect-token")) == [])
        #expect(
            mqtt.written() == encode(MRT.ConnectRefused(reason: .unsupportedProtocolVersion)))
    }

    @Test func `takes its own clients`() {
        let mrt = TestLoop()
        mrt.decoder.terms[0].dialects = .mrt
        #expect(mrt.receive(packet("connect-token")).count == 1)
        let mqtt = TestLoop(allowsAnonymous: true)
        mqtt.decoder.terms[0].dialects = .mqtt
        #expect(mqtt.receive(Self.mqtt(level: 4)).count == 1)
    }
}
