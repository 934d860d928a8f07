// What a sender's state keeps, and what it keeps of that when there is much.

import BrokerTerms
import Testing

@testable import BrokerCore

@Suite struct `A sender's state` {
    @Test func `finds a recent send by its number, and by its id`() {
        var recent = RecentSends()
        for number in stride(from: UInt64(10), to: 5_000, by: 3) {
            recent.add(number, identifier: [UInt8(number % 251)], refusals: [], refusedCount: 0)
        }
        #expect(recent.first([10])?.number == 10)
        for unknown in [9, 11, 5_001] as [UInt64] {
            let completion = recent.complete(unknown, .sent)
            #expect(completion == nil)
        }
        let completions = [10, 4_999].map { recent.complete($0, .sent)?.isLast }
        #expect(completions == [false, true])
        #expect(recent.first([10])?.isComplete == true)
        let isRemoved = recent.removeOldestComplete()
        #expect(isRemoved && recent.first([10])?.number == 763)
        let refusal = recent.complete(763, .quotaExceeded)
        #expect(refusal?.hasRepeats == false && recent.first([10])?.number ?? 0 > 763)
        var none = RecentSends()
        let isAnyRemoved = none.removeOldestComplete()
        #expect(!isAnyRemoved)
    }

    /// A send that is removed gives the room for its names back.
    @Test func `names the refused receivers of recent sends up to a limit`() {
        var recent = RecentSends()
        let refused = (0..<200).map { Refusal(index: $0, reason: .notAuthorized) }
        for number in 1...3 as ClosedRange<UInt64> {
            recent.add(number, identifier: [UInt8(number)], refusals: refused, refusedCount: 200)
        }
        #expect((1...3).map { recent.first([$0])?.refusals.count } == [200, 0, 0])
        #expect((1...3).map { recent.first([$0])?.refusedCount } == [200, 200, 200])
        _ = recent.complete(1, .quotaExceeded)
        recent.add(4, identifier: [4], refusals: refused, refusedCount: 200)
        #expect(recent.first([4])?.refusals.count == 200)
        _ = recent.complete(4, .sent)
        recent.trim(to: 2)
        recent.add(5, identifier: [5], refusals: refused, refusedCount: 200)
        #expect(recent.count == 3 && recent.first([5])?.refusals.count == 200)
    }

    @Test func `has an interrupted publication until it is taken or complete`() {
        var interrupted = InterruptedPublications()
        for number in 1...3 as ClosedRange<UInt64> {
            var entry = OutboxEntry(number: number, stamp: 0, grade: .once)
            entry.packetIdentifier = UInt16(number) + 100
            if number > 1 { entry.original = 1 }
            interrupted.insert(entry)
        }
        let repeats = interrupted.repeats(of: 1).map(\.number)
        #expect(repeats == [2, 3])
        let taken = [interrupted.take(101)?.number, interrupted.take(101)?.number]
        #expect(taken == [1, nil])
        var entry = interrupted.entry(2)!
        entry.reason = .quotaExceeded
        let isKnown = interrupted.update(entry)
        let reason = interrupted.entry(2)?.reason
        #expect(isKnown && reason == .quotaExceeded)
        entry.isComplete = true
        let areKnown = [interrupted.update(entry), interrupted.update(entry)]
        #expect(areKnown == [true, false])
        let (number, count) = (interrupted.number(of: 102), interrupted.count)
        #expect(number == nil && count == 1)
    }

    /// A client that releases nothing is told again how many receivers were refused, and of the
    /// first publications which; it does not have 40 bytes kept for each of 65,535.
    @Test func `keeps counts of refusals for publications that nobody releases, and few names`() {
        var state = SenderState()
        for identifier in 1...UInt16.max {
            state.answer(
                identifier, .success, refusedCount: UInt32(identifier) * 2,
                named: identifier % 3 == 0 ? [] : [Refusal(index: 1, reason: .quotaExceeded)])
        }
        let identifiers = state.identifiers
        let named = (1...UInt16.max).filter { !state.names(ofAnswered: $0).isEmpty }
        #expect(named.count == 4_096)
        #expect(
            (1...UInt16.max).allSatisfy {
                identifiers.refused(of: $0) == min(UInt32($0) * 2, 65_535)
            })
        for identifier in 1...UInt16.max { state.free(identifier) }
        #expect(state.names(ofAnswered: 1).isEmpty && state.isEmpty)
        state.answer(7, .success, refusedCount: 0, named: [])
        #expect(state.identifiers.refused(of: 7) == 0)
        state.answer(8, .success, refusedCount: 2, named: [])
        state.answer(8, .success, refusedCount: 0, named: [])
        #expect(state.identifiers.refused(of: 8) == 0)
        #expect(state.identifiers.refused(of: 700) == 0)
    }
}
