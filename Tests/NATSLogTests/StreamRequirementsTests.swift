// What the client makes of answers and outcomes, without servers.

import CNATS
import Replication
import Testing
@testable import NATSLog

@Suite struct StreamRequirementsTests {
    private static let suitable = StreamRequirements.configuration(
        name: "orders", subject: "orders.log", byteCountMaximum: 1 << 30, replicas: 3)

    private func findings(_ configuration: String) throws -> StreamFindings {
        let answer = try #require(
            ServerAnswer(
                Array(
                    """
                    {"created":"2026-01-01T00:00:00Z","config":\(configuration),
                    "state":{"first_seq":1,"last_seq":4}}
                    """.utf8)))
        let stream = try #require(StreamDescription(answer))
        return StreamRequirements.check(
            stream, subject: "orders.log", recordByteCountMaximum: 1 << 20)
    }

    @Test func `the configuration of a new stream has no finding`() throws {
        let findings = try findings(Self.suitable)
        #expect(findings.faults == [])
        #expect(findings.weaknesses == [])
    }

    @Test(arguments: [
        (#""subjects":["orders.log"]"#, #""subjects":["orders.log","x"]"#, "subjects"),
        (#""retention":"limits""#, #""retention":"workqueue""#, "retention"),
        (#""storage":"file""#, #""storage":"memory""#, "storage"),
        (#""discard":"new""#, #""discard":"old""#, "discard"),
        (#""max_age":0"#, #""max_age":1000"#, "max_age"),
        (#""max_msgs":-1"#, #""max_msgs":10"#, "max_msgs"),
        (#""max_msgs_per_subject":-1"#, #""max_msgs_per_subject":1"#, "max_msgs_per_subject"),
        (#""max_msg_size":-1"#, #""max_msg_size":1000"#, "max_msg_size"),
        (#""max_bytes":1073741824"#, #""max_bytes":-1"#, "max_bytes"),
        (#""deny_delete":true"#, #""deny_delete":false"#, "deny_delete"),
        (#""deny_purge":false"#, #""deny_purge":true"#, "deny_purge"),
        (#""deny_purge":false"#, #""sealed":true"#, "sealed"),
        (#""deny_purge":false"#, #""no_ack":true"#, "no_ack"),
        (#""deny_purge":false"#, #""allow_msg_ttl":true"#, "allow_msg_ttl"),
        (#""deny_purge":false"#, #""mirror":{"name":"x"}"#, "mirror"),
        (#""allow_rollup_hdrs":false"#, #""allow_rollup_hdrs":true"#, "allow_rollup_hdrs"),
    ]) func `a property that loses records is a fault`(
        from: String, into: String, name: String
    ) throws {
        let parts = Self.suitable.split(separator: from, omittingEmptySubsequences: false)
        try #require(parts.count == 2)
        let findings = try findings(parts.joined(separator: into))
        #expect(findings.faults.count == 1)
        #expect(findings.faults.first?.contains(name) == true)
    }

    @Test func `fewer replicas and asynchronous files are weaknesses`() throws {
        let weak = StreamRequirements.configuration(
            name: "orders", subject: "orders.log", byteCountMaximum: 1 << 30, replicas: 1
        ).dropLast()
        let findings = try findings(weak + #","persist_mode":"async"}"#)
        #expect(findings.faults == [])
        #expect(findings.weaknesses.count == 2)
    }

    @Test func `answers of other shapes are no streams`() {
        for text in ["", "[]", "{}", #"{"config":1}"#, #"{"created":1,"config":{},"state":{}}"#] {
            #expect(ServerAnswer(Array(text.utf8)).flatMap(StreamDescription.init) == nil)
        }
    }

    @Test func `versions are compared by number`() throws {
        #expect(try #require(ServerVersion("2.9.10")) < #require(ServerVersion("2.15.1")))
        #expect(
            try #require(ServerVersion("2.15.1-beta")) == JetStreamLimits.serverVersionMinimum)
        for text in ["", "2", "2.15", "a.b.c", "2.15.x"] { #expect(ServerVersion(text) == nil) }
    }

    @Test func `an outcome is certain only where the record cannot be in the stream`() {
        func outcome(_ status: natsStatus, _ error: Int, _ text: String = "") -> AppendOutcome {
            JetStreamOutcome(status: status, error: error, text: text).append
        }
        #expect(outcome(NATS_ERR, 10_071) == .wrongLast)
        #expect(outcome(NATS_ERR, 10_164) == .wrongLast)
        #expect(outcome(NATS_ERR, 10_077, "maximum bytes exceeded") == .full)
        #expect(
            outcome(NATS_ERR, 10_077, "no space left on device") == .unknown(.failed(code: 10_077)))
        #expect(outcome(NATS_ERR, 10_060) == .refused(.absent))
        #expect(outcome(NATS_ERR, 10_054) == .refused(.tooLarge))
        #expect(outcome(NATS_MAX_PAYLOAD, 0) == .refused(.tooLarge))
        #expect(outcome(NATS_ERR, 10_008) == .unknown(.leaderless))
        #expect(outcome(NATS_TIMEOUT, 0) == .unknown(.timeout))
        #expect(outcome(NATS_NO_RESPONDERS, 0) == .unknown(.unreachable))
        #expect(outcome(NATS_ERR, 10_076) == .unknown(.unreachable))
        #expect(outcome(NATS_CONNECTION_DISCONNECTED, 0) == .unknown(.unreachable))
        #expect(outcome(NATS_ERR, 0) == .unknown(.failed(code: Int(NATS_ERR.rawValue))))
    }

    @Test func `settings that no server could have are told`() {
        var settings = JetStreamSettings(
            servers: ["nats://nats-1:4222"], stream: "orders", node: "a")
        #expect(settings.fault == nil)
        settings.stream = "orders.eu"
        #expect(settings.fault?.contains("orders.eu") == true)
        settings.stream = ""
        #expect(settings.fault != nil)
        settings.stream = "orders"
        for servers in [[], ["http://a"], ["nats://a,nats://b"], ["nats:// a"]] {
            settings.servers = servers
            #expect(settings.fault != nil)
        }
    }
}

@Suite struct EventQueueTests {
    @Test func `records that wait are bounded, outcomes are not`() {
        var queue = EventQueue()
        let record = [UInt8](repeating: 0, count: ReplicationLimits.recordByteCountMaximum)
        for number in 1...4 {
            #expect(!queue.isFull)
            queue.append(.followed(LogSequence(raw: UInt64(number)), record: record))
        }
        #expect(queue.isFull)
        queue.append(.read(LogRequest(raw: 1), .nothing))
        #expect(queue.removeFirst() == .followed(LogSequence(raw: 1), record: record))
        #expect(!queue.isFull)
        queue.removeFollowed()
        #expect(queue.byteCount == 0)
        #expect(queue.removeFirst() == .read(LogRequest(raw: 1), .nothing))
        #expect(queue.removeFirst() == nil)
    }

    @Test func `events leave in their order, however many there are`() {
        var queue = EventQueue()
        var next: UInt64 = 1
        for number in UInt64(1)...20_000 {
            queue.append(.followed(LogSequence(raw: number), record: []))
            if number % 3 == 0 { continue }
            #expect(queue.removeFirst() == .followed(LogSequence(raw: next), record: []))
            next += 1
        }
        #expect(queue.recordCount == 20_000 - Int(next - 1))
    }
}
