// The harness with a faulty broker, and after a signal: a run always ends with a report, and an
// interrupted run disconnects its clients and leaves nothing behind.

import Foundation
import PacketMeanings
import Primitives
import TestSurroundings
import Testing
import WireFormat

@Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct StrangeBrokerTests {
    /// A run of the program, and what it said.
    private final class Run {
        let process = Process()
        private let output = Pipe()

        init(_ arguments: [String]) throws {
            process.executableURL = Programs.folder.appending(path: "martlet-bench")
            process.arguments = arguments
            process.standardOutput = output
            process.standardError = output
            try process.run()
        }

        /// Everything up to the end.
        func end() throws -> String {
            let text = try output.fileHandleForReading.readToEnd() ?? Data()
            process.waitUntilExit()
            return String(decoding: text, as: UTF8.self)
        }

        /// Whether it ended by itself, and not by a trap.
        var hasEndedInOrder: Bool { process.terminationReason == .exit }
    }

    private func run(
        _ broker: StrangeBroker, _ load: String, seconds: Int = 3
    ) throws -> (run: Run, text: String) {
        broker.start()
        defer { broker.stop() }
        let run = try Run(
            load.split(separator: " ").map(String.init) + [
                "-h", "127.0.0.1", "-p", "\(broker.port)", "--seconds", "\(seconds)", "--warm-up",
                "0", "--quiet",
            ])
        return (run, try run.end())
    }

    private typealias Strangeness = @Sendable ([UInt8]) -> StrangeBroker.Words

    /// What a broker of MQTT 3.1.1 answers to the first publication, and what the report says.
    private static let mqttFaults: [(name: String, qos: Int, says: String, words: Strangeness)] = [
        (
            "confirms what was never sent", 1, "never sent",
            { _ in .init(toSender: [0x40, 2, 0x77, 0x77]) }
        ),
        (
            // Two receipts complete it: that of its receiver and the broker's own.
            "confirms three times", 1, "that was complete",
            { _ in .init(toSender: [0x40, 2, 0, 1, 0x40, 2, 0, 1, 0x40, 2, 0, 1]) }
        ),
        (
            "confirms number 0", 1, "never sent", { _ in .init(toSender: [0x40, 2, 0, 0]) }
        ),
        (
            "confirms what asks for none", 0, "asks for no confirmation",
            { _ in .init(toSender: [0x40, 2, 0, 1]) }
        ),
        (
            "delivers to the sender", 0, "of other runs 1",
            { .init(toSender: $0) }
        ),
        (
            "accepts logins twice", 0, "accepted a login twice",
            { _ in .init(toSender: [0x20, 2, 0, 0], toOthers: [0x20, 2, 0, 0]) }
        ),
        (
            "completes a packet with none", 1, "makes no sense",
            { _ in .init(toSender: [0x40, 1, 0], toOthers: [0x30, 1, 0]) }
        ),
    ]

    @Test(arguments: mqttFaults.indices)
    func `faults of an MQTT broker are reported`(index: Int) throws {
        let fault = Self.mqttFaults[index]
        let broker = try StrangeBroker(.mqtt, fault.words)
        let (run, text) = try run(
            broker, "fanout -V mqtt311 -c 1 -F 1 -q \(fault.qos)")
        #expect(run.hasEndedInOrder, "\(fault.name): \(text)")
        #expect(text.contains(fault.says), "\(fault.name): \(text)")
    }

    private static let mrtFaults: [(name: String, says: String, words: Strangeness)] = [
        (
            "confirms what was never sent", "not on its way",
            { _ in .init(toSender: encode(MRT.SendResult(number: 40))) }
        ),
        (
            "confirms the largest number", "not on its way",
            { _ in .init(toSender: encode(MRT.SendResult(number: 1 << 62))) }
        ),
        (
            "confirms twice", "not on its way",
            { _ in
                let result = encode(MRT.SendResult(number: 1))
                return .init(toSender: result + result)
            }
        ),
        (
            "accepts logins twice", "accepted a login twice",
            { _ in .init(toOthers: StrangeBroker.accepted) }
        ),
    ]

    @Test(arguments: mrtFaults.indices)
    func `faults of an MRT broker are reported`(index: Int) throws {
        let fault = Self.mrtFaults[index]
        let broker = try StrangeBroker(.mrt, fault.words)
        let (run, text) = try run(broker, "fanout -c 1 -F 1 -q 1")
        #expect(run.hasEndedInOrder, "\(fault.name): \(text)")
        #expect(text.contains(fault.says), "\(fault.name): \(text)")
    }

    @Test(arguments: [0, 65, 300])
    func `an invalid group id is reported`(byteCount: Int) throws {
        let broker = try StrangeBroker(
            .mrt, granted: [UInt8](repeating: 0x67, count: byteCount)
        ) { _ in .init() }
        let (run, text) = try run(broker, "group -c 1")
        #expect(run.hasEndedInOrder, "\(text)")
        #expect(text.contains("no group's name"), "\(text)")
    }

    @Test func `with arbitrary bytes from a broker the run ends in order`() throws {
        for seed in UInt64(0)..<24 {
            let broker = try StrangeBroker(seed % 2 == 0 ? .mqtt : .mrt) { publication in
                var random = SeededBytes(seed: seed)
                // Whole packets of every type, among them the publication itself, bent.
                func noise() -> [UInt8] {
                    (0..<40).flatMap { _ -> [UInt8] in
                        if random.next() < 40 {
                            var bent = publication
                            bent[0] = 0x30 | random.next() & 0x07
                            bent[Int(random.next()) % bent.count] ^= 1 << (random.next() & 7)
                            return bent
                        }
                        let body = (0..<random.next() % 12).map { _ in random.next() & 0x0F }
                        return [random.next(), UInt8(body.count)] + body
                    }
                }
                return .init(toSender: noise(), toOthers: noise())
            }
            let dialect = seed % 2 == 0 ? "mqtt311" : "mrt"
            let (run, text) = try run(
                broker, "fanout -V \(dialect) -c 2 --publishers 2 -F 4 -q \(seed / 2 % 2)",
                seconds: 1)
            #expect(run.hasEndedInOrder, "seed \(seed): \(text)")
        }
    }

    // MARK: - Signals

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP])
    func `an interrupted run disconnects every client normally`(signal: Int32) throws {
        let broker = try StrangeBroker(.mqtt) { _ in .init() }
        broker.start()
        defer { broker.stop() }
        let run = try Run([
            "connect", "-V", "mqtt311", "-c", "5", "--seconds", "600", "-h", "127.0.0.1", "-p",
            "\(broker.port)", "--quiet",
        ])
        while broker.loginCount < 5, run.process.isRunning { poll(nil, 0, 10) }
        kill(run.process.processIdentifier, signal)
        let text = try run.end()
        #expect(run.hasEndedInOrder, "\(text)")
        #expect(run.process.terminationStatus == 128 + signal, "\(text)")
        #expect(text.contains("ended by"), "\(text)")
        for _ in 0..<6_000 where broker.goodbyeCount < 5 { poll(nil, 0, 10) }
        #expect(broker.goodbyeCount == 5)
    }

    @Test func `an interrupted comparison leaves no broker and no file`() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let run = try Run([
            "compare", "--subjects", "martlet", "--seconds", "600",
            root.appending(path: "Bench/Scenarios/smoke.json5").path,
        ])
        var broker: (process: pid_t, directory: String)?
        while broker == nil, run.process.isRunning {
            poll(nil, 0, 20)
            broker = Self.broker(of: run.process.processIdentifier)
        }
        let found = try #require(broker)
        kill(run.process.processIdentifier, SIGTERM)
        let text = try run.end()
        #expect(run.process.terminationStatus == 128 + SIGTERM, "\(text)")
        #expect(kill(found.process, 0) == -1 && errno == ESRCH)
        #expect(!FileManager.default.fileExists(atPath: found.directory))
    }

    /// The broker that a comparison has started, and the directory of all that it made.
    private static func broker(of parent: pid_t) -> (pid_t, String)? {
        let path = "/proc/\(parent)/task/\(parent)/children"
        guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return nil }
        for word in text.split(separator: " ") {
            guard let process = pid_t(word),
                let line = try? String(
                    contentsOfFile: "/proc/\(process)/cmdline", encoding: .utf8),
                let start = line.range(of: "/tmp/martlet-bench-")
            else { continue }
            let name = line[start.lowerBound...].dropFirst("/tmp/".count).prefix { $0 != "/" }
            return (process, "/tmp/\(name)")
        }
        return nil
    }
}
