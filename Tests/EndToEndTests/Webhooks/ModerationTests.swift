// Moderation through the relay: a real martletd, a real relay, and an endpoint that accepts,
// refuses, rewrites, stalls and answers nonsense, while brokers and relays are killed.

import Foundation
import MartletClient
import TestSurroundings
import Testing

import class Threads.Locked

extension EndToEndWebTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct ModerationTests {
        /// - Parameter milliseconds: how long a message waits. By default as long as the broker
        ///   permits: a process may be paused for seconds.
        private static func settings(milliseconds: Int = 10_000) -> String {
            #"apps=[{app: "demo", moderation: {moderator: "relay", "#
                + #"milliseconds: \#(milliseconds), topics: ["chat/#"]}}]"#
        }

        private static func decider(
            _ receiver: WebhookReceiver, _ more: String = #"silent: "refuse","#
        ) -> String {
            """
            deciders: [{
              name: "words", url: "http://127.0.0.1:\(receiver.port)/q", secretFiles: [SECRETS],
              timeoutMilliseconds: 8000, \(more)
            }],
            """
        }

        /// What became of a message: nil if it was accepted.
        private static func send(_ client: Client, _ text: String, to user: String = "alice")
            async throws -> ReasonCode?
        {
            do throws(MartletError) {
                try await client.send(
                    OutgoingMessage(to: .user(user), text: text, grade: .once))
                return nil
            } catch {
                guard case .refused(let reason, _) = error else { throw error }
                return reason
            }
        }

        @Test(arguments: [false, true])
        func `an endpoint accepts, refuses and rewrites`(usesLibrary: Bool) async throws {
            guard !usesLibrary || WebhookReceiver.hasLibrary else { return }
            let broker = try await TestBroker(Self.settings())
            let receiver = try await WebhookReceiver(usesLibrary: usesLibrary, secretCount: 2)
            let relay = try await TestRelay(
                broker, command: "webhook", settings: Self.decider(receiver))
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            #expect(try await Self.send(bob, "fine 1") == nil)
            #expect(try await Self.send(bob, "bad 2") == .implementationSpecificError)
            #expect(try await Self.send(bob, "shout 3") == nil)
            for text in ["nonsense 4", "wrong 5", "other 6", "huge 7", "stall 8", "error 9"] {
                #expect(try await Self.send(bob, text) == .quotaExceeded, "\(text)")
            }
            #expect(try await Self.send(bob, "fine 10") == nil)
            #expect(try await alice.nextTexts(3) == ["fine 1", "quiet 3", "fine 10"])
            #expect(!receiver.process.text.contains("fault"))
            _ = try await relay.process!.line(with: "event=decider_silent decider=words")
            #expect(try broker.counter("moderation/refused") == 1)
            #expect(try broker.counter("moderation/rewritten") == 1)
            _ = try await relay.stop()
            #expect(
                relay.text.contains(
                    "accepted=2 refused=1 rewritten=2 silent=5 verdicts_untaken=1"))
            #expect(!relay.hasToldSecret)
            await bob.close()
            await alice.close()
        }

        @Test func `silence accepts where the file says so, and delays nobody else`() async throws {
            let broker = try await TestBroker(Self.settings())
            let receiver = try await WebhookReceiver(secretCount: 2)
            let relay = try await TestRelay(
                broker, command: "webhook",
                settings: """
                    deciders: [
                      { name: "deaf", url: "http://127.0.0.1:1/", secretFiles: [SECRET],
                        topics: ["chat/#"], silent: "accept", timeoutMilliseconds: 200 },
                      { name: "words", url: "http://127.0.0.1:\(receiver.port)/q",
                        secretFiles: [SECRETS], kinds: ["message.user"], silent: "refuse",
                        timeoutMilliseconds: 8000 },
                    ],
                    """)
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            try await alice.subscribe(to: "chat/#")
            for number in 1...10 {
                try await bob.send(
                    OutgoingMessage(to: .topic("chat/a"), .bytes(Array("\(number)".utf8))))
                #expect(try await Self.send(bob, "fine \(number)") == nil)
            }
            var texts: [String] = []
            for _ in 0..<20 {
                let message = try await alice.nextMessage()
                alice.acknowledge(message)
                if !message.text.isEmpty { texts.append(message.text) }
            }
            #expect(texts == (1...10).map { "fine \($0)" })
            _ = try await relay.stop()
            await bob.close()
            await alice.close()
        }

        @Test func `a message over HTTP waits for its verdict`() async throws {
            let broker = try await TestBroker(
                Self.settings(), listeners: ["https://localhost:0"])
            let port = try await broker.port("https")
            let receiver = try await WebhookReceiver(secretCount: 2, slowMilliseconds: 50)
            let relay = try await TestRelay(
                broker, command: "webhook", settings: Self.decider(receiver))
            let alice = try await broker.client("alice")
            let token = try broker.token("bob")
            let authority = broker.authority
            @Sendable func post(_ text: String, _ query: String = "") async throws -> String {
                let curl = try ChildProcess(
                    "/usr/bin/curl",
                    [
                        "-sS", "--cacert", authority, "-H", "Authorization: Bearer \(token)",
                        "-H", "Content-Type: application/json", "-w", "status=%{http_code}\n", "-d",
                        #"{"users":["alice"],"b":"\#(text)"}"#,
                        "https://localhost:\(port)/api/v1/messages\(query)",
                    ])
                guard try await curl.exit() == .code(0) else { throw TestFailure(curl.text) }
                return curl.text
            }
            #expect(try await post("fine 1").contains("status=200"))
            let refused = try await post("bad 2")
            #expect(refused.contains("status=422"))
            #expect(refused.contains("no such words") && refused.contains("-4408"))
            let rewritten = try await post("shout 3")
            #expect(rewritten.contains("status=200") && rewritten.contains(#""verdict":5"#))
            #expect(try await post("nonsense 4").contains("status=507"))
            #expect(try await post("fine 5", "?wait=0").contains("status=202"))
            // Many at once, of which the released ones share commits.
            try await withThrowingTaskGroup(of: String.self) { group in
                for number in 6..<26 { group.addTask { try await post("fine \(number)") } }
                for try await answer in group { #expect(answer.contains("status=200")) }
            }
            let texts = try await alice.nextTexts(23)
            #expect(Set(texts) == Set(["quiet 3", "fine 1"] + (5..<26).map { "fine \($0)" }))
            _ = try await relay.stop()
            try await broker.stop()
            await alice.close()
        }

        @Test func `messages that are held survive no kill, and accepted ones arrive once`()
            async throws
        {
            // Messages that a killed relay was asked about wait until the time is over.
            let broker = try await TestBroker(Self.settings(milliseconds: 6_000))
            let receiver = try await WebhookReceiver(secretCount: 2, slowMilliseconds: 400)
            let relay = try await TestRelay(
                broker, command: "webhook", settings: Self.decider(receiver))
            let alice = try await broker.client("alice")
            let received = Locked<[(text: String, time: UInt64)]>([])
            let listening = Task {
                for await event in alice.events {
                    guard case .message(let message) = event else { continue }
                    received.withLock { $0.append((message.text, Self.monotonicNanoseconds)) }
                    alice.acknowledge(message)
                }
            }
            var clients: [Client] = []
            for number in 0..<4 { clients.append(try await broker.client("u\(number)")) }
            var outcomes: [String: ReasonCode?] = [:]
            for round in 0..<8 {
                let seen = receiver.process.lines.count
                try await withThrowingTaskGroup(of: (String, ReasonCode?).self) { group in
                    for (index, client) in clients.enumerated() {
                        for (place, word) in ["fine", "bad", "fine"].enumerated() {
                            let text = "\(word) \(index)-\(round)-\(place)"
                            group.addTask { (text, try await Self.send(client, text)) }
                        }
                    }
                    // Messages are held now.
                    _ = try await receiver.process.line(with: "question ", from: seen)
                    if round % 2 == 0 {
                        try await relay.kill()
                        try await relay.start()
                    } else {
                        // It is connected: the next line about that is of another login.
                        let told = relay.process!.lines.count
                        try await broker.killNow()
                        try await broker.start()
                        _ = try await relay.process!.line(with: "event=connected", from: told)
                    }
                    for try await (text, reason) in group { outcomes[text] = reason }
                }
            }
            let accepted = Set(outcomes.filter { $0.value == nil }.keys)
            #expect(outcomes.count == 96)
            #expect(!accepted.isEmpty && accepted.allSatisfy { $0.hasPrefix("fine") })
            #expect(try await Self.send(clients[0], "fine last") == nil)
            // After some kills a client waits up to two minutes before it connects again.
            try await eventually(within: 100, "the last message") {
                received.withLock { $0.contains { $0.text == "fine last" } }
            }
            let all = received.withLock { $0 }
            #expect(Set(all.map(\.text)) == accepted.union(["fine last"]))
            #expect(all.count == accepted.count + 1)
            for (text, time) in all {
                let decided = try await Self.timeOfDecision(text, receiver)
                #expect(decided != nil && decided! <= time, "\(text)")
            }
            #expect(!receiver.process.text.contains("fault"))
            for client in clients { await client.close() }
            await alice.close()
            _ = await listening.value
            try await broker.stop()
            _ = try await broker.verifyStore()
        }

        private static var monotonicNanoseconds: UInt64 {
            var time = timespec()
            clock_gettime(CLOCK_MONOTONIC, &time)
            return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
        }

        /// When the endpoint first decided on a text.
        private static func timeOfDecision(
            _ text: String, _ receiver: WebhookReceiver
        ) async throws -> UInt64? {
            // The line was written before the answer, and may be read after the message.
            let line = try await receiver.process.line(with: "decided at=", "text=\(text).")
            return line.firstMatch(of: /at=([0-9]+)/).flatMap { UInt64($0.output.1) }
        }
    }
}
