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
    private static func credential(_ kind: APIPrincipal.Kind, user: Int) -> APICredential {
        func presented(_ kind: CredentialHolder.Kind) -> APICredential {
            .presented(
                .token(identifier: [], Digest(words: (0, 0, 0, 0))),
                CredentialHolder(app: [97], kind: kind, ownRights: nil, rights: Rights()))
        }
        switch kind {
        case .operator:
            return .operator(
                Operators.Operator(
                    name: "a", role: .own, madeUnixSeconds: 0, expiresUnixSeconds: nil,
                    digest: SHA256Digest(of: [UInt8]().span.bytes)))
        case .appKey: return presented(.appKey(name: [107], role: .operate))
        case .user: return presented(.user([117, UInt8(48 + user)], device: nil))
        }
    }

    private func request(
        _ kind: String, by principal: APIPrincipal.Kind = .user, user: Int = 0, byteCount: Int
    ) throws -> APIRequest {
        let operation = try #require(
            APIOperation.all.first { $0.kind.rawValue == kind })
        return APIRequest(
            connection: ConnectionID(loop: 0, slot: 0, generation: 1), loop: 0,
            operation: operation, path: [], query: [],
            content: [UInt8](repeating: 0, count: byteCount),
            credential: Self.credential(principal, user: user),
            actingUser: nil, address: .local, target: "")
    }

    @Test func `one user has a part of the places of messages, with all tokens`() throws {
        let queue = APIQueue()
        for _ in 0..<APIQueue.messagesPerUserMaximum {
            #expect(queue.add(try request("message.send", byteCount: 1)))
        }
        #expect(!queue.add(try request("message.send", byteCount: 1)))
        #expect(queue.add(try request("message.send", user: 1, byteCount: 1)))
        #expect(queue.add(try request("message.send", by: .appKey, byteCount: 1)))
        let first = try #require(queue.takeRequests().first)
        queue.finish(first, with: HTTPResponse(.ok))
        #expect(queue.add(try request("message.send", byteCount: 1)))
        #expect(!queue.add(try request("message.send", byteCount: 1)))
    }

    @Test(arguments: [("app.list", 64), ("message.send", 1_024)])
    func `has room for as many as its limits say, and again when they are answered`(
        kind: String, countMaximum: Int
    ) throws {
        let queue = APIQueue()
        for round in 1...2 {
            for number in 0..<countMaximum {
                let user = number / APIQueue.messagesPerUserMaximum
                #expect(queue.add(try request(kind, user: user, byteCount: 100)))
            }
            #expect(!queue.add(try request(kind, user: 9, byteCount: 100)))
            // One kind does not take the room of the other.
            let other = try request(
                kind == "app.list" ? "message.send" : "app.list", user: 9, byteCount: 1)
            #expect(queue.add(other))
            let taken = queue.takeRequests()
            #expect(taken.count == countMaximum + 1 && queue.takeRequests().isEmpty)
            // What is executed still has its room.
            #expect(!queue.add(try request(kind, user: 9, byteCount: 1)))
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
        for _ in 0..<64 { #expect(queue.add(try request("message.send", byteCount: 65_536))) }
        #expect(!queue.add(try request("message.send", byteCount: 1)))
        #expect(queue.add(try request("app.list", byteCount: 0)))
        // The others have a quarter and a half more.
        for (kind, count) in [(APIPrincipal.Kind.appKey, 16), (.operator, 16)] {
            for _ in 0..<count {
                #expect(queue.add(try request("message.send", by: kind, byteCount: 65_536)))
            }
            #expect(!queue.add(try request("message.send", by: kind, byteCount: 1)))
        }
    }

    @Test(arguments: [("app.list", 64), ("message.send", 1_024)])
    func `keeps room for app keys, and more for operators`(kind: String, usersMaximum: Int) throws {
        let queue = APIQueue()
        for number in 0..<usersMaximum {
            let user = number / APIQueue.messagesPerUserMaximum
            #expect(queue.add(try request(kind, user: user, byteCount: 0)))
        }
        #expect(!queue.add(try request(kind, user: 9, byteCount: 0)))
        for principal in [APIPrincipal.Kind.appKey, .operator] {
            for _ in 0..<usersMaximum / 4 {
                #expect(queue.add(try request(kind, by: principal, byteCount: 0)))
            }
            #expect(!queue.add(try request(kind, by: principal, byteCount: 0)))
        }
    }
}
