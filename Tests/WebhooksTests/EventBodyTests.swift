// The JSON of events, the keys that order them, and which hooks want them.

import ClientProgram
import Foundation
import MartletClient
import Testing

@testable import Relay
@testable import Webhooks

@Suite struct EventBodyTests {
    private func body(_ message: IncomingMessage) throws -> [String: Any] {
        let bytes = EventBody.encode(WebhookEvent(message), identifier: "msg_1", user: "relay")
        return try #require(
            JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
    }

    private func message(
        _ kind: IncomingMessage.Kind, _ content: MessageContent = .text("hi", type: 5)
    ) -> IncomingMessage {
        IncomingMessage(kind: kind, from: "alice", time: 1_795_441_355_135, content: content)
    }

    @Test func `a message has the members of Standard Webhooks`() throws {
        let body = try body(message(.unicast, .text("say \"hi\"\n", type: 5)))
        #expect(Set(body.keys) == ["id", "type", "timestamp", "data"])
        #expect(body["type"] as? String == "message.user")
        #expect(body["timestamp"] as? String == "2026-11-23T13:42:35.135Z")
        let data = try #require(body["data"] as? [String: Any])
        #expect(data["user"] as? String == "relay" && data["from"] as? String == "alice")
        #expect(data["b"] as? String == "say \"hi\"\n" && data["t"] as? Int == 5)
        #expect(data["time"] as? Int == 1_795_441_355_135)
    }

    @Test(arguments: [
        (IncomingMessage.Kind.group("g"), "message.group", "group g"),
        (.broadcast, "message.everybody", "user alice"),
        (.topic("a/b"), "message.topic", "topic a/b"),
        (.kickedOut(group: "g"), "group.removed", "group g"),
        (.groupEvent(group: "g", .joined(user: "bob")), "group.changed", "group g"),
        (.groupEvent(group: "g", .removed), "group.removed", "group g"),
        (.receipt(nil), "receipt", "user alice"),
        (.brokerEvent(json: #"{"event":"QUEUE_FULL"}"#), "queue.full", "user alice"),
        (.brokerEvent(json: "{}"), "wake", "user alice"),
        (.recall(nil), "message.recalled", "user alice"),
        (.update(nil), "message.updated", "user alice"),
    ])
    func `each kind has its type and key`(
        _ kind: IncomingMessage.Kind, _ type: String, _ key: String
    ) throws {
        let message = message(kind)
        #expect(try body(message)["type"] as? String == type)
        #expect(WebhookEvent(message).key == key)
    }

    @Test func `presence is told as such`() throws {
        let message = message(.topic("$presence/pump-7"), .bytes(Array("online a b".utf8)))
        let body = try body(message)
        #expect(body["type"] as? String == "presence.changed")
        let data = try #require(body["data"] as? [String: Any])
        #expect(data["subject"] as? String == "pump-7" && data["isOnline"] as? Bool == true)
        #expect(data["device"] as? String == "a b")
        let all = Fixture.hook { ($0.kinds, $0.presence) = ([.presenceChanged], ["*"]) }
        let one = Fixture.hook { ($0.kinds, $0.presence) = ([.presenceChanged], ["pump-8"]) }
        #expect(all.selects(WebhookEvent(message)) && !one.selects(WebhookEvent(message)))
    }

    @Test func `bytes that are no text are base64`() throws {
        let data = try #require(
            try body(message(.topic("a"), .bytes([0xFF, 0])))["data"] as? [String: Any])
        #expect(data["base64"] as? String == "/wA=")
    }

    @Test func `hooks select by topic and group`() {
        let hook = Fixture.hook {
            $0.kinds = [.messageTopic, .messageGroup]
            $0.topics = [TopicFilter("a/+")!]
            $0.groups = ["g"]
        }
        #expect(hook.selects(WebhookEvent(message(.topic("a/b")))))
        #expect(!hook.selects(WebhookEvent(message(.topic("b/b")))))
        #expect(hook.selects(WebhookEvent(message(.group("g")))))
        #expect(!hook.selects(WebhookEvent(message(.group("h")))))
        #expect(!hook.selects(WebhookEvent(message(.unicast))))
    }

    @Test func `a hook of some groups is told nothing of others`() {
        let hook = Fixture.hook {
            $0.kinds = [.messageGroup, .messageRecalled, .messageUpdated, .receipt, .groupChanged]
            $0.groups = ["g"]
        }
        for kind in hook.kinds {
            #expect(hook.selects(kind, "g"), "\(kind)")
            #expect(!hook.selects(kind, "h"), "\(kind)")
        }
        // Receipts of messages to users have no content.
        #expect(hook.selects(.receipt, ""))
        var all = hook
        all.groups = []
        var user = hook
        user.kinds.insert(.messageUser)
        for kind in [EventKind.messageRecalled, .messageUpdated] {
            #expect(!hook.selects(kind, ""))
            #expect(user.selects(kind, "") && !user.selects(kind, "h"))
            #expect(all.selects(kind, "") && all.selects(kind, "h"))
        }
    }

    @Test func `a hook of a group gets nothing of a group whose name only looks the same`() {
        let hook = Fixture.hook {
            $0.groups = ["\u{E9}"]
            ($0.kinds, $0.presence) = ([.messageGroup, .presenceChanged], ["\u{E9}"])
        }
        for kind in hook.kinds {
            #expect(hook.selects(kind, "\u{E9}") && !hook.selects(kind, "e\u{301}"))
        }
        var settings = Fixture.settings([hook])
        settings.hooks[0].groups.insert("e\u{301}")
        #expect(settings.groups.count == 2)
    }

    @Test func `a batch has the events with their ids`() throws {
        let one = EventBody.encode(
            WebhookEvent(message(.unicast)), identifier: "msg_1", user: "relay")
        let batch = EventBody.encode(batch: [one, one], unixMilliseconds: 0)
        let body = try #require(
            JSONSerialization.jsonObject(with: Data(batch)) as? [String: Any])
        #expect(body["type"] as? String == "batch")
        let data = try #require(body["data"] as? [String: Any])
        let events = try #require(data["events"] as? [[String: Any]])
        #expect(events.map { $0["id"] as? String } == ["msg_1", "msg_1"])
    }
}
