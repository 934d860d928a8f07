// The bridge's guarantee: Mosquitto, martletd and the bridge are killed in turn while messages flow
// in both directions. No acknowledged message is lost, order is kept, and messages of grade *once*,
// or QoS 2, arrive once.

import Foundation
import MartletClient
import TestSurroundings
import Testing
import class Threads.Locked

/// What a receiver has got, in order.
final class Inbox: Sendable {
    private struct State {
        var texts: [String] = []
        var waiters: [(isDone: @Sendable ([String]) -> Bool, AsyncStream<Void>.Continuation)] = []
    }

    private let state = Locked(State())

    var all: [String] { state.withLock { $0.texts.unshared } }

    /// Takes what a client receives, for as long as it is asked to.
    func fill(from client: Client) async {
        for await event in client.events {
            guard case .message(let message) = event else { continue }
            state.withLock { state in
                state.texts.append(message.text)
                let texts = state.texts
                state.waiters.removeAll { isDone, waiter in
                    guard isDone(texts) else { return false }
                    waiter.finish()
                    return true
                }
            }
            client.acknowledge(message)
        }
    }

    func wait(until isDone: @escaping @Sendable ([String]) -> Bool) async throws {
        let (stream, waiter) = AsyncStream<Void>.makeStream()
        state.withLock { state in
            if isDone(state.texts) {
                waiter.finish()
            } else {
                state.waiters.append((isDone, waiter))
            }
        }
        try await within(seconds: 60, "messages") {
            for await _ in stream {}
            try Task.checkCancellation()
        }
    }

    /// Waits for all of these texts. Each that arrives is looked at once.
    func wait(forAll texts: Set<String>) async throws {
        let search = Locked((missing: texts, count: 0))
        try await wait { texts in
            search.withLock { search in
                search.missing.subtract(texts[search.count...])
                search.count = texts.count
                return search.missing.isEmpty
            }
        }
    }
}

extension [String] {
    /// Without those that have come before.
    var withoutRepetitions: [String] {
        var seen: Set<String> = []
        return filter { seen.insert($0).inserted }
    }

    func beginning(with prefix: String) -> [String] { filter { $0.hasPrefix(prefix) } }
}

/// Both brokers with the bridge between them, and who sends and receives on either side.
final class Crossing {
    /// Messages of each grade and direction in a step.
    static let messageCount = 60

    let broker: TestBroker
    let mosquitto: Mosquitto
    let wire: Wire
    /// The bridge's way to Martlet.
    let ownWire: Wire
    let bridge: TestBridge
    private let bob: Client
    private let inbox = Inbox()
    private var filling: Task<Void, Never>?
    /// What has been sent, in order, without its grade.
    private(set) var sent: [String] = []
    /// Steps in which messages were under way when the kill came.
    private(set) var busyCount = 0
    /// Of each message that leaves for Mosquitto, what went wrong.
    private var failures: [AsyncStream<String>] = []

    /// - Parameter inFlight: publications that Mosquitto and the bridge have under way at a time;
    ///   nil for what they have by default.
    init(version: String, inFlight: Int? = nil) async throws {
        broker = try await TestBroker()
        mosquitto = try await Mosquitto(extra: inFlight.map { ["max_inflight_messages \($0)"] })
        wire = try Wire(to: mosquitto.port)
        ownWire = try Wire(to: broker.tlsPort)
        let sink = try await broker.client("sink")
        bob = try await broker.client("bob")
        // A subscriber that is away until the end: what reaches Mosquitto waits there.
        let first = try mosquitto.client("sub", "-c", "-i", "drain", "-q", "2", "-t", "out/#", "-E")
        #expect(try await first.exit() == .code(0))
        bridge = try await TestBridge(
            broker, port: wire.port, martletPort: ownWire.port,
            rules: """
                packetMaximumBytes: 65536,
                toMartlet: [{ from: "in/+", to: { user: "sink" } }],
                toMqtt: [
                  { from: { inbox: "*" }, to: "out/{from}" },
                  { from: { topic: "finished" }, to: "finished" },
                ],
                """, version: version, foreign: inFlight.map { "inFlight: \($0)," } ?? "")
        try await bridge.waitForSubscriptions("mqtt", "martlet")
        let inbox = inbox
        filling = Task { await inbox.fill(from: sink) }
    }

    deinit { filling?.cancel() }

    var received: [String] { inbox.all }

    /// Messages of both grades into Mosquitto, which has acknowledged them when this returns.
    func publish(_ names: [String]) async throws {
        sent += names
        try await mosquitto.publish("in/once", lines: names.map { "once \($0)" }, qos: 2)
        try await mosquitto.publish("in/durable", lines: names.map { "durable \($0)" }, qos: 1)
    }

    /// Messages of both grades to the bridge's user. The SDK sends again what has no result.
    func sendOut(_ names: [String]) {
        for text in names.flatMap({ ["once \($0)", "durable \($0)"] }) {
            let (stream, done) = AsyncStream<String>.makeStream()
            let grade: Grade = text.hasPrefix("once") ? .once : .durable
            bob.send(OutgoingMessage(to: .user("gate"), text: text, grade: grade)) {
                if case .failure(let error) = $0 { done.yield("\(text): \(error)") }
                done.finish()
            }
            failures.append(stream)
        }
    }

    /// What was handed in for Mosquitto alone.
    func note(_ names: [String]) { sent += names }

    private func wait(
        _ what: String, _ isDone: @escaping @Sendable ([String]) -> Bool
    ) async throws {
        try await explain(what) { try await inbox.wait(until: isDone) }
    }

    /// Waits until all of these texts have crossed to Martlet.
    func wait(_ what: String, forAll texts: Set<String>) async throws {
        try await explain(what) { try await inbox.wait(forAll: texts) }
    }

    private func explain(_ what: String, _ wait: () async throws -> Void) async throws {
        do {
            try await wait()
        } catch {
            throw TestFailure(
                "\(what): \(error)\n\(received.suffix(5))\n\(bridge.process!.text)\n"
                    + mosquitto.process.lines.suffix(20).joined(separator: "\n"))
        }
    }

    /// Messages flow both ways, `kill` happens in their midst, and all that was published arrives.
    func step(_ step: Int, kill: () async throws -> Void) async throws {
        let names = (0..<Self.messageCount).map { "\(step).\($0)" }
        let all = Set(names.flatMap { ["once \($0)", "durable \($0)"] })
        let before = received.count
        // Everything waits for the bridge before it moves: so it is busy when the kill comes.
        bridge.process!.signal(SIGSTOP)
        sendOut(names)
        try await publish(names)
        bridge.process!.signal(SIGCONT)
        try await wait("step \(step)") { $0.count >= before + Self.messageCount / 6 }
        if received.count < before + all.count { busyCount += 1 }
        try await kill()
        // What is published while Mosquitto empties a queue may overtake it there (2.0.11).
        try await wait("rest of step \(step)", forAll: all)
    }

    /// What has reached Mosquitto, once every message has.
    func drain() async throws -> [String] {
        for stream in failures { for await failure in stream { Issue.record("\(failure)") } }
        // Messages leave in order: when the last is there, all others are.
        let last = try await mosquitto.subscriber("-t", "finished")
        try await bob.send(OutgoingMessage(to: .user("gate"), text: "once end", grade: .once))
        try await bob.send(OutgoingMessage(to: .topic("finished"), .bytes([0x31]), grade: .once))
        _ = try await last.line(with: "finished 2 1")
        last.signal(SIGKILL)
        let drain = try mosquitto.client(
            "sub", "-c", "-i", "drain", "-q", "2", "-t", "out/#", "-F", "%p")
        _ = try await drain.line(with: "once end")
        drain.signal(SIGKILL)
        return drain.lines
    }
}

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct BridgeKillTests {
        /// Each round kills all three.
        private static let roundCount = 2

        @Test(arguments: ["3.1.1", "5"])
        func `killing either broker or the bridge loses, duplicates and reorders no message`(
            version: String
        ) async throws {
            let crossing = try await Crossing(version: version)
            var step = 0
            // On a busy machine all messages of a step may arrive before the kill: then further
            // steps follow.
            while step < Self.roundCount * 3
                || (crossing.busyCount <= Self.roundCount * 2 && step < Self.roundCount * 9)
            {
                let kind = step % 3
                try await crossing.step(step) {
                    switch kind {
                    case 0:
                        try await crossing.bridge.kill()
                        try await crossing.bridge.start()
                    case 1:
                        try await crossing.mosquitto.kill(behind: crossing.wire)
                        try await crossing.mosquitto.start()
                    default:
                        try await crossing.broker.killNow()
                        try await crossing.broker.start()
                    }
                }
                step += 1
            }
            #expect(crossing.busyCount > Self.roundCount * 2)
            let wanted = crossing.sent
            #expect(wanted.count == step * Crossing.messageCount)
            let received = crossing.received
            #expect(received.beginning(with: "once") == wanted.map { "once \($0)" })
            #expect(
                received.beginning(with: "durable").withoutRepetitions
                    == wanted.map { "durable \($0)" })
            let drained = try await crossing.drain()
            #expect(drained.beginning(with: "once") == (wanted + ["end"]).map { "once \($0)" })
            #expect(
                drained.beginning(with: "durable").withoutRepetitions
                    == wanted.map { "durable \($0)" })
            let total = try await crossing.bridge.stop()
            #expect(total("refused_to_martlet") == 0)
            #expect(total("refused_to_mqtt") == 0)
        }

        /// The same load and the same judgement find a bridge that forgets what it was doing.
        @Test func `a bridge without its record duplicates messages of grade once`() async throws {
            let crossing = try await Crossing(version: "5")
            var step = 0
            func hasRepetition() -> Bool {
                let once = crossing.received.beginning(with: "once")
                return once.count > Set(once).count
            }
            // Each kill meets some twenty messages that are under way; on a busy machine it may
            // come too late.
            while step < 20, !hasRepetition() {
                try await crossing.step(step) {
                    try await crossing.bridge.kill()
                    try crossing.bridge.forget()
                    try await crossing.bridge.start()
                }
                step += 1
            }
            #expect(hasRepetition())
        }

        /// Why Mosquitto is made to save before it is killed above: what docs/operating/bridge.md
        /// says of it is so.
        @Test func `messages that Mosquitto has not saved when it is killed are lost`() async throws
        {
            let crossing = try await Crossing(version: "5")
            // Its session is saved, and what comes while the bridge is away is not.
            try await crossing.mosquitto.save()
            try await crossing.bridge.kill()
            try await crossing.publish(["lost"])
            crossing.mosquitto.process.signal(SIGKILL)
            _ = try await crossing.mosquitto.process.exit()
            try await crossing.mosquitto.start()
            try await crossing.bridge.start()
            try await crossing.publish(["kept"])
            try await crossing.wait("what is kept", forAll: ["once kept", "durable kept"])
            #expect(Set(crossing.received) == ["once kept", "durable kept"])
        }
    }
}
