// Filters, templates and rules: the destination and the form of each message.

import ClientProgram
import Testing
import WireFormat

@testable import Bridge

@Suite struct TopicFilterTests {
    private func levels(_ topic: String) -> TopicLevels { TopicLevels(Array(topic.utf8)) }

    @Test(arguments: [
        ("a/b", "a/b", true), ("a/b", "a/c", false), ("a/b", "a", false), ("a", "a/b", false),
        ("a/+", "a/b", true), ("a/+", "a/", true), ("a/+", "a", false), ("+/+", "/", true),
        ("+", "a/b", false), ("a/#", "a/b/c", true), ("a/#", "a", true), ("a/#", "ab", false),
        ("#", "a/b", true), ("#", "$SYS/x", false), ("+/x", "$SYS/x", false),
        ("$SYS/#", "$SYS/x", true),
    ])
    func `a filter matches as MQTT says`(filter: String, topic: String, matches: Bool) throws {
        #expect(try #require(TopicFilter(filter)).matches(levels(topic)) == matches)
    }

    @Test(arguments: [
        ("a/b", "a/b", true), ("a/b", "a/c", false), ("a/+", "+/b", true), ("a/+", "b/+", false),
        ("a/#", "a", true), ("a/#", "a/+/c", true), ("a/b/#", "a/+", true), ("a/#", "b/#", false),
        ("#", "a/b", true), ("#", "$SYS/#", false), ("+/a", "#", true), ("a/+/c", "a/b", false),
        ("a/b/c/#", "a", false),
    ])
    func `two filters overlap if a topic matches both`(
        one: String, other: String, overlap: Bool
    ) throws {
        let (left, right) = (try #require(TopicFilter(one)), try #require(TopicFilter(other)))
        #expect(left.overlaps(right) == overlap)
        #expect(right.overlaps(left) == overlap)
    }

    @Test(arguments: ["", "a/#/b", "a+", "+a/b", "a#", "$share/g/a"])
    func `invalid and shared filters are refused`(text: String) {
        #expect(TopicFilter(text) == nil)
    }
}

@Suite struct TemplateTests {
    private func fill(_ template: String, _ topic: String) throws -> String? {
        let values = TemplateValues(
            topic: TopicLevels(Array(topic.utf8)), from: Array("bob".utf8)[...],
            group: Array("g1".utf8)[...])
        return try Template(template, names: ["topic", "from", "group"]).filled(values)
            .map { String(decoding: $0, as: UTF8.self) }
    }

    @Test(arguments: [
        ("sensor-{1}", "plant/7/temp", "sensor-7"), ("{0}{2}", "a/b/c", "ac"),
        ("site/{1..}", "x/a/b", "site/a/b"), ("site/{1..}", "x", "site"), ("{0..}", "a/b", "a/b"),
        ("{topic}/of/{from}", "a/b", "a/b/of/bob"), ("{group}", "a", "g1"), ("{1}", "a//b", ""),
        ("ü{0}", "é", "üé"),
    ])
    func `placeholders are filled`(template: String, topic: String, result: String) throws {
        #expect(try fill(template, topic) == result)
    }

    @Test func `a topic with too few levels fills no template`() throws {
        #expect(try fill("{2}", "a/b") == nil)
        #expect(try fill("x/{3..}", "a/b") == nil)
    }

    @Test(arguments: ["", "{", "a}", "{x}", "{-1}", "{1...}", "{}", "{100}", "{1"])
    func `an invalid template is refused`(text: String) {
        #expect(throws: Template.Fault.self) { try Template(text, names: ["topic"]) }
    }

    @Test(arguments: [
        ("a/b", "a/b"), ("a/{1}/c", "a/+/c"), ("a/x{1}y/c", "a/+/c"), ("a/{2..}", "a/#"),
        ("{topic}", "#"), ("dead/{topic}", "dead/#"), ("{from}", "+"),
    ])
    func `the filter of a template matches every topic that it can produce`(
        template: String, filter: String
    ) throws {
        let parsed = try Template(template, names: ["topic", "from"])
        #expect(parsed.asFilter?.text == filter)
    }
}

@Suite struct RuleSetTests {
    private func rules(_ rules: String) throws -> RuleSet {
        let text = """
            { mqtt: { server: "tcp://a:1", clientId: "c" },
              martlet: { server: "tcp://b:2", token: "t" }, stateFile: "s", \(rules) }
            """
        return try BridgeFile.settings(text: Array(text.utf8), path: "f", token: nil).rules
    }

    private func inward(_ ruleSet: RuleSet, _ topic: String, _ payload: [UInt8]) -> PreparedSend? {
        guard case .forward(let send) = ruleSet.route(topic: Array(topic.utf8), payload: payload)
        else { return nil }
        return send
    }

    private func refusal<Prepared>(_ route: Route<Prepared>) -> String {
        switch route {
        case .forward: "forward"
        case .unmatched: "unmatched"
        case .refused(let reason): "\(reason.name)"
        }
    }

    @Test func `a payload becomes a text, is a message, or is unchanged`() throws {
        let ruleSet = try rules(
            """
            toMartlet: [
              { from: "text/+", to: { user: "{1}" }, type: 5 },
              { from: "json", to: { group: "g" }, payload: "json" },
              { from: "raw/#", to: { topic: "x/{1..}" } },
              { from: "said", to: { topic: "y" }, payload: "text" },
            ]
            """)
        let text = inward(ruleSet, "text/u", Array("é".utf8))
        #expect(
            text
                == PreparedSend(
                    target: .user(Array("u".utf8)), isRaw: false, payload: [5] + "é".utf8))
        let json = inward(ruleSet, "json", Array(#"{"b":"h","t":"9"}"#.utf8))
        #expect(
            json == PreparedSend(target: .group([0x67]), isRaw: false, payload: [9] + "h".utf8))
        let raw = inward(ruleSet, "raw/a/b", [0xFF])
        #expect(
            raw == PreparedSend(target: .topic(Array("x/a/b".utf8)), isRaw: true, payload: [0xFF]))
        #expect(inward(ruleSet, "said", [0x41])?.payload == [0, 0x41])
        #expect(
            refusal(ruleSet.route(topic: Array("text/u".utf8), payload: [0xFF]))
                == "payload-format-invalid")
        #expect(
            refusal(ruleSet.route(topic: Array("json".utf8), payload: [0x7B]))
                == "payload-format-invalid")
        #expect(refusal(ruleSet.route(topic: Array("other".utf8), payload: [])) == "unmatched")
    }

    private func message(
        _ kind: MRT.DeliveryKind, from: String, address: String = "", grade: MRT.Grade = .once
    ) -> ReceivedMessage {
        ReceivedMessage(
            kind: kind, grade: grade, from: Array(from.utf8), time: 5,
            address: Array(address.utf8), isRaw: false, payload: [0] + "hi".utf8)
    }

    private func outward(_ ruleSet: RuleSet, _ message: ReceivedMessage) -> String {
        guard case .forward(let publish) = ruleSet.route(message) else { return "none" }
        return String(decoding: publish.topic, as: UTF8.self)
            + " \(publish.qos.rawValue) " + String(decoding: publish.payload, as: UTF8.self)
    }

    @Test func `a message becomes a topic by its kind, its sender and its address`() throws {
        let ruleSet = try rules(
            """
            toMqtt: [
              { from: { inbox: "eve" }, to: "eve", qos: 1 },
              { from: { inbox: "bob" }, to: "in/{from}", payload: "json" },
              { from: { group: "*" }, to: "g/{group}/{from}", payload: "json" },
              { from: { broadcast: "*" }, to: "all", qos: 0 },
              { from: { topic: "a/+/#" }, to: "b/{1}/{2..}" },
            ]
            """)
        #expect(outward(ruleSet, message(.unicast, from: "eve")) == "eve 1 hi")
        #expect(
            outward(ruleSet, message(.unicast, from: "bob"))
                == #"in/bob 2 {"msg":{"t":"0","b":"hi"},"from":"bob","time":"5"}"#)
        #expect(outward(ruleSet, message(.unicast, from: "mallory")) == "none")
        #expect(
            outward(ruleSet, message(.group, from: "bob", address: "g7", grade: .durable))
                == #"g/g7/bob 1 {"msg":{"t":"0","b":"hi"},"from":"bob","time":"5","groupid":"g7"}"#)
        #expect(outward(ruleSet, message(.broadcast, from: "bob")) == "all 0 hi")
        #expect(outward(ruleSet, message(.topic, from: "bob", address: "a/1")) == "b/1 2 hi")
        #expect(
            outward(ruleSet, message(.topic, from: "bob", address: "a/1/x/y")) == "b/1/x/y 2 hi")
        #expect(outward(ruleSet, message(.topic, from: "bob", address: "c")) == "none")
    }
}
