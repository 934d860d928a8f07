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

    @Test func `several addresses are separated by commas`() throws {
        let text = "tls://a.example:8883,tls://b.example:8884,tls://[::1]:8885"
        let servers = try ServerAddress.list(text)
        #expect(servers.map(\.description).joined(separator: ",") == text)
        #expect(
            String(decoding: ServerAddress.names(servers), as: UTF8.self)
                == "a.example:8883,b.example:8884,[::1]:8885")
        #expect(try ServerAddress.list("tcp://a,tcp://b").map(\.port) == [1883, 1883])
    }

    @Test(arguments: [
        "", ",", "tls://a,", ",tls://a", "tls://a,,tls://b", "tls://a, tls://b", "tls://a;tls://b",
        "tls://a,b", "tls://a,tcp://b", "tls://a,tls://a:8883", "tls://a,https://b",
        (1...9).map { "tls://a:\($0)" }.joined(separator: ","),
    ])
    func `other lists are not`(text: String) {
        #expect(throws: MartletError.self) { try ServerAddress.list(text) }
    }

    @Test func `a client takes no list that cannot be written`() {
        for servers in [
            [], [ServerAddress(host: "", port: 1)], [ServerAddress(host: "a,b", port: 1)],
        ] {
            let settings = ClientSettings(servers: servers, credential: .token("t"))
            #expect(throws: MartletError.self) { try settings.check() }
        }
    }
}
