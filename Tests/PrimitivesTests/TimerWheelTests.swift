// The timing wheel, compared with fixed cases and with a simple sorted list.
import Primitives
import Testing

@Suite struct TimerWheelTests {
    private func instant(_ milliseconds: UInt64) -> Instant { Instant(milliseconds: milliseconds) }

    private func drain(_ wheel: inout TimerWheel, at milliseconds: UInt64) -> [UInt64] {
        var payloads: [UInt64] = []
        while let payload = wheel.popDue(at: instant(milliseconds)) { payloads.append(payload) }
        return payloads
    }

    private func expectCancel(
        _ wheel: inout TimerWheel, token: TimerWheel.Token, expected: Bool
    ) {
        let isCancelled = wheel.cancel(token)
        #expect(isCancelled == expected)
    }

    @Test func `an entry expires at its deadline and not a millisecond earlier`() {
        for deadline: UInt64 in [1, 63, 64, 65, 4095, 4096, 4097, 262_143, 1 << 40, .max] {
            var wheel = TimerWheel()
            _ = wheel.insert(deadline: instant(deadline), payload: 7)
            #expect(drain(&wheel, at: deadline - 1) == [])
            #expect(drain(&wheel, at: deadline) == [7])
            #expect(wheel.count == 0)
        }
    }

    @Test func `an entry in the past is due at once`() {
        var wheel = TimerWheel(start: instant(10_000))
        _ = wheel.insert(deadline: instant(3), payload: 1)
        #expect(wheel.nextDeadline == instant(10_000))
        #expect(drain(&wheel, at: 10_000) == [1])
    }

    @Test func `equal deadlines expire in the order of insertion`() {
        var wheel = TimerWheel()
        for payload: UInt64 in 0..<5 { _ = wheel.insert(deadline: instant(500), payload: payload) }
        #expect(drain(&wheel, at: 450) == [])
        for payload: UInt64 in 5..<9 { _ = wheel.insert(deadline: instant(500), payload: payload) }
        #expect(drain(&wheel, at: 1000) == Array(0..<9))
    }

    @Test func `a cancelled entry does not expire and its token identifies no other`() {
        var wheel = TimerWheel()
        let first = wheel.insert(deadline: instant(5), payload: 1)
        expectCancel(&wheel, token: first, expected: true)
        expectCancel(&wheel, token: first, expected: false)
        let second = wheel.insert(deadline: instant(5), payload: 2)
        expectCancel(&wheel, token: first, expected: false)
        #expect(first != second)
        #expect(drain(&wheel, at: 5) == [2])
        expectCancel(&wheel, token: second, expected: false)
        expectCancel(&wheel, token: .none, expected: false)
    }

    @Test func `the next deadline is nil only when the wheel is empty`() {
        var wheel = TimerWheel()
        #expect(wheel.nextDeadline == nil)
        let token = wheel.insert(deadline: instant(50), payload: 1)
        #expect(wheel.nextDeadline == instant(50))
        wheel.cancel(token)
        #expect(wheel.nextDeadline == nil)
    }

    @Test func `a time that decreases changes nothing`() {
        var wheel = TimerWheel()
        #expect(drain(&wheel, at: 1000) == [])
        #expect(drain(&wheel, at: 10) == [])
        _ = wheel.insert(deadline: instant(1001), payload: 1)
        #expect(drain(&wheel, at: 1000) == [])
        #expect(drain(&wheel, at: 1001) == [1])
    }

    @Test(arguments: 1...20) func `it agrees with a sorted list`(seed: UInt64) {
        var random = SplitMix(state: seed)
        var now: UInt64 = random.next() % 1_000_000
        var wheel = TimerWheel(start: instant(now))
        var model: [(deadline: UInt64, order: UInt64, token: TimerWheel.Token)] = []

        for order: UInt64 in 0..<4000 {
            switch random.next() % 8 {
            case 0...3:
                let deadline = now + random.next() % (UInt64(1) << (random.next() % 34))
                let token = wheel.insert(deadline: instant(deadline), payload: order)
                model.append((deadline, order, token))
            case 4 where !model.isEmpty:
                let victim = model.remove(at: Int(random.next() % UInt64(model.count)))
                expectCancel(&wheel, token: victim.token, expected: true)
            default:
                now += random.next() % (UInt64(1) << (random.next() % 30))
                let due = model.filter { $0.deadline <= now }
                    .sorted { ($0.deadline, $0.order) < ($1.deadline, $1.order) }
                #expect(drain(&wheel, at: now) == due.map(\.order))
                model.removeAll { $0.deadline <= now }
            }
            #expect(wheel.count == model.count)
            let earliest = model.map(\.deadline).min()
            if let next = wheel.nextDeadline {
                #expect(next.milliseconds <= earliest ?? 0)
            } else {
                #expect(earliest == nil)
            }
        }
    }
}

/// A seeded generator for this file: the same seed, the same run.
private struct SplitMix {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
        return mixed ^ mixed >> 31
    }
}
