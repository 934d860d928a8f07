// Listener URLs: each valid form, and the errors of invalid ones.
import BrokerTerms
import Testing

@testable import Configuration

@Suite struct ListenerSettingsTests {
    static let good = [
        "tls://*:8883", "tcp://localhost:1883", "tcp://127.0.0.1:1", "tls://[::1]:65535",
        "tcp://*:1883?anonymous", "tls://*:8883?certificateFile=/a&keyFile=/b",
        "tls://*:8883?anonymous&certificateFile=/a&keyFile=/b", "tls://localhost:0",
        "ws://localhost:8083?anonymous", "wss://*:8084?certificateFile=/a&keyFile=/b",
        "wss://*:8084?clientCertificates=optional", "https://*:8443",
        "https://*:8443?certificateFile=/a&keyFile=/b&serve=health,api", "http://localhost:8080",
        "http://127.0.0.1:8080?serve=api", "http://[::1]:8080", "http://*:8080?insecure",
        "http://10.0.0.1:80?serve=health,metrics", "ws://*:8083?serve=mqtt&insecure",
        "ws://*:8083?serve=mqtt,api&insecure", "ws://*:8083?insecure", "ws://*:80?serve=health",
        "wss://*:8084?serve=mqtt,mrt,health,metrics,api",
        "tls://*:8883?proxy=10.0.0.0/8,127.0.0.1,fd00::/8,2001:db8::1",
        "tcp://*:1883?proxy=0.0.0.0/0",
        "wss://*:8084?proxy=::/0&forwarded=192.0.2.0/24", "http://localhost:80?forwarded=::1",
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
        "ws://*:1?clientCertificates=required", "http://*:1", "http://10.0.0.1:1",
        "ws://*:1", "ws://10.0.0.1:1?anonymous", "ws://*:1?serve=mqtt", "ws://[::]:1?serve=json",
        "ws://*:1?serve=health&insecure", "ws://*:1?serve=api", "http://*:1?serve=mrt",
        "http://*:1?serve=api,mqtt", "https://*:1?insecure",
        "tcp://*:1?insecure", "wss://*:1?insecure", "http://*:1?serve=health&insecure",
        "tls://*:1?serve=mqtt", "https://*:1?serve=", "https://*:1?serve=all",
        "https://*:1?serve=mqtt,,api", "http://*:1?insecure=yes", "tcp://*:1?proxy",
        "tcp://*:1?proxy=", "tcp://*:1?proxy=10.0.0.0/8,", "tcp://*:1?proxy=10.0.0.0/33",
        "tcp://*:1?proxy=10.0.0.1/8", "tcp://*:1?proxy=10.0.0.0/08", "tcp://*:1?proxy=10.0.0/8",
        "tcp://*:1?proxy=010.0.0.0/8", "tcp://*:1?proxy=fd00::1/8", "tcp://*:1?proxy=fd00::/129",
        "tcp://*:1?proxy=::ffff:10.0.0.0/104", "tcp://*:1?proxy=balancer", "tcp://*:1?proxy=[::1]",
        "tcp://*:1?proxy=fe80::1%eth0", "tls://*:1?forwarded=10.0.0.0/8",
        "tcp://*:1?forwarded=127.0.0.1", "ws://*:1?forwarded=", "tcp://[::1", "tcp://[x]:1",
        "tcp://[127.0.0.1]:1", "tcp://1.2.3:1", "tcp://1.2.3.256:1", "tcp://[::1%lo]:1",
    ]

    @Test func `the networks of proxies are read`() throws {
        let listener = try ListenerSettings(
            "wss://*:1?proxy=10.0.0.0/8,::1&forwarded=192.0.2.1")
        #expect(
            try listener.proxies == [IPNetwork("10.0.0.0/8".utf8), IPNetwork("::1".utf8)])
        #expect(try listener.forwarders == [IPNetwork("192.0.2.1/32".utf8)])
        let many = (0..<64).map { "10.0.\($0).0/24" }
        #expect(
            try ListenerSettings("tcp://*:1?proxy=" + many.joined(separator: ",")).proxies.count
                == 64)
        #expect(throws: SettingFault.self) {
            try ListenerSettings("tcp://*:1?proxy=" + (many + ["::1"]).joined(separator: ","))
        }
    }

    @Test func `a web listener serves what its transport or serve= names`() throws {
        let served: WebParts = [.mqtt, .mrt, .json, .health, .metrics]
        #expect(try ListenerSettings("wss://*:1").parts == served)
        #expect(try ListenerSettings("ws://localhost:1").parts == served)
        let all = served.union([.api, .dashboard])
        #expect(try ListenerSettings("https://*:1").parts == all)
        #expect(try ListenerSettings("http://localhost:1").parts == all)
        #expect(
            try ListenerSettings("https://*:1?serve=dashboard,api").parts == [.api, .dashboard])
        #expect(try ListenerSettings("https://*:1?serve=api,health").parts == [.health, .api])
        #expect(try ListenerSettings("tls://*:1").parts == [])
    }

    @Test(arguments: [
        (
            "https://*:1?serve=mqtt,webdav",
            "\"webdav\"; known are mqtt, mrt, json, health, metrics, api"
        ),
        ("https://*:1?serve=dashboard,mqtt", "serves dashboard, which needs api"),
        ("http://*:1", "?insecure"), ("http://*:1", "https://"), ("ws://*:1?serve=api", "wss://"),
        ("ws://10.0.0.1:1", "write wss://, the host localhost, or ?insecure"),
        ("tcp://*:1?proxy=10.1.2.3/8", "write 10.0.0.0/8"), ("tls://*:1?forwarded=::1", "proxy="),
        ("tcp://*:1?proxy=::ffff:1.2.3.4", "IPv4"), ("tcp://*:1?proxy=lb", "10.0.0.0/8,127.0.0.1"),
    ])
    func `the message about a web listener names the way out`(text: String, part: String) {
        #expect {
            try ListenerSettings(text)
        } throws: { ($0 as? SettingFault)?.message.contains(part) == true }
    }

    @Test(arguments: bad) func `an invalid listener is refused`(text: String) {
        #expect(throws: SettingFault.self) { try ListenerSettings(text) }
    }
}
