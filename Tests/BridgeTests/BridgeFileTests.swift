// Valid and invalid configurations of a bridge: each error names its place, its key and the valid
// values.

import CommandLineOptions
import Testing
import WireFormat

@testable import Bridge

@Suite struct BridgeFileTests {
    private static let mqtt = #"mqtt: { server: "tcp://a:1", clientId: "c" }"#
    private static let mqtt3 = #"mqtt: { server: "tcp://a:1", clientId: "c", version: "3.1.1" }"#
    private static let martlet = #"martlet: { server: "tcp://b:2", token: "t" }"#
    private static let state = #"stateFile: "s""#
    private static let rule = #"toMqtt: [{ from: { inbox: "*" }, to: "x" }]"#

    private func complaints(_ text: String, token: String? = nil) -> String {
        do throws(UsageError) {
            _ = try BridgeFile.settings(text: Array(text.utf8), path: "f", token: token)
            return ""
        } catch {
            return error.message
        }
    }

    @Test func `a complete file is read`() throws {
        let text = """
            {
              // Both sides.
              mqtt: {
                server: "tcp://a", version: "3.1.1", clientId: "c", user: "u", password: "p",
                keepAliveSeconds: 10, sessionExpirySeconds: 100, inFlight: 7,
              },
              martlet: { server: "tcp://[::1]", device: "d", keepAliveSeconds: 20, inFlight: 9 },
              stateFile: "/s",
              packetMaximumBytes: 70000,
              totalsSeconds: 0,
              toMartlet: [{ from: "a/#", to: { topic: "b/{1..}" }, qos: 1, retain: true }],
              toMqtt: [{ from: { topic: "b/+" }, to: "c/{1}", retain: true }],
              deadLetter: { martlet: "dead/{topic}", mqtt: "dead/{from}" },
            }
            """
        let settings = try BridgeFile.settings(text: Array(text.utf8), path: "f", token: "env")
        #expect(settings.foreign.version == .v311)
        #expect(settings.foreign.server.port == 1883)
        #expect(settings.foreign.user == "u")
        #expect(settings.foreign.password == "p")
        #expect(settings.foreign.inFlightMaximum == 7)
        #expect(settings.martlet.token == "env")
        #expect(settings.martlet.device == "d")
        #expect(settings.martlet.inFlightMaximum == 9)
        #expect(settings.packetMaximum == 70_000)
        #expect(settings.totalsSeconds == 0)
        #expect(settings.rules.inward.map(\.qos) == [.atLeastOnce])
        #expect(settings.rules.inward.map(\.form) == [.raw])
        #expect(settings.rules.inward.map(\.isRetained) == [true])
        #expect(settings.rules.outward.map(\.isRetained) == [true])
        #expect(settings.rules.inwardDeadLetter != nil)
        #expect(settings.rules.outwardDeadLetter != nil)
    }

    @Test func `Martlet may have several addresses`() throws {
        for servers in [
            #""tcp://b:2,tcp://c:3""#, #"["tcp://b:2", "tcp://c:3"]"#, #"["tcp://b:2,tcp://c:3"]"#,
        ] {
            let text =
                "{ \(Self.mqtt), \(Self.state), \(Self.rule), "
                + #"martlet: { server: \#(servers), token: "t" } }"#
            let settings = try BridgeFile.settings(text: Array(text.utf8), path: "f", token: nil)
            #expect(
                settings.martlet.servers.map(\.description) == ["tcp://b:2", "tcp://c:3"])
        }
        for (servers, complaint) in [
            ("[]", "is wrong: "), (#"["tcp://b", "tls://c"]"#, "must both have TLS"),
            (#"["tcp://b", "tcp://b:1883"]"#, "is given twice"), ("[1]", "must be a text"),
        ] {
            let text =
                "{ \(Self.mqtt), \(Self.state), \(Self.rule), "
                + #"martlet: { server: \#(servers), token: "t" } }"#
            #expect(complaints(text).contains(complaint), "\(complaints(text))")
        }
        #expect(complaints(#"{ mqtt: { server: ["tcp://a"] } }"#).contains("must be a text"))
    }

    /// What a file with these members is refused with, as `line:column: complaint`.
    private static let table: [(members: [String], complaint: String)] = [
        ([martlet, state, rule], "f:1:1: mqtt is needed"),
        ([mqtt, state, rule], "f:1:1: martlet is needed"),
        ([mqtt, martlet, rule], "f:1:1: stateFile is needed"),
        ([mqtt, martlet, state], "f:1:1: there is no rule: toMartlet or toMqtt"),
        (
            [mqtt, martlet, state, rule, "toMqqt: []"],
            "f:5:1: toMqqt is unknown; did you mean toMqtt?"
        ),
        (
            [#"mqtt: { sever: "tcp://a:1", clientId: "c" }"#, martlet, state, rule],
            "f:1:10: mqtt.sever is unknown; did you mean server?"
        ),
        (
            [#"mqtt: { server: "a:1", clientId: "c" }"#, martlet, state, rule],
            "f:1:18: mqtt.server is wrong: the server \"a:1\" must be written like "
                + "tls://broker.example:8883"
        ),
        (
            [#"mqtt: { server: "tcp://a:1" }"#, martlet, state, rule],
            "f:1:8: mqtt.clientId is needed: the name of the session that the broker keeps"
        ),
        (
            [#"mqtt: { server: "tcp://a:1", clientId: "c", version: "4" }"#, martlet, state, rule],
            "f:1:55: mqtt.version must be 3.1.1 or 5, not \"4\""
        ),
        (
            [#"mqtt: { server: "tcp://a:1", clientId: "c", inFlight: 0 }"#, martlet, state, rule],
            "f:1:56: mqtt.inFlight must be a whole number from 1 to 1000"
        ),
        (
            [#"mqtt: { server: "tcp://a:1", clientId: "c", caFile: "x" }"#, martlet, state, rule],
            "f:1:8: mqtt has files for TLS and a server without it"
        ),
        (
            [
                #"mqtt: { server: "tls://a:1", clientId: "c", certificateFile: "x" }"#, martlet,
                state, rule,
            ],
            "f:1:8: mqtt needs certificateFile and keyFile together"
        ),
        (
            [mqtt, #"martlet: { server: "tcp://b:2", tokenFile: "/etc/passwd" }"#, state, rule],
            "f:2:44: martlet.tokenFile: others may read /etc/passwd; take that away with: "
                + "chmod o= /etc/passwd"
        ),
        (
            [mqtt, #"martlet: { server: "tcp://b:2" }"#, state, rule],
            "f:2:10: martlet.tokenFile is needed, or MARTLET_TOKEN, or a client certificate"
        ),
        (
            [mqtt, #"martlet: { server: "tcp://b:2", token: "t", device: "a/b" }"#, state, rule],
            "f:2:53: martlet.device is no device id"
        ),
        (
            [mqtt, martlet, state, #"toMartlet: [{ to: { user: "x" } }]"#],
            "f:4:13: toMartlet[0].from is needed: a topic filter"
        ),
        (
            [mqtt, martlet, state, #"toMartlet: [{ from: "a/#/b", to: { user: "x" } }]"#],
            "f:4:21: toMartlet[0].from is no topic filter: + stands alone in a level, # alone in "
                + "the last one"
        ),
        (
            [mqtt, martlet, state, #"toMartlet: [{ from: "$share/g/a", to: { user: "x" } }]"#],
            "f:4:21: toMartlet[0].from is a shared subscription, which keeps no order"
        ),
        (
            [mqtt, martlet, state, #"toMartlet: [{ from: "a", to: { user: "x", group: "y" } }]"#],
            "f:4:30: toMartlet[0].to must be one of {user: …}, {group: …}, {topic: …}"
        ),
        (
            [mqtt, martlet, state, #"toMartlet: [{ from: "a", to: { user: "x/y" } }]"#],
            "f:4:38: toMartlet[0].to.user is no id: 1 to 64 bytes without / + #"
        ),
        (
            [mqtt, martlet, state, #"toMartlet: [{ from: "a/+", to: { user: "{2}" } }]"#],
            "f:4:40: toMartlet[0].to.user has {2}, and \"a/+\" has topics whose last level is 1, "
                + "counted from 0"
        ),
        (
            [mqtt, martlet, state, #"toMartlet: [{ from: "a/#", to: { user: "{1}" } }]"#],
            "f:4:40: toMartlet[0].to.user has {1}, and \"a/#\" has topics whose last level is 0, "
                + "counted from 0"
        ),
        (
            [mqtt, martlet, state, #"toMartlet: [{ from: "a/+", to: { user: "{from}" } }]"#],
            "f:4:40: toMartlet[0].to.user has {from}, which its messages do not have; they have "
                + "{topic}, {1}, {2..}"
        ),
        (
            [mqtt, martlet, state, #"toMartlet: [{ from: "a/#", to: { topic: "{1..}/x" } }]"#],
            "f:4:41: toMartlet[0].to.topic can have {2..} only as its end, behind a /"
        ),
        (
            [mqtt, martlet, state, #"toMartlet: [{ from: "a", to: { topic: "$b" } }]"#],
            "f:4:39: toMartlet[0].to.topic begins with $, which is Martlet's own"
        ),
        (
            [
                mqtt, martlet, state,
                #"toMartlet: [{ from: "a", to: { user: "x" }, payload: "raw" }]"#,
            ],
            "f:4:13: toMartlet[0].payload can be raw only to a topic"
        ),
        (
            [mqtt, martlet, state, #"toMartlet: [{ from: "a", to: { topic: "x" }, type: 3 }]"#],
            "f:4:52: toMartlet[0].type is for the payload text only"
        ),
        (
            [
                mqtt, martlet, state,
                #"toMartlet: [{ from: "a/#", to: { user: "x" } }, "#
                    + #"{ from: "+/b", to: { user: "y" } }]"#,
            ],
            "f:4:49: toMartlet[1].from matches topics that toMartlet[0].from matches too"
        ),
        (
            [
                mqtt, martlet, state,
                #"toMqtt: [{ from: { inbox: "*" }, to: "x" }, { from: { inbox: "b" }, to: "y" }]"#,
            ],
            "f:4:45: toMqtt[1].from selects messages that toMqtt[0].from selects too"
        ),
        (
            [mqtt, martlet, state, #"toMqtt: [{ from: { inbox: "*" }, to: "x/#" }]"#],
            "f:4:38: toMqtt[0].to is a topic and has no + or #"
        ),
        (
            [mqtt, martlet, state, #"toMqtt: [{ from: { inbox: "*" }, to: "{group}" }]"#],
            "f:4:38: toMqtt[0].to has {group}, which its messages do not have; they have {from}"
        ),
        (
            [mqtt, martlet, state, #"toMqtt: [{ from: { post: "*" }, to: "x" }]"#],
            "f:4:20: toMqtt[0].from.post is unknown"
        ),
        (
            [mqtt, martlet, state, #"toMqtt: [{ from: { inbox: "*" }, to: "x", retain: 1 }]"#],
            "f:4:51: toMqtt[0].retain must be true or false, not a number"
        ),
        (
            [
                mqtt3, martlet, state, #"toMartlet: [{ from: "a/+", to: { user: "x" } }]"#,
                #"toMqtt: [{ from: { inbox: "*" }, to: "a/{from}" }]"#,
            ],
            "f:5:10: toMqtt[0].to can be a topic that toMartlet[0].from matches: it would come "
                + "back, which only mqtt.version 5 can prevent"
        ),
        ([mqtt, martlet, state, "toMqtt: {}"], "f:4:9: toMqtt must be a list, not an object"),
        ([mqtt, martlet, state, rule, "x"], "f:5:2: a colon is missing after x"),
    ]

    @Test(arguments: table.indices)
    func `an invalid file is refused with the place and the remedy`(index: Int) {
        let (members, complaint) = Self.table[index]
        // Each member on a line of its own, from the first column.
        let text = "{" + members.joined(separator: ",\n") + "}"
        #expect(complaints(text).split(separator: "\n").contains { $0 == complaint })
    }

    @Test func `all errors are reported at once`() {
        let text = #"{ mqtt: { server: 1 }, martlet: {}, stateFile: "", x: 1 }"#
        #expect(complaints(text).split(separator: "\n").count > 5)
    }

    @Test func `in MQTT 5 with no local, rules of both directions may overlap`() {
        let members = [
            Self.mqtt, Self.martlet, Self.state,
            #"toMartlet: [{ from: "a/+", to: { user: "x" } }]"#,
            #"toMqtt: [{ from: { inbox: "*" }, to: "a/{from}" }]"#,
        ]
        #expect(complaints("{" + members.joined(separator: ",") + "}") == "")
    }
}
