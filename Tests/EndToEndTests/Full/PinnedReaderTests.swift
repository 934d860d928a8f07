// Another process reads the store's file and does not end: the file grows up to a limit. The
// broker's queues are drained meanwhile, and no restart is needed.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct PinnedReaderTests {
        private static let softLimit = 16 << 20
        /// Half of what lies between the soft limit and the end of the map.
        private static let growthLimit = 40 << 20
        private static let waitingCount = 200

        @Test func `a reader of an old snapshot stops sends until it ends, and no deliveries`()
            async throws
        {
            let broker = try await TestBroker(
                "store.mapBytes=\(64 << 20)", "store.softLimitBytes=\(Self.softLimit)")
            let holder = try await SnapshotHolder(broker)
            // A full store has no room for a new token.
            let settings = try broker.settings("ann")
            try await connected(Client(settings)).close()
            let sender = try await broker.client("sender")
            for number in 1...Self.waitingCount {
                try await sender.send(OutgoingMessage(to: .user("ann"), text: "\(number)"))
            }
            let worker = try await Worker(broker, sender)

            try await holder.hold()
            #expect(try await worker.runUntilRefused() == .quotaExceeded)
            #expect(try broker.storeFileByteCount() > Self.growthLimit)
            // It is the reader, not what waits.
            #expect(try broker.counter("store/used/bytes") < Self.softLimit / 2)
            _ = try await broker.process.line(with: "event=store_full", "state=full")
            let ann = try await connected(Client(settings))
            let texts = try await ann.nextTexts(Self.waitingCount)
            #expect(texts == (1...Self.waitingCount).map { "\($0)" })
            try await drained(broker)
            #expect(try await worker.run() == .quotaExceeded, "the reader is still there")
            try await holder.release()
            try await worker.runUntilTaken()
            _ = try await broker.process.line(with: "event=store_full", "state=has-room")

            // One that is killed has no chance to let go.
            try await holder.hold()
            #expect(try await worker.runUntilRefused() == .quotaExceeded)
            try await holder.killNow()
            try await worker.runUntilTaken()

            // Nor has one that is killed while the broker is away.
            try await holder.hold()
            await worker.close()
            try await broker.stop()
            try await holder.killNow()
            try await broker.start()
            let before = try broker.storeFileByteCount()
            let again = try await Worker(broker, broker.client("sender"))
            for _ in 0..<200 { #expect(try await again.run() == nil) }
            #expect(try broker.storeFileByteCount() == before)
            try await broker.stop()
            #expect(try await broker.verifyStore() == .code(0))
        }

        private func drained(_ broker: TestBroker) async throws {
            try await eventually("an empty store") {
                try broker.counter("messages/stored") == 0
            }
        }
    }
}

/// Makes the store write and free pages: each message is stored before it is delivered.
private final class Worker {
    private let sender: Client
    private let receiver: Client
    /// 100 KB: 25 pages.
    private static let payload = [UInt8](repeating: 0x6D, count: 100_000)

    init(_ broker: TestBroker, _ sender: Client) async throws {
        self.sender = sender
        receiver = try await broker.client("receiver")
        try await receiver.subscribe(to: "work", grade: .once)
    }

    func close() async {
        await sender.close()
        await receiver.close()
    }

    /// Sends and takes one message; the reason where it is refused.
    func run() async throws -> ReasonCode? {
        do {
            try await sender.send(
                OutgoingMessage(to: .topic("work"), .bytes(Self.payload), grade: .once))
        } catch MartletError.refused(let reason, _) {
            return reason
        }
        receiver.acknowledge(try await receiver.nextMessage())
        return nil
    }

    func runUntilRefused() async throws -> ReasonCode? {
        for _ in 0..<2_000 { if let reason = try await run() { return reason } }
        return nil
    }

    /// The broker looks for room by itself, every ten seconds.
    func runUntilTaken() async throws {
        let end = ContinuousClock.now + .seconds(60 * Sanitizer.patience)
        while try await run() != nil {
            guard ContinuousClock.now < end else { throw TestFailure("there is no room again") }
            await Deadline(seconds: 0.05).wait()
        }
    }
}

/// Runs snapshot.c on the store of a broker.
private final class SnapshotHolder {
    private let program: String
    private let directory: String
    private var process: ChildProcess?

    init(_ broker: TestBroker) async throws {
        directory = broker.directory
        program = "\(broker.directory)/../snapshot"
        let source = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "snapshot.c").path
        let compile = try ChildProcess(
            "/usr/bin/gcc", ["-Wall", "-Wextra", "-Werror", "-o", program, source, "-llmdb"])
        guard try await compile.exit() == .code(0) else { throw TestFailure(compile.text) }
    }

    deinit { process?.signal(SIGKILL) }

    func hold() async throws {
        let process = try ChildProcess(program, [directory])
        self.process = process
        _ = try await process.line(with: "holding")
    }

    func release() async throws { try await end(SIGTERM, .code(0)) }
    func killNow() async throws { try await end(SIGKILL, .signal(SIGKILL)) }

    private func end(_ signal: Int32, _ wanted: ChildExit) async throws {
        process!.signal(signal)
        let exit = try await process!.exit()
        guard exit == wanted else { throw TestFailure("\(exit): \(process!.text)") }
        process = nil
    }
}

extension TestBroker {
    fileprivate func storeFileByteCount() throws -> Int {
        let attributes = try FileManager.default.attributesOfItem(atPath: directory + "/data.mdb")
        return attributes[.size] as! Int
    }
}
