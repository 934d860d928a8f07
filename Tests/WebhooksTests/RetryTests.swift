// Waits, the circuit and the containers below them.

import BrokerTerms
import Primitives
import Testing

@testable import Relay
@testable import Webhooks

@Suite struct RetryTests {
    @Test func `waits double up to the longest, with jitter in their upper half`() {
        let schedule = RetrySchedule(firstMilliseconds: 1_000, longestMilliseconds: 300_000)
        let bounds: [UInt64] = [
            1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000,
        ]
        for (index, bound) in bounds.enumerated() {
            let count = index + 1
            #expect(schedule.milliseconds(afterFailures: count, random: 0) == bound / 2)
            #expect(schedule.milliseconds(afterFailures: count, random: bound / 2) == bound)
            var jitter = SplitMix64(seed: 1)
            for _ in 0..<100 {
                let wait = schedule.milliseconds(afterFailures: count, random: jitter.next())
                #expect((bound / 2...bound).contains(wait))
            }
        }
        #expect(schedule.milliseconds(afterFailures: .max, random: 0) == 150_000)
    }

    @Test func `a circuit opens after failures in a row, and each failed try doubles its wait`() {
        var circuit = Circuit()
        let start = Instant(milliseconds: 1_000)
        for _ in 1...2 {
            for _ in 1..<RelayLimits.circuitFailuresMaximum {
                let isOpened = circuit.failed(advised: 0, now: start) { _ in 10 }
                #expect(!isOpened)
            }
            guard circuit.failureCount < RelayLimits.circuitFailuresMaximum else { break }
            let wasOpen = circuit.succeeded()
            #expect(!wasOpen)
        }
        var isOpened = false
        for _ in 1...RelayLimits.circuitFailuresMaximum {
            isOpened = circuit.failed(advised: 0, now: start) { UInt64($0) * 10 }
        }
        #expect(isOpened)
        #expect(!circuit.mayBegin(now: start))
        let later = Instant(milliseconds: 1_010)
        #expect(circuit.mayBegin(now: later))
        circuit.begin()
        #expect(!circuit.mayBegin(now: later))
        // It stays open, and is tried after twice the time.
        isOpened = circuit.failed(advised: 0, now: later) { UInt64($0) * 10 }
        #expect(!isOpened)
        #expect(circuit.openUntil == Instant(milliseconds: 1_030))
        circuit.begin()
        let wasOpen = circuit.succeeded()
        #expect(wasOpen)
        #expect(circuit.mayBegin(now: later))
    }

    @Test func `the earliest comes first`() {
        var queue = PriorityQueue<Int, String>()
        var jitter = SplitMix64(seed: 3)
        var ranks: [Int] = []
        for _ in 0..<500 {
            let rank = Int(jitter.next() % 100)
            ranks.append(rank)
            queue.insert("\(rank)", rank: rank)
        }
        for rank in ranks.sorted() {
            #expect(queue.firstRank == rank)
            let first = queue.popFirst()
            #expect(first == "\(rank)")
        }
        #expect(queue.isEmpty)
    }

    @Test func `a queue keeps its order while it grows and shrinks`() {
        var queue = Queue<Int>()
        var next = 0
        for number in 0..<1_000 {
            queue.append(number)
            if number % 3 == 2 {
                #expect(queue.first == next)
                _ = queue.popFirst()
                next += 1
            }
        }
        #expect(queue.all == Array(next..<1_000))
    }

    @Test(arguments: [
        "127.0.0.1", "10.1.2.3", "172.31.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fd00::1",
        "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1", "ff02::1",
        "::ffff:0:7f00:1", "3fff::1", "5f00::1", "192.88.99.1",
    ])
    func `a private address needs permission`(_ text: String) throws {
        let address = try #require(IPAddress(text.utf8))
        #expect(!AddressRules(allowed: []).permits(address))
        let all = [try IPNetwork("0.0.0.0/0".utf8), try IPNetwork("::/0".utf8)]
        #expect(AddressRules(allowed: all).permits(address))
    }

    @Test func `a public address needs none, in either form`() throws {
        let rules = AddressRules(allowed: [])
        for text in ["8.8.8.8", "172.32.0.1", "2a00:1450::1"] {
            #expect(rules.permits(try #require(IPAddress(text.utf8))))
        }
        #expect(rules.permits(bytes: [8, 8, 8, 8]))
        #expect(!rules.permits(bytes: [127, 0, 0, 1]))
        #expect(!rules.permits(bytes: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127, 0, 0, 1]))
        #expect(!rules.permits(bytes: []))
    }
}
