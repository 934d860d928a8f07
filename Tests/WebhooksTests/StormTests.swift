// The dispatcher between a model broker and model destinations that fail at random, with crashes
// between any two steps: every event arrives, and each key in order.

import MartletClient
import Primitives
import TestSurroundings
import Testing

@testable import Relay
@testable import Webhooks

@Suite struct StormTests {
    private static let keys = ["u0", "u1", "u2"]

    /// A broker that sends what is not acknowledged again after each login.
    private struct ModelBroker {
        var queue: [IncomingMessage] = []
        var sentCount = 0

        mutating func forget(_ record: InboxRecord) {
            let count = queue.prefix { $0.record!.number <= record.number }.count
            queue.removeFirst(count)
            sentCount = max(0, sentCount - count)
        }
    }

    @Test(arguments: 0..<200)
    func `every event arrives, and each key in order`(_ seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        var settings = Fixture.settings([
            Fixture.hook("a") { $0.batchMaximum = seed % 3 + 1 }, Fixture.hook("b"),
        ])
        settings.relay.inFlightMaximum = 8
        settings.hooks[0].refusalsMaximum = 1_000
        settings.hooks[1].refusalsMaximum = 1_000
        var broker = ModelBroker()
        var relay = ModelRelay(settings, seed: UInt64(seed))
        var nextNumber: UInt64 = 1
        var arrived: [String: [Int]] = [:]
        var keyOf: [Int: String] = [:]
        var steps = 0
        while nextNumber <= 40 || !broker.queue.isEmpty || !relay.attempts.isEmpty
            || relay.dispatcher.hooks.contains(where: { $0.count > 0 })
        {
            steps += 1
            guard steps < 50_000 else {
                Issue.record("seed \(seed) does not end: \(broker.queue.count) wait")
                return
            }
            relay.time += UInt64(random.next(in: 0..<200))
            switch random.next(in: 0..<100) {
            case 0..<30 where nextNumber <= 40:
                let key = Self.keys[random.next(in: 0..<Self.keys.count)]
                broker.queue.append(
                    Fixture.message("\(nextNumber)", from: key, number: nextNumber))
                keyOf[Int(nextNumber)] = key
                nextNumber += 1
            case 30..<60:
                guard broker.sentCount < min(8, broker.queue.count) else { break }
                relay.accept(broker.queue[broker.sentCount])
                broker.sentCount += 1
            case 60..<75: relay.begin()
            case 75..<92 where !relay.attempts.isEmpty:
                let index = random.next(in: 0..<relay.attempts.count)
                let attempt = relay.attempts[index]
                let status = [200, 200, 200, 500, 503, 429, 400, 200][random.next(in: 0..<8)]
                // An answer may be lost behind an event that was processed.
                let isProcessed = status == 200 || random.next(in: 0..<10) == 0
                if isProcessed {
                    for text in attempt.text.split(separator: "+") {
                        arrived["\(attempt.hook)", default: []].append(Int(text)!)
                    }
                }
                relay.finish(status, at: index)
            case 92..<97:
                relay.save()
                if let position = relay.acknowledged { broker.forget(position) }
            case 97 where random.next(in: 0..<3) == 0:
                // Killed: some of what was not synced is on the disk.
                var content = relay.content
                let count = random.next(in: 0..<(relay.unsynced.count + 1))
                for entry in relay.unsynced.prefix(count) { content.apply(entry) }
                let time = relay.time
                relay = ModelRelay(settings, content: content, seed: UInt64(seed + steps))
                relay.time = time
                // The client of the SDK passes over what is before its position.
                broker.sentCount = 0
                if let position = content.position { broker.forget(position) }
            default: break
            }
        }
        check(arrived, keyOf, seed: seed)
    }

    private func check(_ arrived: [String: [Int]], _ keyOf: [Int: String], seed: Int) {
        for hook in ["0", "1"] {
            let numbers = arrived[hook] ?? []
            #expect(Set(numbers) == Set(1...40), "seed \(seed), hook \(hook)")
            for key in Self.keys {
                var seen: [Int] = []
                for number in numbers where keyOf[number] == key && !seen.contains(number) {
                    seen.append(number)
                }
                #expect(seen == seen.sorted(), "seed \(seed), hook \(hook), \(key): \(numbers)")
            }
        }
    }

    @Test(arguments: 0..<50)
    func `what comes first of each key comes in order`(_ seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        var relay = ModelRelay(Fixture.settings([Fixture.hook { $0.batchMaximum = seed % 3 + 1 }]))
        for number in 1...60 {
            relay.accept(
                Fixture.message(
                    "\(number)", from: Self.keys[number % Self.keys.count], number: UInt64(number)))
        }
        var first: [Int] = []
        while relay.dispatcher.hooks[0].count > 0 {
            relay.time += 1_000
            relay.begin()
            guard !relay.attempts.isEmpty else { continue }
            let index = random.next(in: 0..<relay.attempts.count)
            let isGood = random.next(in: 0..<2) == 0
            if isGood {
                first += relay.attempts[index].text.split(separator: "+").map { Int($0)! }
            }
            relay.finish(isGood ? 200 : 500, at: index)
            if random.next(in: 0..<10) == 0 {
                relay.dispatcher.requestRecord()
                relay.save()
                let time = relay.time
                relay = ModelRelay(
                    Fixture.settings([Fixture.hook()]), content: relay.content,
                    seed: UInt64(seed))
                relay.time = time
            }
        }
        for key in 0..<Self.keys.count {
            let ofKey = first.filter { $0 % Self.keys.count == key }
            var seen: [Int] = []
            for number in ofKey where !seen.contains(number) { seen.append(number) }
            #expect(seen == seen.sorted() && seen.count == 20, "seed \(seed): \(ofKey)")
        }
    }
}
