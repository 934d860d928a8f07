// The guarantee after a loss of power, or on a full disk. The real broker runs with a library
// between it and the disk. The test rebuilds possible disks from its writes, and the real store and
// the real broker must find every acknowledged message there.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct PowerLossTests {
        private static let users = ["ann", "bea", "carl"]
        /// Moments at which the power goes, each with a disk of its own. More by
        /// MARTLET_POWER_LOSSES.
        private static let lossCount =
            ProcessInfo.processInfo.environment["MARTLET_POWER_LOSSES"].flatMap { Int($0) } ?? 300

        @Test func `a store has every acknowledged message after a loss of power at any moment`()
            async throws
        {
            let faults = try DiskFaults(isLogging: true)
            let broker = try await TestBroker(faults: faults)
            try broker.addUsers("ann", "bea", "carl")
            let start = faults.logByteCount()
            let told = try await send(broker, faults)
            try await broker.killNow()
            let log = try faults.log()
            let last = told.map(\.logByteCount).max()!
            var random = SeededRandom(seed: 1)
            // Most of the moments are while messages are under way, the others while the broker
            // starts.
            let cuts = Set(
                (0..<Self.lossCount).map { loss in
                    Int.random(in: loss % 10 == 0 ? 0...start : start...last, using: &random)
                })
            var disk = CachedDisk()
            var images: [(image: DiskContent, cut: Int)] = []
            for record in log.records {
                for cut in cuts
                where record.end > cut && record.end - record.bytes.count - 16 <= cut {
                    let image = disk.withoutPower(&random)
                    try check(image, told.filter { $0.logByteCount <= cut })
                    images.append((image, cut))
                }
                disk.carryOut(record)
            }
            #expect(images.count >= cuts.count - 1)
            for (image, cut) in images.suffix(100).shuffled(using: &random).prefix(2) {
                try await receive(broker, image, told.filter { $0.logByteCount <= cut })
            }
        }

        /// What a sender was told, and what was in the log by then.
        private struct Told {
            var text: String
            var users: [String]
            var logByteCount: Int
        }

        private func send(_ broker: TestBroker, _ faults: DiskFaults) async throws -> [Told] {
            let client = try await broker.client("sender")
            return try await withThrowingTaskGroup(of: [Told].self) { loops in
                for loop in 0..<4 {
                    loops.addTask {
                        var told: [Told] = []
                        for number in 0..<40 {
                            let grade: Grade = number % 2 == 0 ? .once : .durable
                            let text = "\(grade) \(loop) \(number)"
                            let users = Array(Self.users.prefix(1 + number % Self.users.count))
                            try await client.send(
                                OutgoingMessage(to: .users(users), text: text, grade: grade))
                            told.append(
                                Told(
                                    text: text, users: users, logByteCount: faults.logByteCount()))
                        }
                        return told
                    }
                }
                return try await loops.reduce(into: []) { $0 += $1 }
            }
        }

        /// Opens a disk's content with the real store: every message is there for all its
        /// receivers, or for none, which only those may be that were not acknowledged.
        private func check(_ image: DiskContent, _ told: [Told]) throws {
            var counts: [String: Int] = [:]
            for text in try StoreImage(image).texts() { counts[text, default: 0] += 1 }
            for message in told {
                #expect(counts[message.text] == message.users.count, "\(message.text)")
            }
            for (text, count) in counts {
                let number = Int(text.split(separator: " ").last!)!
                #expect(count == 1 + number % Self.users.count, "\(text) is there in part")
            }
        }

        /// Starts the real broker on a disk's content; a user gets what was acknowledged, once.
        private func receive(
            _ broker: TestBroker, _ image: DiskContent, _ told: [Told]
        ) async throws {
            try broker.replaceStore(with: image)
            try await broker.start()
            let wanted = Set(told.filter { $0.users.contains("ann") }.map(\.text))
            let client = try await broker.client("ann")
            var texts: [String] = []
            while !wanted.isSubset(of: texts) {
                let message = try await client.nextMessage()
                client.acknowledge(message)
                texts.append(message.text)
            }
            #expect(texts.count == Set(texts).count)
            await client.close()
            try await broker.killNow()
        }

        @Test func `a store is created again after a loss of power during its creation`()
            async throws
        {
            let faults = try DiskFaults(isLogging: true)
            let broker = try await TestBroker(faults: faults)
            try await broker.killNow()
            let log = try faults.log()
            let named = try #require(log.records.firstIndex { $0.kind == .namesSynced })
            var random = SeededRandom(seed: 2)
            var disk = CachedDisk()
            var contents: [DiskContent] = []
            for record in log.records.prefix(named + 2) {
                for _ in 0..<8 {
                    let content = disk.withoutPower(&random)
                    #expect(try StoreImage(content).texts() == [])
                    contents.append(content)
                }
                disk.carryOut(record)
            }
            // All that can be left: nothing, a staging in any state, the store itself.
            #expect(contents.contains { $0.data == nil && $0.staging == nil })
            #expect(contents.contains { $0.staging != nil })
            #expect(contents.contains { $0.data != nil })
            for content in contents.shuffled(using: &random).prefix(3) + contents.suffix(1) {
                try broker.replaceStore(with: content)
                try await broker.start()
                let client = try await broker.client("ann")
                try await client.send(OutgoingMessage(to: .user("ann"), text: "first"))
                #expect(try await client.nextTexts(1) == ["first"])
                await client.close()
                try await broker.killNow()
            }
        }

        @Test func `a broker that is killed at each call of its first start starts again`()
            async throws
        {
            // One more than it takes until the store has its name.
            for call in 1...12 {
                let broker = try await TestBroker(
                    settings: [], afterLifeWith: DiskFaults(killAt: call))
                let client = try await broker.client("ann")
                try await client.send(OutgoingMessage(to: .user("ann"), text: "first"))
                await client.close()
                try await broker.killNow()
                #expect(try await broker.verifyStore() == .code(0))
            }
        }

        @Test
        func
            `on a full disk the broker refuses sends, drains, and recovers without a restart`()
            async throws
        {
            let faults = try DiskFaults()
            let broker = try await TestBroker(faults: faults)
            let annsSettings = try broker.settings("ann")
            try await connected(Client(annsSettings)).close()
            let sendersSettings = try broker.settings("sender")
            let sender = try await connected(Client(sendersSettings))
            for number in 1...100 {
                try await sender.send(OutgoingMessage(to: .user("ann"), text: "\(number)"))
            }
            await sender.close()
            try await broker.stop()
            faults.setFull(true)
            try await broker.start()
            let again = try await connected(Client(sendersSettings))
            await #expect(throws: MartletError.self) {
                try await again.send(OutgoingMessage(to: .user("ann"), text: "too much"))
            }
            let ann = try await connected(Client(annsSettings))
            let texts = try await ann.nextTexts(100)
            #expect(texts == (1...100).map { "\($0)" })
            faults.setFull(false)
            // The broker looks for room again by itself.
            try await within(seconds: 60, "room") {
                while true {
                    do {
                        try await again.send(OutgoingMessage(to: .user("ann"), text: "room"))
                        return
                    } catch MartletError.refused {
                        await Task.yield()
                    }
                }
            }
            #expect(try await ann.nextTexts(1) == ["room"])
        }
    }
}
