// Templates of the broker: before those of the file, without a restart, and over one.

import JSON5
import Testing
import WakeTemplates

@testable import Push

@Suite struct BrokerTemplateTests {
    private func content(_ relay: inout ModelRelay, _ more: String) -> String {
        relay.accept(Fixture.request(count: 2, more: more))
        relay.begin()
        guard let attempt = relay.attempts.last, case .send(let content) = attempt.phase else {
            return "none"
        }
        relay.finish(.delivered)
        return String(decoding: content.content.json, as: UTF8.self)
    }

    private let template = #","templates":{"webhook":{"text":"${count} of ${user}"}}"#

    @Test func `of a request counts before that of the file, until a request has none`() {
        var relay = ModelRelay(Fixture.settings())
        #expect(content(&relay, "").contains("conversation"))
        #expect(content(&relay, template) == #"{"text":"2 of bob"}"#)
        #expect(content(&relay, "").contains("conversation"))
    }

    @Test func `stands behind what the sender gave`() {
        var relay = ModelRelay(Fixture.settings())
        #expect(content(&relay, template + #","push":{"a":1}"#) == #"{"a":1}"#)
        #expect(content(&relay, template) == #"{"text":"2 of bob"}"#)
    }

    @Test func `is kept for wake-ups that wait over a restart`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(count: 2, more: template))
        relay.time += 20
        relay.save()
        var again = ModelRelay(Fixture.settings(), record: relay.record, time: relay.time)
        again.begin()
        guard case .send(let content)? = again.attempts.first?.phase else {
            Issue.record("nothing is sent")
            return
        }
        #expect(String(decoding: content.content.json, as: UTF8.self) == #"{"text":"2 of bob"}"#)
    }

    @Test func `that the file does not permit leaves that of the file`() {
        var relay = ModelRelay(Fixture.settings())
        let secret = #","templates":{"webhook":{"text":"${message}"}}"#
        #expect(content(&relay, secret).contains("conversation"))
        let lines = relay.dispatcher.takeLines().filter { $0.contains("template_refused") }
        #expect(lines.count == 1 && lines[0].contains("contents: true"), "\(lines)")
        #expect(content(&relay, secret).contains("conversation"))
        #expect(!relay.dispatcher.takeLines().contains { $0.contains("template_refused") })
        var open = ModelRelay(Fixture.settings { $0.hasContents = true })
        #expect(content(&open, secret) == #"{"text":""}"#)
    }

    @Test func `of the deepest kind is read in a request`() throws {
        let levels = TemplateText.depthMaximum - 1
        let text =
            "{a:" + String(repeating: "[", count: levels) + String(repeating: "]", count: levels)
            + "}"
        let read = try TemplateText(Array(text.utf8), isContentAllowed: false)
        let json = String(decoding: read.json, as: UTF8.self)
        var relay = ModelRelay(Fixture.settings())
        #expect(content(&relay, #","templates":{"webhook":\#(json)}"#) == json)
    }

    @Test func `outlives a record that is written anew`() {
        var relay = ModelRelay(Fixture.settings())
        relay.accept(Fixture.request(count: 2, more: template))
        let isKept = { (entries: [PushEntry]) in
            entries.contains { if case .template(.webhook, _) = $0 { true } else { false } }
        }
        #expect(isKept(relay.dispatcher.snapshot))
        #expect(relay.dispatcher.shortSnapshot.map(isKept) == true)
        #expect(relay.dispatcher.emptyRecord.map(isKept) == true)
    }

    @Test(arguments: [
        ("{ a: }", "line 1, column 6"), ("{\n a: '${x}' }", "line 2, column 5"),
        ("[]", "line 1, column 1"), ("{ a: '${message}' }", "line 1, column 6"),
        (
            "{ a:\n" + String(repeating: "[", count: 16) + String(repeating: "]", count: 16) + "}",
            "line 2, column 16"
        ),
    ])
    func `a text with a fault names its place`(text: String, place: String) {
        let fault = #expect(throws: TemplateText.Fault.self) {
            try TemplateText(Array(text.utf8), isContentAllowed: false)
        }
        #expect(fault?.description.hasPrefix(place + ": ") == true, "\(String(describing: fault))")
    }
}
