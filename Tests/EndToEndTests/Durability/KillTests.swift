// The guarantee under kill -9: acknowledged messages arrive; *once* never twice, *durable* twice
// only with a mark; numbers never decrease.

import Foundation
import MartletClient
import Synchronization
import TestSurroundings
import Testing
import class Threads.Locked

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct KillTests {
        private static let killCount = 10
        /// Sends that are acknowledged between two kills, so that there is something to lose.
        private static let sendsBetweenKills = 400

        @Test func `a broker that is killed repeatedly loses no acknowledged message`()
            async throws
        {
            let broker = try await TestBroker()
            let steady = Receiver("steady")
            let restless = Receiver("restless")
            // Known before anybody sends.
            for receiver in [steady, restless] {
                try await receiver.open(broker)
            }
            let load = Load(receivers: [steady.user, restless.user])
            var senders: [Task<Void, any Error>] = []
            for number in 0..<2 {
                let client = try await broker.client("sender-\(number)")
                for loop in 0..<16 {
                    senders.append(Task { try await load.run(client, "\(number)-\(loop)") })
                }
            }
            for kill in 1...Self.killCount {
                try await load.waitForAcknowledged(kill * Self.sendsBetweenKills)
                try await broker.killNow()
                try await broker.start()
                // One of the receivers is an application that crashes with the broker.
                try await restless.reopen(broker)
            }
            load.stop()
            for sender in senders { try await sender.value }
            for receiver in [steady, restless] {
                let wanted = load.acknowledged(to: receiver.user)
                try await receiver.waitFor(wanted)
                #expect(receiver.violations == [])
                #expect(wanted.count > Self.killCount * Self.sendsBetweenKills / 4)
                await receiver.close()
            }
            try await broker.stop()
            #expect(try await broker.verifyStore() == .code(0))
        }

        /// Lives that end at a call that writes or syncs: at the first, the second, and so on from
        /// the start of the process. More by MARTLET_FATAL_CALLS.
        private static let fatalCallCount =
            ProcessInfo.processInfo.environment["MARTLET_FATAL_CALLS"].flatMap { Int($0) } ?? 16

        @Test func `a broker that is killed at every write and sync loses nothing`()
            async throws
        {
            let broker = try await TestBroker()
            let steady = Receiver("steady")
            try await steady.open(broker)
            let load = Load(receivers: [steady.user])
            let settings = try (0...Self.fatalCallCount).map { try broker.settings("sender-\($0)") }
            var senders: [Task<Void, any Error>] = []
            let first = try await connected(Client(settings[0]))
            senders.append(Task { try await load.run(first, "0") })
            try await load.waitForAcknowledged(50)
            try await broker.killNow()
            for call in 1...Self.fatalCallCount {
                // Each life has a new client: the others take their time to come back.
                try await broker.live(with: DiskFaults(killAt: call)) {
                    senders.append(
                        Task {
                            let client = try Client(settings[call])
                            _ = try await client.connect()
                            try await load.run(client, "\(call)")
                        })
                }
            }
            try await broker.start()
            try await load.waitForAcknowledged(load.count + 50)
            load.stop()
            for sender in senders { try await sender.value }
            try await steady.waitFor(load.acknowledged(to: steady.user))
            #expect(steady.violations == [])
            await steady.close()
            try await broker.stop()
            #expect(try await broker.verifyStore() == .code(0))
        }
    }
}

/// Sends without end, and remembers what was acknowledged with reason 1.
private final class Load: Sendable {
    private struct State {
        var acknowledged: [String: Set<String>] = [:]
        var count = 0
        var waiter: (count: Int, CheckedContinuation<Void, Never>)?
    }

    private let receivers: [String]
    private let state = Locked(State())
    private let isStopped = Atomic(false)

    init(receivers: [String]) {
        self.receivers = receivers
    }

    var count: Int { state.withLock { $0.count } }

    func stop() { isStopped.store(true, ordering: .relaxed) }

    func acknowledged(to user: String) -> Set<String> {
        state.withLock { $0.acknowledged[user]?.unshared ?? [] }
    }

    /// One message after the other, of both grades, to both receivers. A text begins with its
    /// grade.
    func run(_ client: Client, _ name: String) async throws {
        var number = 0
        while !isStopped.load(ordering: .relaxed) {
            number += 1
            let grade: Grade = number % 2 == 0 ? .durable : .once
            let user = receivers[number / 2 % receivers.count]
            let text = "\(grade) \(name) \(number)"
            try await client.send(OutgoingMessage(to: .user(user), text: text, grade: grade))
            note(text, user)
        }
    }

    private func note(_ text: String, _ user: String) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            state.acknowledged[user, default: []].insert(text)
            state.count += 1
            guard let (count, waiter) = state.waiter, state.count >= count else { return nil }
            state.waiter = nil
            return waiter
        }
        waiter?.resume()
    }

    func waitForAcknowledged(_ count: Int) async throws {
        try await within(seconds: 60, "\(count) acknowledged sends") { [self] in
            await withTaskCancellationHandler {
                await withCheckedContinuation { continuation in
                    let isReached = state.withLock { state in
                        if state.count >= count || Task.isCancelled { return true }
                        state.waiter = (count, continuation)
                        return false
                    }
                    if isReached { continuation.resume() }
                }
            } onCancel: {
                state.withLock { state in
                    defer { state.waiter = nil }
                    return state.waiter
                }?.1.resume()
            }
        }
    }
}

/// An application that receives, and holds the broker to its promises.
private final class Receiver: Sendable {
    private struct State {
        var received: Set<String> = []
        var record: InboxRecord?
        var violations: [String] = []
        var wanted: Set<String>?
        var waiter: CheckedContinuation<Void, Never>?
        var client: Client?
        var reader: Task<Void, Never>?
    }

    let user: String
    private let state = Locked(State())

    init(_ user: String) {
        self.user = user
    }

    var violations: [String] { state.withLock { $0.violations.unshared } }

    func open(_ broker: TestBroker) async throws {
        var settings = try broker.settings(user)
        settings.acknowledgement = .byApplication
        settings.inbox = state.withLock { $0.record }
        let client = try await connected(Client(settings))
        let reader = Task { [self] in
            for await event in client.events {
                guard case .message(let message) = event else { continue }
                take(message)
                client.acknowledge(message)
            }
        }
        state.withLock { state in
            state.client = client
            state.reader = reader
        }
    }

    /// Ends without having acknowledged what it took last, and resumes from its own record.
    func reopen(_ broker: TestBroker) async throws {
        await close()
        try await open(broker)
    }

    func close() async {
        let (client, reader) = state.withLock { state in
            defer { (state.client, state.reader) = (nil, nil) }
            return (state.client, state.reader)
        }
        await client?.close()
        await reader?.value
    }

    /// Stores effect and record in one step, as an application would in one transaction.
    private func take(_ message: IncomingMessage) {
        let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard let record = message.record else {
                state.violations.append("a transient message: \(message.text)")
                return nil
            }
            if let before = state.record {
                if record.epoch != before.epoch {
                    state.violations.append("another epoch at \(message.text)")
                } else if record.number <= before.number {
                    state.violations.append("\(record.number) after \(before.number)")
                }
            }
            state.record = record
            let isNew = state.received.insert(message.text).inserted
            if !isNew, !message.isPossibleDuplicate || message.grade == .once {
                state.violations.append("twice: \(message.text)")
            }
            guard let wanted = state.wanted, wanted.isSubset(of: state.received) else { return nil }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }

    func waitFor(_ wanted: Set<String>) async throws {
        do {
            // After many kills a client waits up to two minutes before it connects again.
            try await within(seconds: 60, "all messages") { [self] in await wait(wanted) }
        } catch {
            let missing = state.withLock { wanted.subtracting($0.received) }
            throw TestFailure("\(user) lacks \(missing.count): \(missing.sorted().prefix(5))")
        }
    }

    private func wait(_ wanted: Set<String>) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isThere = state.withLock { state in
                    state.wanted = wanted
                    if wanted.isSubset(of: state.received) || Task.isCancelled { return true }
                    state.waiter = continuation
                    return false
                }
                if isThere { continuation.resume() }
            }
        } onCancel: {
            state.withLock { state in
                defer { state.waiter = nil }
                return state.waiter
            }?.resume()
        }
    }
}
