// No descriptors left: connected clients continue, new ones wait, and no restart is needed.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct DescriptorTests {
        @Test func `a broker without descriptors serves its clients, and accepts others later`()
            async throws
        {
            // Those who say nothing are not to be sent away meanwhile.
            let broker = try await TestBroker("limits.authenticationSeconds=600")
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            let lateSettings = try broker.settings("late")
            let pauses = try broker.counter("sockets/accept_pauses")
            let spare = 6
            // Some that are counted may be closed before the limit is set.
            let crowdCount = 64
            let limit = try broker.descriptorCount() + spare
            try await broker.limit("nofile", to: limit)

            var crowd = try (0..<crowdCount).map { _ in try RawSocket(port: broker.plainPort) }
            _ = try await broker.process.line(with: "event=accept_paused")
            #expect(crowd.allSatisfy { !$0.isClosed }, "they wait, nobody is turned away")
            let letIn = try Client(lateSettings)
            // It waits for all that follows.
            let late = Task {
                try await within(seconds: 60, "a connection") { try await letIn.connect() }
            }
            for number in 1...20 {
                try await alice.send(OutgoingMessage(to: .user("bob"), text: "\(number)"))
                #expect(try await bob.nextTexts(1) == ["\(number)"])
            }
            // A reload needs descriptors: it fails in words, and the old settings stay.
            broker.process.signal(SIGHUP)
            _ = try await broker.process.line(with: "event=configuration_refused")
            // A loop that asked again and again would take all of the processor.
            let share = try await broker.processorShare(seconds: 2)
            #expect(share < 0.25, "\(share) of a processor while it waits")

            crowd.removeAll()
            _ = try await late.value
            try await letIn.send(OutgoingMessage(to: .user("bob"), text: "in"))
            #expect(try await bob.nextTexts(1) == ["in"])
            #expect(try broker.counter("sockets/accept_pauses") > pauses)
            #expect(try broker.counter("sockets/refused") == 0)
            // As many as before, which no attempt has leaked any of.
            try await eventually("the end of the crowd") { try broker.crowdIsGone() }
            broker.process.signal(SIGHUP)
            _ = try await broker.process.line(with: "event=configuration_reloaded")
            try await broker.stop()
        }
    }
}

extension TestBroker {
    /// Lowers one of the limits of the broker's process, in the words of prlimit(1).
    func limit(_ resource: String, to value: Int) async throws {
        let tool = try ChildProcess(
            "/usr/bin/prlimit", ["--pid=\(process.identifier)", "--\(resource)=\(value):"])
        guard try await tool.exit() == .code(0) else { throw TestFailure(tool.text) }
    }

    func descriptorCount() throws -> Int {
        try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process.identifier)/fd").count
    }

    fileprivate func crowdIsGone() throws -> Bool { try counter("sockets/pending") == 0 }

    /// How much of one processor the broker takes for a while.
    fileprivate func processorShare(seconds: Double) async throws -> Double {
        let (before, start) = (try processorSeconds(), ContinuousClock.now)
        await Deadline(seconds: seconds).wait()
        let taken = try processorSeconds() - before
        // The wait is longer where this process stands still.
        return taken / ((ContinuousClock.now - start) / .seconds(1))
    }

    private func processorSeconds() throws -> Double {
        let text = try String(contentsOfFile: "/proc/\(process.identifier)/stat", encoding: .utf8)
        // Behind the name, which may have spaces: fields 14 and 15 are utime and stime [proc(5)].
        let fields = text[text.lastIndex(of: ")")!...].split(separator: " ")
        return Double(Int(fields[12])! + Int(fields[13])!) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }
}
