// Server addresses: each valid form, and invalid ones.
import Testing

@testable import MartletClient

@Suite struct ServerAddressTests {
    @Test(arguments: [
        ("tls://broker.example", "tls://broker.example:8883"),
        ("tcp://localhost", "tcp://localhost:1883"),
        ("tls://10.0.0.7:1", "tls://10.0.0.7:1"),
        ("tls://[::1]", "tls://[::1]:8883"),
        ("tcp://[2001:db8::7]:65535", "tcp://[2001:db8::7]:65535"),
    ])
    func `an address is written with its port`(text: String, whole: String) throws {
        #expect(try ServerAddress(text).description == whole)
        #expect(try ServerAddress(whole).description == whole)
    }

    @Test(arguments: [
        "", "broker.example", "broker.example:8883", "mqtt://broker.example", "tls://",
        "tls://:8883", "tls://host:", "tls://host:0", "tls://host:65536", "tls://host:1:2",
        "tls://[::1", "tls://[::1]8883", "tls://[host]:1",
    ])
    func `an invalid address is refused`(text: String) {
        #expect(throws: MartletError.self) { try ServerAddress(text) }
    }
}
