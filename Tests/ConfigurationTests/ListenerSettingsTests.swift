// Listener URLs: each valid form, and the errors of invalid ones.
import Testing

@testable import Configuration

@Suite struct ListenerSettingsTests {
    static let good = [
        "tls://*:8883", "tcp://localhost:1883", "tcp://127.0.0.1:1", "tls://[::1]:65535",
        "tcp://*:1883?anonymous", "tls://*:8883?certificateFile=/a&keyFile=/b",
        "tls://*:8883?anonymous&certificateFile=/a&keyFile=/b", "tls://localhost:0",
        "ws://localhost:8083?anonymous", "wss://*:8084?certificateFile=/a&keyFile=/b",
        "wss://*:8084?clientCertificates=optional",
    ]

    @Test(arguments: good) func `a listener survives writing and reading`(text: String) throws {
        #expect(try ListenerSettings(text).description == text)
    }

    @Test func `the parts of a listener are parsed`() throws {
        let listener = try ListenerSettings(
            "tls://[fe80::1]:99?anonymous&certificateFile=/a=b&keyFile=/k")
        #expect(listener.transport == .tls)
        #expect(listener.host == .address("fe80::1"))
        #expect(listener.port == 99)
        #expect(listener.anonymous)
        #expect(listener.certificateFile == "/a=b")
        #expect(listener.keyFile == "/k")
    }

    static let bad = [
        "", "8883", "*:8883", "mqtt://*:1883", "tls://*", "tls://*:", "tls://*:65536",
        "tls://:8883", "tls://broker.example:8883", "tls://::1:8883", "tcp://*:1?anon",
        "tcp://*:1?anonymous=yes", "tls://*:1?certificateFile=/a", "tls://*:1?keyFile=",
        "tcp://*:1?certificateFile=/a&keyFile=/b", "tcp://*:1?clientCertificates=required",
        "tls://*:1?clientCertificates=perhaps", "ws://*:1?certificateFile=/a&keyFile=/b",
        "ws://*:1?clientCertificates=required", "http://*:1",
    ]

    @Test(arguments: bad) func `an invalid listener is refused`(text: String) {
        #expect(throws: SettingFault.self) { try ListenerSettings(text) }
    }
}
