// The queue between the loops and the thread that executes requests of the HTTP API.

import Administration
import BrokerTerms
import Credentials
import NetTransport
import Testing
import WireFormat

@testable import BrokerCore
@testable import BrokerRuntime

@Suite struct `The queue of requests` {
    /// Found in a broker that had answered some ten thousand requests: each wake-up called through
    /// two functions more than the one before.
    @Test func `wakes its executor as cheaply after a million requests`() throws {
        let queue = APIQueue()
        queue.setExecutor(try LoopHandle())
        /// The shortest time of five batches: other processes delay some of them.
        func time() -> Duration {
            let times = (0..<5).map { _ in
                ContinuousClock().measure { for _ in 0..<10_000 { queue.wakeExecutor() } }
            }
            return times.min()!
        }
        let first = time()
        for _ in 0..<1_000_000 { queue.wakeExecutor() }
        #expect(time() < first * 10)
    }
}

extension `The queue of requests` {
    /// - Parameter user: users have names by their number, and so have keys.
    private static func credential(
        _ kind: APIPrincipal.Kind, app: UInt8, user: Int
    ) -> APICredential {
        func presented(_ kind: CredentialHolder.Kind) -> APICredential {
            .presented(
                .token(identifier: [], Digest(words: (0, 0, 0, 0))),
                CredentialHolder(app: [app], kind: kind, ownRights: nil, rights: Rights()))
        }
        switch kind {
        case .operator:
            return .operator(
                Operators.Operator(
                    name: "a", role: .own, madeUnixSeconds: 0, expiresUnixSeconds: nil,
                    digest: SHA256Digest(of: [UInt8]().span.bytes)))
        case .appKey: return presented(.appKey(name: Array("k\(user)".utf8), role: .operate))
        case .user: return presented(.user(Array("u\(user)".utf8), device: nil))
        }
    }

    private func request(
        _ kind: String, by principal: APIPrincipal.Kind = .user, app: UInt8 = 97, user: Int = 0,
        slot: Int = 0, byteCount: Int = 0
    ) throws -> APIRequest {
        let operation = try #require(
            APIOperation.all.first { $0.kind.rawValue == kind })
        return APIRequest(
            connection: ConnectionID(loop: 0, slot: slot, generation: 1), loop: 0,
            operation: operation, path: [], query: [],
            content: [UInt8](repeating: 0, count: byteCount),
            credential: Self.credential(principal, app: app, user: user),
            actingUser: nil, address: .local, target: "")
    }

    /// A request of one of many users, of two apps.
    private func spread(_ kind: String, _ number: Int, byteCount: Int = 0) throws -> APIRequest {
        try request(
            kind, app: number % 2 == 0 ? 97 : 98, user: number % 64, byteCount: byteCount)
    }

    @Test(arguments: [
        ("message.send", APIPrincipal.Kind.user, 256), ("message.send", .appKey, 512),
        ("app.list", .user, 16), ("app.list", .appKey, 32),
    ])
    func `one user or key has a part of the places`(
        kind: String, principal: APIPrincipal.Kind, countMaximum: Int
    ) throws {
        let queue = APIQueue()
        for _ in 0..<countMaximum { #expect(queue.add(try request(kind, by: principal))) }
        #expect(!queue.add(try request(kind, by: principal)))
        #expect(queue.add(try request(kind, by: principal, user: 1)))
        #expect(queue.add(try request(kind, by: principal, app: 98)))
        let first = try #require(queue.takeRequests().first)
        queue.finish(first, with: HTTPResponse(.ok))
        #expect(queue.add(try request(kind, by: principal)))
        #expect(!queue.add(try request(kind, by: principal)))
    }

    @Test(arguments: [(APIPrincipal.Kind.user, 48), (.appKey, 60)])
    func `one app has three quarters of the places`(
        principal: APIPrincipal.Kind, countMaximum: Int
    ) throws {
        let queue = APIQueue()
        for number in 0..<countMaximum {
            #expect(queue.add(try request("app.list", by: principal, user: number)))
        }
        #expect(!queue.add(try request("app.list", by: principal, user: 99)))
        #expect(queue.add(try request("app.list", by: principal, app: 98)))
        #expect(queue.add(try request("app.list", by: .operator)))
    }

    @Test func `one user has 256 KiB of content`() throws {
        let queue = APIQueue()
        for _ in 0..<4 { #expect(queue.add(try request("message.send", byteCount: 65_536))) }
        #expect(!queue.add(try request("message.send", byteCount: 1)))
        #expect(queue.add(try request("message.send", user: 1, byteCount: 65_536)))
        #expect(queue.add(try request("message.send", byteCount: 0)))
    }

    @Test func `principals take turns, whatever waits of one`() throws {
        let queue = APIQueue()
        for slot in 0..<16 { #expect(queue.add(try request("app.list", user: 1, slot: slot))) }
        #expect(queue.add(try request("app.list", user: 2, slot: 20)))
        #expect(queue.add(try request("message.send", user: 1, slot: 21)))
        #expect(queue.add(try request("message.send", user: 1, slot: 22)))
        // Messages share a commit, so that all of them are taken.
        #expect(queue.takeRequests().map(\.connection.slot) == [21, 22, 0, 20])
        let next = queue.takeRequests()
        #expect(next.map(\.connection.slot) == [1])
        // A list that goes on waits behind the others of its holder.
        queue.addAgain(next[0])
        #expect(queue.add(try request("app.list", user: 3, slot: 30)))
        #expect(queue.takeRequests().map(\.connection.slot) == [2, 30])
        let rest = (0..<14).flatMap { _ in queue.takeRequests() }.map(\.connection.slot)
        #expect(rest == Array(3...15) + [1])
        #expect(queue.takeRequests().isEmpty)
    }

    @Test func `reads of a connection that closes are forgotten, changes and messages not`() throws
    {
        let queue = APIQueue()
        func fill(_ kind: String) throws -> Int {
            var count = 0
            while queue.add(try request(kind, slot: 9)) { count += 1 }
            return count
        }
        for slot in 0..<14 { #expect(queue.add(try request("app.list", slot: slot))) }
        #expect(queue.add(try request("session.kick", slot: 14)))
        #expect(queue.add(try request("message.send", slot: 15)))
        for slot in 1..<16 {
            queue.abandonReads(of: ConnectionID(loop: 0, slot: slot, generation: 1))
        }
        let taken = queue.takeRequests()
        #expect(taken.map(\.connection.slot) == [15, 0])
        #expect(try fill("app.list") == 14)
        // A list that is under way when its connection closes does not go on.
        queue.abandonReads(of: taken[1].connection)
        queue.addAgain(taken[1])
        #expect(try fill("app.list") == 1)
        #expect(queue.takeRequests().map(\.connection.slot) == [14])
    }

    @Test(arguments: [("app.list", 64), ("message.send", 1_024)])
    func `has room for as many as its limits say, and again when they are answered`(
        kind: String, countMaximum: Int
    ) throws {
        let queue = APIQueue()
        for round in 1...2 {
            for number in 0..<countMaximum {
                #expect(queue.add(try spread(kind, number, byteCount: 100)))
            }
            #expect(!queue.add(try spread(kind, 99, byteCount: 100)))
            // One kind does not take the room of the other.
            let other = try request(
                kind == "app.list" ? "message.send" : "app.list", user: 99, byteCount: 1)
            #expect(queue.add(other))
            var taken: [APIRequest] = []
            while taken.count < countMaximum + 1 {
                let next = queue.takeRequests()
                guard !next.isEmpty else { break }
                taken += next
            }
            #expect(taken.count == countMaximum + 1 && queue.takeRequests().isEmpty)
            // What is executed still has its room.
            #expect(!queue.add(try spread(kind, 99, byteCount: 1)))
            for request in taken { queue.finish(request, with: HTTPResponse(.ok)) }
            #expect(queue.takeAnswers(for: 0).count == taken.count)
            #expect(queue.answeredCount == UInt64(round * taken.count))
        }
    }

    @Test func `lets a batch have as many messages without an answer as may wait for one`() {
        let queue = APIQueue()
        func countUntilFull(_ byteCount: Int, batch: UInt64) -> Int {
            var count = 1
            while !queue.noteUnstored(byteCount: byteCount, batch: batch) { count += 1 }
            return count
        }
        #expect(countUntilFull(0, batch: 1) == 1_024)
        // Another batch has room again.
        #expect(countUntilFull(0, batch: 2) == 1_024)
        #expect(countUntilFull(65_536, batch: 3) == 64)
        #expect(!queue.noteUnstored(byteCount: 65_536, batch: 4))
    }

    @Test func `has room for 4 MiB of content of users`() throws {
        let queue = APIQueue()
        for number in 0..<64 {
            #expect(queue.add(try spread("message.send", number, byteCount: 65_536)))
        }
        #expect(!queue.add(try spread("message.send", 99, byteCount: 1)))
        #expect(queue.add(try spread("app.list", 99)))
        // The others have a quarter and a half more.
        for (kind, count) in [(APIPrincipal.Kind.appKey, 16), (.operator, 16)] {
            for _ in 0..<count {
                #expect(
                    queue.add(try request("message.send", by: kind, app: 99, byteCount: 65_536)))
            }
            #expect(
                !queue.add(try request("message.send", by: kind, app: 99, byteCount: 1)))
        }
    }

    @Test(arguments: [("app.list", 64), ("message.send", 1_024)])
    func `keeps room for app keys, and more for operators`(kind: String, usersMaximum: Int) throws {
        let queue = APIQueue()
        for number in 0..<usersMaximum { #expect(queue.add(try spread(kind, number))) }
        #expect(!queue.add(try spread(kind, 99)))
        for principal in [APIPrincipal.Kind.appKey, .operator] {
            for _ in 0..<usersMaximum / 4 {
                #expect(queue.add(try request(kind, by: principal, app: 99)))
            }
            #expect(!queue.add(try request(kind, by: principal, app: 99)))
        }
    }
}
