// Several addresses of one broker: which is tried next, and when there is a wait.

import BrokerTerms
import Primitives
import TestSurroundings
import Testing
import WireFormat

@testable import ClientCore

/// A client with addresses, and what became of its attempts.
private final class Site {
    let client: Harness
    private let names: [String]

    init(_ names: String..., seed: UInt64 = 1) {
        self.names = names
        client = Harness(seed: seed, servers: names.joined(separator: ","))
        client.machine.start(now: client.now)
    }

    /// What the attempt meets at its address.
    enum Meeting {
        case nobody
        case standby(naming: String)
        case busy(seconds: UInt32)
        case primary
    }

    /// Makes one attempt: the address, and the wait that follows; nil after a login.
    func attempt(_ meet: (String) -> Meeting) -> (server: String, wait: UInt64?) {
        if client.machine.nextEvent(now: client.now) != .connectionWanted {
            client.passToDeadline()
            #expect(client.events() == ["wanted"])
        }
        let server = names[client.machine.server]
        switch meet(server) {
        case .nobody: client.machine.closed(now: client.now)
        case .standby(let name):
            client.machine.opened(now: client.now)
            _ = client.sent()
            client.receive(
                MRT.ConnectRefused(
                    reason: .useAnotherServer,
                    text: ByteRange(offset: 0, count: name.utf8.count)), name)
        case .busy(let seconds):
            client.machine.opened(now: client.now)
            _ = client.sent()
            client.receive(MRT.ConnectRefused(reason: .serverBusy, retryAfterSeconds: seconds))
        case .primary:
            client.open()
            #expect(client.events().first?.hasPrefix("connected") == true)
            return (server, nil)
        }
        guard case .disconnected(let end)? = client.machine.nextEvent(now: client.now),
            let retryAt = end.retryAt
        else {
            Issue.record("no end of the attempt at \(server)")
            return (server, nil)
        }
        #expect(names[end.server] == server)
        let wait = retryAt.milliseconds(since: client.now)
        if end.isWithinRound { #expect(wait == 0) }
        return (server, end.isWithinRound ? 0 : wait)
    }

    /// The addresses of the next attempts, with a bar after each round.
    func attempts(_ count: Int, _ meet: (String) -> Meeting) -> String {
        var words: [String] = []
        for _ in 0..<count {
            let before = client.machine.backoff.failureCount
            let (server, _) = attempt(meet)
            words.append(server + (client.machine.backoff.failureCount > before ? " |" : ""))
        }
        return words.joined(separator: " ")
    }
}

@Suite struct ServerRotationTests {
    @Test func `one address waits after each attempt`() {
        let site = Site("a:1")
        #expect(site.attempts(3) { _ in .nobody } == "a:1 | a:1 | a:1 |")
        // Also if it names itself.
        #expect(site.attempts(2) { .standby(naming: $0) } == "a:1 | a:1 |")
    }

    @Test func `addresses are tried in order, with one wait for each round`() {
        let site = Site("a:1", "b:1", "c:1")
        #expect(site.attempts(6) { _ in .nobody } == "a:1 b:1 c:1 | a:1 b:1 c:1 |")
        #expect(site.client.machine.backoff.failureCount == 2)
    }

    @Test func `a standby that names no address is followed by the next one`() {
        let site = Site("a:1", "b:1")
        #expect(site.attempts(4) { _ in .standby(naming: "") } == "a:1 b:1 | a:1 b:1 |")
    }

    @Test func `an address of the list that a standby names is the next one`() {
        let site = Site("a:1", "b:1", "c:1")
        #expect(
            site.attempts(2) { $0 == "c:1" ? .primary : .standby(naming: "c:1") } == "a:1 c:1")
    }

    @Test(arguments: ["d:1", "c:11", "c", "C:1", "a:1,b:1", ",", "tcp://c:1", "c:1\u{0}"])
    func `an address outside of the list is not followed`(name: String) {
        let site = Site("a:1", "b:1", "c:1")
        #expect(site.attempts(3) { _ in .standby(naming: name) } == "a:1 b:1 c:1 |")
    }

    @Test func `brokers that name each other are tried once for each wait`() {
        let site = Site("a:1", "b:1")
        let other = ["a:1": "b:1", "b:1": "a:1"]
        #expect(
            site.attempts(6) { .standby(naming: other[$0]!) } == "a:1 b:1 | a:1 b:1 | a:1 b:1 |")
    }

    @Test func `a wrong redirection hides no address`() {
        let site = Site("a:1", "b:1", "c:1")
        // The primary was a, has died, and b has not heard of c.
        #expect(
            site.attempts(3) { server in
                switch server {
                case "a:1": .nobody
                case "b:1": .standby(naming: "a:1")
                default: .primary
                }
            } == "a:1 b:1 c:1")
    }

    @Test func `the next round begins where the last refusal has sent the client`() {
        let site = Site("a:1", "b:1", "c:1")
        // The node a becomes the primary after it was tried.
        #expect(
            site.attempts(4) { $0 == "a:1" ? .nobody : .standby(naming: "a:1") }
                == "a:1 b:1 c:1 | a:1")
    }

    @Test func `a session that ends is followed by the next address after a wait`() {
        let site = Site("a:1", "b:1", "c:1")
        #expect(site.attempts(1) { _ in .primary } == "a:1")
        site.client.machine.closed(now: site.client.now)
        guard case .disconnected(let end)? = site.client.machine.nextEvent(now: site.client.now)
        else {
            Issue.record("the session has not ended")
            return
        }
        #expect(end.server == 0 && !end.isWithinRound)
        #expect(site.client.machine.backoff.failureCount == 1)
        #expect(site.attempts(3) { _ in .nobody } == "b:1 c:1 a:1 |")
    }

    @Test func `a broker that advises a wait ends the round`() {
        let site = Site("a:1", "b:1")
        let (server, wait) = site.attempt { _ in .busy(seconds: 30) }
        #expect(server == "a:1" && wait ?? 0 >= 30_000)
        #expect(site.attempts(2) { _ in .nobody } == "b:1 a:1 |")
    }

    @Test func `the wait is random, and grows with the rounds`() {
        var longest: [UInt64] = []
        for round in 0..<9 {
            let waits = (1...40).map { seed in
                let site = Site("a:1", "b:1", seed: UInt64(seed))
                _ = site.attempts(2 * round) { _ in .nobody }
                _ = site.attempts(1) { _ in .nobody }
                return site.attempt { _ in .nobody }.wait ?? 0
            }
            let bound: UInt64 = min(120_000, 1_000 << UInt64(round))
            #expect(waits.allSatisfy { $0 <= bound })
            longest.append(waits.max()!)
        }
        #expect(longest[4] > 4 * longest[0] && longest[8] > 60_000)
    }

    @Test(arguments: 1...200 as ClosedRange<UInt64>)
    func `whatever brokers say, each address is tried once in a round`(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let names = (0..<Int(random.next() % 8) + 1).map { "n\($0):1" }
        let client = Harness(seed: seed, servers: names.joined(separator: ","))
        client.machine.start(now: client.now)
        var round: [Int] = []
        for _ in 0..<200 {
            client.machine.timePassed(now: client.now)
            guard client.machine.nextEvent(now: client.now) == .connectionWanted else {
                client.passToDeadline()
                continue
            }
            #expect(!round.contains(client.machine.server))
            round.append(client.machine.server)
            switch random.next() % 6 {
            case 0: client.machine.closed(now: client.now)
            case 1:
                client.open()
                client.machine.refuse(.protocolError, now: client.now)
            default:
                client.machine.opened(now: client.now)
                let name = "n\(random.next() % 9):1"
                let retry = random.next() % 8 == 0 ? UInt32(1) : 0
                client.receive(
                    MRT.ConnectRefused(
                        reason: .useAnotherServer, retryAfterSeconds: retry,
                        text: ByteRange(offset: 0, count: name.utf8.count)), name)
            }
            while let event = client.machine.nextEvent(now: client.now) {
                guard case .disconnected(let end) = event else { continue }
                if !end.isWithinRound { round = [] }
            }
            #expect(round.count < names.count)
        }
    }
}
