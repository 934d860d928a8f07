// No memory left: a fan-out to many clients that do not read. The broker's limits bound its memory,
// so that the system's limit above them is never reached: a failed allocation would end the
// process.

import BrokerTerms
import Foundation
import MartletClient
import Primitives
import TestSurroundings
import Testing
import WireFormat

extension EndToEndTests {
    @Suite(
        .timeLimit(.minutes(4 * Sanitizer.patience)),
        .enabled(if: !Sanitizer.isThere, "a sanitizer's own memory is many times the broker's"))
    struct MemoryTests {
        private static let readerCount = 100
        /// What the limits below allow, with a factor of two for what an allocator cannot use:
        /// 8 MiB that wait for readers, 2 MiB that wait for the disk, 100 windows of 16 KiB, and
        /// pages of the commits under way.
        private static let ceiling = 32 << 20
        private static let settings = [
            "limits.outgoingBytes=\(8 << 20)", "queues.uncommittedBytes=\(1 << 20)",
            "limits.inboxWindowBytes=16384", "limits.sessionsPerUser=1000",
        ]

        @Test
        func `a large fan-out to slow readers stays within a memory limit and arrives completely`()
            async throws
        {
            let broker = try await TestBroker(settings: Self.settings)
            let bystanders = try await Bystanders(broker)
            let deaf = try SlowFleet(
                broker, user: "deaf", count: Self.readerCount, topic: "flood")
            let slow = try SlowFleet(
                broker, user: "slow", count: Self.readerCount, topic: "work")
            let dataBytes = try broker.dataBytes()
            try await broker.limit("data", to: dataBytes + Self.ceiling)

            let report = try await bystanders.watch { try await flood(broker, deaf) }
            #expect(report.lossCount == 0)
            // Whoever sends while too much waits for the disk is refused, bystanders too.
            let taken = try await overload(broker)
            print("fan-out below a ceiling: \(report), \(taken) taken")
            #expect(try broker.dataBytes() <= dataBytes + Self.ceiling)

            // Everything that was acknowledged arrives at every reader, in order, and is gone then.
            let numbers = try slow.readAll(taken)
            #expect(slow.lostCount == 0)
            #expect(numbers.allSatisfy { $0.count == taken && $0 == $0.sorted() })
            try await eventually("a drained store") {
                try broker.counter("messages/stored") == 0
            }
            let sender = try await broker.client("sender")
            try await sender.send(OutgoingMessage(to: .topic("work"), text: "again"))
            #expect(try slow.readAll(taken + 1).allSatisfy { $0.count == taken + 1 })
            try await broker.stop()
        }

        /// The ceiling proves something only where the load would go through it: the same flood
        /// without the limit on what waits for readers ends the process.
        @Test func `without its limit the broker reaches the memory limit`() async throws {
            let others = Self.settings.filter { !$0.hasPrefix("limits.outgoingBytes") }
            let broker = try await TestBroker(settings: others)
            let deaf = try SlowFleet(
                broker, user: "deaf", count: Self.readerCount, topic: "flood")
            let sender = try await broker.client("flooder")
            try await broker.limit("data", to: broker.dataBytes() + Self.ceiling)
            let flood = Task { try await Self.pour(from: sender) {} }
            let exit = try await broker.process.exit(within: 60)
            guard case .signal = exit else { throw TestFailure("\(exit): \(broker.process.text)") }
            await sender.close()
            await #expect(throws: (any Error).self) { try await flood.value }
            withExtendedLifetime(deaf) {}
        }

        /// Each message changes a page of the queue of each session. LMDB keeps the memory of the
        /// pages that one commit changed.
        @Test func `the memory of a fan-out to many queues is returned`() async throws {
            let broker = try await TestBroker(settings: ["limits.sessionsPerUser=1000"])
            for number in 0..<6 {
                let away = try SlowFleet(
                    broker, user: "away-\(number)", count: 1_000, topic: "work")
                withExtendedLifetime(away) {}
            }
            let sender = try await broker.client("sender")
            let before = try broker.anonymousBytes()
            var most = before
            // A page of a queue holds some 60 entries.
            for _ in 0..<80 {
                try await sender.send(OutgoingMessage(to: .topic("work"), text: "x"))
                most = max(most, try broker.anonymousBytes())
            }
            #expect(most > before + 20 << 20, "it takes memory, or the test shows nothing")
            try await eventually("memory that is given back") {
                try broker.anonymousBytes() < before + 12 << 20
            }
            #expect(try broker.counter("messages/stored") == 480_000)
            try await broker.stop()
        }

        /// 64 KiB after 64 KiB, as transient messages.
        private static func pour(
            from sender: Client, afterBatch: () throws -> Void
        ) async throws {
            let payload = [UInt8](repeating: 0x66, count: 65_536)
            for number in 0..<400 {
                try await sender.send(
                    OutgoingMessage(to: .topic("flood"), .bytes(payload), grade: .transient))
                // An answer for each batch of them: transient messages have none of their own.
                if number % 8 == 7 {
                    _ = try await sender.presence(of: "deaf")
                    try afterBatch()
                }
            }
        }

        /// To readers that take nothing: the kernel takes some megabytes for each, and then the
        /// broker drops.
        private func flood(_ broker: TestBroker, _ deaf: SlowFleet) async throws {
            let sender = try await broker.client("flooder")
            var largest: UInt64 = 0
            try await Self.pour(from: sender) {
                largest = max(largest, try broker.counter("sockets/outgoing/bytes"))
                deaf.look()
            }
            // They were at the limit, and it held: beyond it each has its share.
            #expect(largest > 7 << 20, "\(largest)")
            #expect(largest <= 8 << 20 + UInt64(2 * Self.readerCount * 16_384), "\(largest)")
            #expect(try broker.counter("messages/dropped/slow_reader") > 0)
            #expect(deaf.lostCount == 0, "what can be dropped closes nobody")
        }

        /// More at once than may wait for the disk: the broker stands still until all of it is
        /// sent.
        ///
        /// - Returns: how many messages were taken; all others were refused by name.
        private func overload(_ broker: TestBroker) async throws -> Int {
            let senders = try (0..<8).map { number in
                let wire = try WireClient(port: broker.plainPort)
                _ = try wire.login(token: broker.token("sender-\(number)"))
                return wire
            }
            let topic = Array("work".utf8)
            let source = topic + [UInt8](repeating: 0x77, count: 4_096)
            var burst: [UInt8] = []
            for number in 1...64 {
                var send = MRT.Send(
                    grade: .durable, number: UInt64(number),
                    target: .topic(ByteRange(offset: 0, count: topic.count)),
                    payload: ByteRange(offset: topic.count, count: 4_096))
                send.isRaw = true
                burst += packetBytes(send, source)
            }
            broker.process.signal(SIGSTOP)
            do {
                defer { broker.process.signal(SIGCONT) }
                for sender in senders { try sender.send(burst) }
            }
            var reasons: [ReasonCode: Int] = [:]
            for sender in senders {
                for _ in 1...64 { reasons[try sender.nextResult(), default: 0] += 1 }
                sender.close()
            }
            #expect(reasons.values.reduce(0, +) == 512)
            #expect(Set(reasons.keys) == [.sent, .quotaExceeded], "\(reasons)")
            // Nothing but the limit has refused: no allocation has failed, in the store neither.
            let refusedCount = try broker.counter("messages/refused/uncommitted")
            #expect(
                refusedCount == UInt64(reasons[.quotaExceeded] ?? 0),
                "\(reasons)\n\(broker.process.text)")
            return reasons[.sent] ?? 0
        }
    }
}

extension TestBroker {
    /// Bytes of memory that are the process's own, as RLIMIT_DATA counts them: the store's file is
    /// not among them.
    fileprivate func dataBytes() throws -> Int { try statusBytes("VmData:") }

    /// Bytes of memory that belongs to no file.
    fileprivate func anonymousBytes() throws -> Int { try statusBytes("RssAnon:") }

    private func statusBytes(_ name: String) throws -> Int {
        let status = try String(
            contentsOfFile: "/proc/\(process.identifier)/status", encoding: .utf8)
        for line in status.split(separator: "\n") where line.hasPrefix(name) {
            return Int(line.filter(\.isNumber))! * 1024
        }
        throw TestFailure("no \(name) of process \(process.identifier)")
    }
}
