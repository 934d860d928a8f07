// The order and the shares of logins that wait for their passwords to be hashed, and the times of
// refusals.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerRuntime

@Suite("Logins that wait")
struct PasswordQueueTests {
    private var queue = PasswordQueue<String>()
    private var slot: Int = 0

    private static func address(_ number: UInt32) -> IPAddress { IPAddress(version4: number) }

    /// The names of logins whose places are lost.
    private mutating func add(
        _ name: String, from address: IPAddress
    ) -> PasswordQueue<String>.Admission {
        slot += 1
        return queue.add(
            name, of: ConnectionID(loop: 0, slot: slot, generation: 1), from: address)
    }

    private mutating func fill(_ count: Int, from address: IPAddress) {
        for number in 0..<count {
            guard case .waits = add("\(number)", from: address) else {
                Issue.record("\(number) of \(address) does not wait")
                return
            }
        }
    }

    @Test mutating func `are taken in turn of their addresses, and the oldest of each first`() {
        fill(3, from: Self.address(1))
        _ = add("a", from: Self.address(2))
        _ = add("b", from: Self.address(2))
        _ = add("c", from: Self.address(3))
        var taken: [String] = []
        while let next = queue.takeNext() { taken.append(next.login) }
        #expect(taken == ["0", "a", "c", "1", "b", "2"])
        #expect(queue.count == 0)
    }

    @Test mutating func `of one address have half of the room, and one of IPv6 has 64 bits`()
        throws
    {
        let hosts = try ["2001:db8::1", "2001:db8::2:1"].map {
            try #require(IPAddress($0.utf8))
        }
        for number in 0..<PasswordQueue<String>.shareMaximum {
            _ = add("\(number)", from: hosts[number % 2])
        }
        guard case .overShare = add("more", from: hosts[0]) else {
            Issue.record("it has more than its share")
            return
        }
        let other = try #require(IPAddress("2001:db8:0:1::1".utf8))
        guard case .waits = add("other", from: other) else {
            Issue.record("another network has no room")
            return
        }
        #expect(queue.takeNext()?.login == "0")
        #expect(queue.takeNext()?.login == "other")
    }

    @Test mutating func `of the address with most give way to those of others in a full queue`() {
        for number in 1...4 { fill(128, from: Self.address(UInt32(number))) }
        #expect(queue.count == PasswordQueue<String>.waitingMaximum)
        guard case .displaced = add("honest", from: Self.address(9)) else {
            Issue.record("nobody gives way")
            return
        }
        #expect(queue.count == PasswordQueue<String>.waitingMaximum)
        // Who has as many as the others displaces nobody.
        guard case .full = add("more", from: Self.address(1)) else {
            Issue.record("another gives way")
            return
        }
        let first = (0..<5).map { _ in queue.takeNext()?.login }
        #expect(first == ["0", "0", "0", "0", "honest"])
    }

    @Test mutating func `leave nothing when their connections close`() {
        fill(2, from: Self.address(1))
        _ = add("a", from: Self.address(2))
        for number in [1, 2] {
            queue.remove(ConnectionID(loop: 0, slot: number, generation: 1))
        }
        queue.remove(ConnectionID(loop: 0, slot: 77, generation: 1))
        #expect(queue.count == 1)
        #expect(queue.takeNext()?.login == "a")
        #expect(queue.takeNext() == nil)
    }

    @Test func `are refused at multiples of one time after they began`() {
        let began = Instant(milliseconds: 10_000)
        for (verified, due) in [
            (UInt64(0), UInt64(500)), (15, 500), (499, 500), (500, 1_000), (501, 1_000),
            (2_600, 3_000),
        ] {
            let time = RefusalTime.due(
                began: began, verified: began.advanced(byMilliseconds: verified))
            #expect(time == began.advanced(byMilliseconds: due))
        }
    }
}
