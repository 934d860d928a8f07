// The log on real servers: what append, read, follow and trim do, and what the start refuses.

import Foundation
import NATSLog
import Replication
import TestSurroundings
import Testing

/// The settings of a log on the servers of a test.
func settings(
    _ servers: NATSServers, stream: String = "orders", asksSync: Bool = true,
    durability: JetStreamDurability = .strict
) -> JetStreamSettings {
    JetStreamSettings(
        servers: servers.urls, stream: stream, node: "a",
        credentials: .user(NATSServers.user.name, password: NATSServers.user.password),
        systemCredentials: asksSync
            ? .user(NATSServers.systemUser.name, password: NATSServers.systemUser.password) : nil,
        durability: durability)
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

extension NATSLogTests {
    @Suite(
        .serialized, .timeLimit(.minutes(20)),
        .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"))
    struct JetStreamLogTests {
        @Test func `records come back in their order, and a wrong expectation changes nothing`()
            async throws
        {
            try await onThread {
                let servers = try NATSServers()
                let client = try LogClient.asking(settings(servers))
                #expect(client.report.isSyncKnown)
                #expect(client.report.weaknesses == [])
                #expect(client.report.stream.replicas == 3)
                #expect(client.report.serverVersion?.description == NATSServers.version)

                #expect(try client.read(at: 1) == .nothing)
                #expect(
                    try client.append(bytes("one"), after: 0) == .committed(LogSequence(raw: 1)))
                // 0 is an expectation, not the absence of one.
                #expect(try client.append(bytes("zero"), after: 0) == .wrongLast)
                #expect(try client.append(bytes("late"), after: 5) == .wrongLast)
                #expect(
                    try client.append(bytes("two"), after: 1) == .committed(LogSequence(raw: 2)))
                let large = [UInt8](repeating: 7, count: ReplicationLimits.recordByteCountMaximum)
                #expect(try client.append(large, after: 2) == .committed(LogSequence(raw: 3)))
                #expect(try client.append([], after: 3) == .committed(LogSequence(raw: 4)))
                #expect(try client.readRecord(at: 2) == .record(bytes("two")))
                #expect(try client.readRecord(at: 3) == .record(large))
                #expect(try client.readRecord(at: 4) == .record([]))
                #expect(try client.read(at: 5) == .nothing)

                let second = try LogClient(settings(servers), byteCountMaximum: nil)
                second.log.follow(from: LogSequence(raw: 2))
                #expect(
                    try second.followed(2) == .followed(LogSequence(raw: 2), record: bytes("two")))
                #expect(try second.followed(3) == .followed(LogSequence(raw: 3), record: large))
                #expect(try second.followed(4) == .followed(LogSequence(raw: 4), record: []))
                #expect(
                    try client.append(bytes("five"), after: 4) == .committed(LogSequence(raw: 5)))
                #expect(
                    try second.followed(5) == .followed(LogSequence(raw: 5), record: bytes("five")))

                // After the trim a follower from before it is told of the gap.
                try client.trim(through: 3)
                #expect(try client.read(at: 3) == .nothing)
                #expect(try client.readRecord(at: 4) == .record([]))
                second.log.follow(from: LogSequence(raw: 3))
                #expect(try second.followed(3) == .recordsMissing(before: LogSequence(raw: 4)))
                second.log.follow(from: LogSequence(raw: 4))
                #expect(try second.followed(4) == .followed(LogSequence(raw: 4), record: []))
                #expect(
                    try second.followed(5) == .followed(LogSequence(raw: 5), record: bytes("five")))
            }
        }

        @Test func `a full stream refuses, and takes records again after a trim`() async throws {
            try await onThread {
                let servers = try NATSServers()
                let client = try LogClient(settings(servers), byteCountMaximum: 400_000)
                let record = [UInt8](repeating: 1, count: 100_000)
                var last: UInt64 = 0
                while true {
                    let outcome = try client.append(record, after: last)
                    if outcome == .full { break }
                    try #require(outcome == .committed(LogSequence(raw: last + 1)))
                    last += 1
                }
                #expect(last == 3)
                #expect(
                    try client.append(bytes("small"), after: last)
                        == .committed(
                            LogSequence(raw: last + 1)))
                #expect(try client.readRecord(at: 1) == .record(record))
                try client.trim(through: 2)
                #expect(try client.append(record, after: 4) == .committed(LogSequence(raw: 5)))
            }
        }

        @Test func `a stream that was deleted, and another one of its name, take nothing`()
            async throws
        {
            try await onThread {
                let servers = try NATSServers()
                let client = try LogClient(settings(servers))
                #expect(
                    try client.append(bytes("one"), after: 0) == .committed(LogSequence(raw: 1)))
                let follower = try LogClient(settings(servers), byteCountMaximum: nil)
                follower.log.follow(from: LogSequence(raw: 1))
                #expect(
                    try follower.followed(1)
                        == .followed(LogSequence(raw: 1), record: bytes("one")))
                try StreamAdministration(servers).delete("orders")
                #expect(try client.appendInVain(bytes("two"), after: 1) == .refused(.absent))
                #expect(try follower.followed(2) == .followingEnded(.failed(code: 10_059)))
                #expect(throws: JetStreamError.absent(stream: "orders")) {
                    try LogClient(settings(servers), byteCountMaximum: nil)
                }
                let other = try LogClient(settings(servers))
                #expect(try client.appendInVain(bytes("two"), after: 1) == .refused(.absent))
                #expect(try other.append(bytes("new"), after: 0) == .committed(LogSequence(raw: 1)))
            }
        }

        @Test func `a stream that cannot keep the promise is refused`() async throws {
            try await onThread {
                var options = NATSServers.Options()
                options.syncsAlways = false
                let servers = try NATSServers(options)
                let error = try #require(try refusal(of: settings(servers)))
                #expect("\(error)".contains("sync_interval: always"))
                // Nobody may ask: the start says so and goes on.
                let unasked = try LogClient(settings(servers, asksSync: false))
                #expect(!unasked.report.isSyncKnown)
                let relaxed = try LogClient.asking(settings(servers, durability: .relaxed))
                #expect(relaxed.report.weaknesses.count == 3)

                let administration = try StreamAdministration(servers)
                try administration.create(
                    #"{"name":"foreign","subjects":["sensors.>"],"num_replicas":3,"#
                        + #""storage":"file"}"#
                )
                let foreign = #expect(throws: JetStreamError.self) {
                    try LogClient(settings(servers, stream: "foreign", durability: .relaxed))
                }
                #expect("\(try #require(foreign))".contains("it belongs to something else"))
                let single = try LogClient(
                    settings(servers, stream: "single", durability: .relaxed))
                #expect(single.report.stream.replicas == 1)
                #expect(throws: JetStreamError.self) {
                    try LogClient(settings(servers, stream: "single", asksSync: false))
                }
            }
        }

        /// The error of a start. A server that is paused does not tell its settings in time, and
        /// does not prevent the start.
        private func refusal(of settings: JetStreamSettings) throws -> JetStreamError? {
            for _ in 0..<20 {
                do {
                    _ = try LogClient(settings)
                } catch let error as JetStreamError {
                    return error
                }
            }
            return nil
        }

        @Test func `small payloads, wrong passwords and unknown servers are told`() async throws {
            try await onThread {
                var options = NATSServers.Options()
                options.count = 1
                options.payload = "1MB"
                let servers = try NATSServers(options)
                let small = #expect(throws: JetStreamError.self) {
                    try LogClient(settings(servers, durability: .relaxed))
                }
                #expect("\(try #require(small))".contains("max_payload"))
                var wrong = settings(servers)
                wrong.credentials = .user("martlet", password: "guess")
                #expect(throws: JetStreamError.unauthorised) { try LogClient(wrong) }
                wrong = settings(servers, durability: .relaxed)
                wrong.systemCredentials = .user("system", password: "guess")
                #expect(throws: JetStreamError.systemUnauthorised) { try LogClient(wrong) }
                servers.kill(0)
                let silent = #expect(throws: JetStreamError.self) {
                    try LogClient(settings(servers), seconds: 0)
                }
                #expect(try #require(silent).isTemporary)
            }
        }

        @Test func `servers with TLS prove who they are`() async throws {
            let certificates = CertificateDirectory("nats-tls")
            defer { try? FileManager.default.removeItem(atPath: certificates.path) }
            certificates.makeAuthority("ca", subject: "/CN=authority")
            certificates.makeAuthority("other", subject: "/CN=other")
            certificates.issue("server", subject: "/CN=server", names: "DNS:localhost")
            try await onThread {
                var options = NATSServers.Options()
                options.count = 1
                options.tls = certificates
                let servers = try NATSServers(options)
                var secure = settings(servers, durability: .relaxed)
                secure.tls = JetStreamTLS(authorityFile: certificates.file("ca.pem"))
                let client = try LogClient(secure)
                #expect(
                    try client.append(bytes("one"), after: 0) == .committed(LogSequence(raw: 1)))
                var foreign = secure
                foreign.tls = JetStreamTLS(authorityFile: certificates.file("other.pem"))
                #expect(throws: JetStreamError.self) { try LogClient(foreign, seconds: 0) }
                // The certificate is one of localhost.
                var renamed = secure
                renamed.servers = ["tls://127.0.0.1:\(servers.ports[0])"]
                #expect(throws: JetStreamError.self) { try LogClient(renamed, seconds: 0) }
                var missing = secure
                missing.tls = JetStreamTLS(authorityFile: certificates.file("none.pem"))
                let error = #expect(throws: JetStreamError.self) { try LogClient(missing) }
                #expect("\(try #require(error))".contains("none.pem"))
            }
        }
    }
}
