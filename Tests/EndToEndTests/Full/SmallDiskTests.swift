// A disk that fills with rows: groups with long lists and texts, tokens and subscriptions. Growth
// is refused by name, removals continue, and confirmed changes outlive the process.

import MartletClient
import Primitives
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(
        .timeLimit(.minutes(4 * Sanitizer.patience)),
        .enabled(if: SmallDisk.canBeMounted, "mounting a small disk needs a privilege"))
    struct SmallDiskTests {
        private static let waitingCount = 50
        /// The longest list that there is, and names as long as they may be.
        private static let list = (1_000..<2_000).map { number in
            "\(number)" + String(repeating: "x", count: 60)
        }

        /// What was confirmed.
        private struct Confirmed {
            /// The texts of groups by their ids.
            var groups: [String: String] = [:]
            var topics: [String] = []
            var tokens: [String] = []
        }

        @Test
        func
            `on a disk full of rows the broker refuses, drains, and keeps what it confirmed`()
            async throws
        {
            let disk = try #require(SmallDisk(byteCount: 96 << 20))
            let broker = try await TestBroker(
                settings: [
                    "limits.groupBytesPerApp=\(1 << 30)", "limits.groupBytesPerUser=\(1 << 30)",
                ], on: disk)
            let (ownerSettings, annSettings) = try (
                broker.settings("owner", device: "pc"), broker.settings("ann", device: "phone")
            )
            try await connected(Client(annSettings)).close()
            var owner = try await connected(Client(ownerSettings))
            for number in 1...Self.waitingCount {
                try await owner.send(OutgoingMessage(to: .user("ann"), text: "\(number)"))
            }
            var confirmed = try await fill(broker, owner)
            #expect(confirmed.groups.count > 50)
            print(
                "a full disk: \(confirmed.groups.count) groups, \(confirmed.topics.count) topics, "
                    + "\(confirmed.tokens.count) tokens")

            // It goes on for who is there, and a queue drains.
            let ann = try await connected(Client(annSettings))
            let texts = try await ann.nextTexts(Self.waitingCount)
            #expect(texts == (1...Self.waitingCount).map { "\($0)" })
            try await eventually("a drained store") {
                try broker.counter("messages/stored") == 0
            }
            await ann.close()
            await owner.close()
            try await broker.killNow()
            try await broker.start()

            owner = try await connected(Client(ownerSettings))
            try await check(confirmed, owner)
            // Who leaves makes room, also in a full store.
            for group in confirmed.groups.keys {
                let wasIn = try await owner.leaveGroup(group)
                #expect(wasIn)
            }
            confirmed.groups = try await makeGroup(owner)
            await owner.close()
            try await broker.killNow()
            try await broker.start()
            owner = try await connected(Client(ownerSettings))
            try await check(confirmed, owner)
            for topic in confirmed.topics {
                try await owner.send(OutgoingMessage(to: .topic(topic), text: "heard"))
            }
            let heard = try await owner.nextTexts(confirmed.topics.count)
            #expect(heard.allSatisfy { $0 == "heard" })
            await owner.close()
            try await broker.stop()
            #expect(try await broker.verifyStore() == .code(0))
        }

        /// The broker looks for room by itself, every ten seconds.
        private func makeGroup(_ owner: Client) async throws -> [String: String] {
            let end = ContinuousClock.now + .seconds(60 * Sanitizer.patience)
            while ContinuousClock.now < end {
                do {
                    let group = try await owner.createGroup(
                        title: "", allowing: Self.list, meta: "again")
                    return [group: "again"]
                } catch MartletError.refused(.quotaExceeded, _) {
                    await Deadline(seconds: 0.1).wait()
                }
            }
            throw TestFailure("there is no room again")
        }

        /// Longer rows first, then ever shorter ones, until each kind is refused.
        private func fill(_ broker: TestBroker, _ owner: Client) async throws -> Confirmed {
            var confirmed = Confirmed()
            try await untilRefused(2_000) { number in
                let text = "\(number)" + String(repeating: "m", count: 5_000)
                let group = try await owner.createGroup(title: "", allowing: Self.list, meta: text)
                confirmed.groups[group] = text
            }
            try await untilRefused(2_000) { number in
                let text = "\(number)" + String(repeating: "m", count: 5_000)
                confirmed.groups[try await owner.createGroup(title: "", meta: text)] = text
            }
            try await untilRefused(2_000) { number in
                let topic = "t/\(number)/" + String(repeating: "x", count: 900)
                try await owner.subscribe(to: topic, grade: .durable)
                confirmed.topics.append(topic)
            }
            for number in 0..<5_000 {
                guard let token = try? broker.token("user\(number)") else { return confirmed }
                confirmed.tokens.append(token)
            }
            throw TestFailure("tokens are never refused")
        }

        private func untilRefused(
            _ countMaximum: Int, _ body: (Int) async throws -> Void
        ) async throws {
            for number in 0..<countMaximum {
                do {
                    try await body(number)
                } catch MartletError.refused(let reason, _) {
                    #expect(reason == .quotaExceeded)
                    return
                }
            }
            throw TestFailure("it never fills")
        }

        private func check(_ confirmed: Confirmed, _ owner: Client) async throws {
            let groups = try await owner.groups()
            #expect(Set(groups.map(\.id)) == Set(confirmed.groups.keys))
            for (group, text) in confirmed.groups {
                let details = try await owner.describe(group)
                #expect(details.meta == text)
            }
        }
    }
}
