// Templates, the layers of contents, control keys, badges, and the forms of Apple and Google.

import ClientProgram
import JSON5
import Testing
import WakeTemplates

@testable import Push
@testable import Relay

@Suite struct ContentTests {
    private func template(_ text: String, isContentAllowed: Bool = false) -> ContentTemplate? {
        var reader = SectionReader(path: "p", text: Array(text.utf8))
        return ContentTemplate(
            try! JSON5Parser.parse(Array(text.utf8)), key: "t", isContentAllowed: isContentAllowed
        ) { reader.complain($0, $1, at: $2) }
    }

    private func content(
        _ kind: WakeKind, template text: String = "{}", push: String = "", hook: String? = nil,
        badge: UInt64 = 0
    ) -> (json: String, content: WakeContent) {
        let content = WakeContents.make(
            Fixture.wake(kind, push: push),
            answer: hook.map { try! JSON5Parser.parse(Array($0.utf8)) },
            template: template(text, isContentAllowed: true)!, badge: badge)
        return (String(decoding: content.content.json, as: UTF8.self), content)
    }

    @Test func `each variable has its value, and what is no variable stays`() {
        let text = """
            { a: "${group}|${convId}|${fromClientId}|${user}|${device}", n: "${count}",
              t: ["${timestamp}", "${count} of", true, null, 1.5], m: "say ${message}$" }
            """
        #expect(
            content(.webhook, template: text).json
                == #"{"a":"crew|crew|alice|bob|phone","n":4,"t":[1800000000000,"4 of",true,null,"#
                + #"1.5],"m":"say hello$"}"#)
    }

    @Test func `the conversation of a message without a group is its sender`() {
        let content = WakeContents.make(
            Fixture.wake(group: ""), answer: nil, template: template(#"{c:"${convId}"}"#)!,
            badge: 0)
        #expect(content.content["c"]?.text == "alice")
    }

    @Test(arguments: [
        ("{ a: \"${cuont}\" }", "p:1:6: t.a has the unknown variable ${cuont}"),
        ("{\n  a: { b: [\"x ${count\"] } }", "p:2:12: t.a.b[0] has ${ without }"),
        ("{ a: 0x10 }", "p:1:6: t.a is a number that JSON does not have"),
        ("[]", "p:1:1: t must be an object, not a list"),
        ("{ a: \"${message}\" }", "p:1:6: t.a has ${message}, which needs contents: true"),
    ])
    func `an error of a template has its place`(text: String, message: String) {
        var reader = SectionReader(path: "p", text: Array(text.utf8))
        let template = ContentTemplate(
            try! JSON5Parser.parse(Array(text.utf8)), key: "t", isContentAllowed: false
        ) { reader.complain($0, $1, at: $2) }
        #expect(template == nil)
        #expect(reader.complaints.first?.hasPrefix(message) == true, "\(reader.complaints)")
    }

    @Test func `hook comes before sender, and sender before template`() {
        let template = #"{layer:"template"}"#
        #expect(content(.webhook, template: template).json == #"{"layer":"template"}"#)
        let push = #"{"layer":"sender"}"#
        #expect(content(.webhook, template: template, push: push).json == push)
        let hook = #"{"layer":"hook"}"#
        #expect(content(.webhook, template: template, push: push, hook: hook).json == hook)
        // A part for this kind only.
        let parts = #"{"a":1,"mqtt":{"b":2}}"#
        #expect(content(.webhook, push: parts).json == #"{"a":1}"#)
        #expect(content(.mqtt, push: parts).json == #"{"b":2}"#)
    }

    @Test func `what a sender gives to other kinds leaves a target its template`() {
        let template = #"{layer:"template"}"#
        let push = #"{"apns":{"aps":{"alert":"x"}},"_profile":"dev"}"#
        #expect(content(.fcm, template: template, push: push).json.contains("template"))
        #expect(content(.webhook, template: template, push: push).json == #"{"layer":"template"}"#)
        #expect(content(.apns, template: template, push: push).json == #"{"aps":{"alert":"x"}}"#)
        // An answer of the hook about others leaves it to the sender.
        let sent = content(.webhook, push: #"{"x":1}"#, hook: #"{"mqtt":{"y":2}}"#)
        #expect(sent.json == #"{"x":1}"# && sent.content.isOfSender)
        #expect(content(.webhook, template: template, push: "{}").json == "{}")
    }

    @Test func `control keys are taken out and used`() {
        let (json, content) = content(
            .webhook, push: #"{"_profile":"dev","_apns_team_id":"T1","_other":1,"a":{"_b":2}}"#)
        #expect(json == #"{"a":{"_b":2}}"#)
        #expect(content.profile == "dev" && content.team == "T1")
    }

    @Test(arguments: [
        (
            #"{"alert":"x","badge":"Increment","sound":"s","custom":{"k":1}}"#,
            #"{"custom":{"k":1},"aps":{"alert":"x","sound":"s","badge":6}}"#, 6 as UInt64?
        ),
        (
            #"{"aps":{"alert":"x","badge":2},"k":1}"#,
            #"{"k":1,"aps":{"alert":"x","badge":2}}"#, 2
        ),
        (#"{"aps":{"content-available":1}}"#, #"{"aps":{"content-available":1}}"#, nil),
    ])
    func `Apple's keys are in aps, and the badge counts`(
        push: String, json: String, badge: UInt64?
    ) {
        let result = content(.apns, push: push, badge: 5)
        #expect(result.json == json)
        #expect(result.content.badge == badge)
    }

    @Test func `a badge is bounded, and counting ends at the bound`() {
        let largest = PushLimits.badgeMaximum
        for text in ["2147483648", "9223372036854775808", "18446744073709551615", "-1", "1e9"] {
            let result = content(.webhook, push: #"{"badge":\#(text)}"#, badge: 5)
            #expect(result.content.badge == nil && result.json == #"{"badge":\#(text)}"#)
        }
        let set = content(.apns, push: #"{"badge":\#(largest)}"#)
        #expect(set.content.badge == largest)
        let counted = content(.apns, push: #"{"badge":"increment"}"#, badge: largest)
        #expect(counted.content.badge == largest)
    }

    @Test func `no sender names another receiver at Google`() {
        let push = #"{"topic":"all","condition":"x","token":"y","name":"z","data":{"topic":"t"}}"#
        #expect(content(.fcm, push: push).json == #"{"data":{"topic":"t"}}"#)
    }

    @Test func `no member of the content of a text message takes the place of the relay's`() throws
    {
        let push =
            #"{"to":"+900","text":"evil","user":"admin","time":1,"group":"x","count":9,"#
            + #""test":true}"#
        let settings = RequestSettings(
            url: "https://sms.example", secrets: [Fixture.secret], numberPrefixes: ["+49"])
        func request(_ address: String) throws -> TransferRequest {
            let wake = Fixture.wake(.sms, address: address, push: push, group: "")
            let content = WakeContents.make(
                wake, answer: nil, template: WakeContents.builtIn(.sms), badge: 0)
            return try RequestSender.request(
                for: wake, content, settings, now: Fixture.moment(0)
            ).get()
        }
        // The parser of configurations refuses equal keys.
        let data = try #require(try JSON5Parser.parse(request("+4915112345678").body)["data"])
        #expect(
            data.members.map(\.key)
                == ["user", "from", "time", "count", "expires", "device", "to", "text"])
        #expect(data["to"]?.text == "+4915112345678" && data["user"]?.text == "bob")
        #expect(throws: SendFault(.refused("number-not-allowed", isFinal: true))) {
            try request("+900123456")
        }
    }

    @Test(arguments: [
        (#"{"alert":"x","k":1}"#, #"{"notification":{"body":"x"},"data":{"k":"1"}}"#),
        (#"{"alert":{"title":"t"}}"#, #"{"notification":{"title":"t"}}"#),
        (#"{"data":{"n":1,"o":{"p":true}}}"#, #"{"data":{"n":"1","o":"{\"p\":true}"}}"#),
    ])
    func `Google's message has notification and data with texts`(push: String, json: String) {
        #expect(content(.fcm, push: push).json == json)
    }

    @Test(arguments: WakeKind.allCases)
    func `the template of the program has no content`(kind: WakeKind) {
        let made = WakeContents.make(
            Fixture.wake(kind), answer: nil, template: WakeContents.builtIn(kind), badge: 0)
        let json = String(decoding: made.content.json, as: UTF8.self)
        #expect(!json.contains("hello") && json.contains("alice"))
        #expect((try? JSON5Parser.parse(made.content.json)) != nil)
    }

    /// The vector of docs/operating/push.md.
    @Test func `the datagram of the page has its proof`() throws {
        let key = try #require(DatagramKey(String(repeating: "0b", count: 32)))
        let datagram = key.datagram(
            user: "pump7", device: "", time: 1_795_687_335_120, nonce: 0x0102_0304_0506_0708)
        let text = datagram.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        #expect(datagram.count == 36)
        #expect(text == "4d4c5731000001a2174e44d0010203040506070838dfa64aae4dc733f11ce472880aaf3b")
        for wrong in ["", "0b", "zz", String(repeating: "0b", count: 65)] {
            #expect(DatagramKey(wrong) == nil)
        }
    }
}
