// Three nodes on three real servers: one of them is the primary, and another one takes over. What a
// primary has acknowledged is in every store, and a deposed one acknowledges nothing.

import Foundation
import NATSLog
import Replication
import TestSurroundings
import Testing

extension NATSLogTests {
    @Suite(
        .serialized, .timeLimit(.minutes(20)),
        .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"))
    struct TakeoverTests {
        private struct Cluster {
            let servers: NATSServers
            let sends = TestSends()
            let nodes: [TestNode]

            init() throws {
                let servers = try NATSServers()
                self.servers = servers
                let sends = sends
                nodes = try ["a", "b", "c"].map {
                    try TestNode($0, on: settings(servers, asksSync: false), sends: sends)
                }
            }

            /// The nodes that believe to be the primary.
            var primaries: [TestNode] {
                nodes.filter { $0.view.withLock { $0.role == .primary && !$0.isStopped } }
            }

            /// Waits until another node than `former` acknowledges.
            func primary(otherThan former: TestNode? = nil) throws -> TestNode {
                let before = sends.state.withLock { $0.counts }
                return try wait("a primary that acknowledges") {
                    primaries.first { node in
                        node !== former
                            && sends.state.withLock { ($0.counts[node.name] ?? 0) }
                                > before[node.name] ?? 0
                    }
                }
            }

            func wait<Value>(_ what: String, _ find: () throws -> Value?) throws -> Value {
                let end = Date(timeIntervalSinceNow: 60 * Double(Sanitizer.patience))
                while Date() < end {
                    if let value = try find() { return value }
                    _ = sends.signal.wait(milliseconds: 20)
                }
                throw LogFailure(
                    description: "no \(what): \(nodes.map { $0.view.withLock { "\($0.role)" } })")
            }

            /// Ends all nodes, and compares what they have.
            func finish() throws {
                for node in nodes { node.stop() }
                // Before the views: a node may be in its last step.
                let acknowledged = sends.state.withLock { $0.acknowledged }
                let views = nodes.map { $0.view.withLock { $0 } }
                for view in views { #expect(view.faults == []) }
                // Every store is a prefix of the same history. A primary does not apply its own
                // heartbeats, so only batches are compared.
                let histories = views.map { $0.applied.filter { $0.number > 0 } }
                let longest = try #require(histories.max { $0.count < $1.count })
                for history in histories {
                    #expect(zip(history, longest).allSatisfy { $0 == $1 })
                }
                let numbers = longest.map(\.number)
                #expect(Set(numbers).count == numbers.count)
                #expect(!acknowledged.isEmpty)
                #expect(Set(acknowledged).isSubset(of: numbers))
            }
        }

        @Test func `a node that dies is followed by another, and nothing is lost`() async throws {
            try await onThread {
                let cluster = try Cluster()
                let first = try cluster.primary()
                first.stop()
                let begin = Date()
                let second = try cluster.primary(otherThan: first)
                // The lease, a quarter of it, and an append.
                let silence = 1.25 * Double(TestNode.leaseMilliseconds) / 1_000
                #expect(
                    Date().timeIntervalSince(begin) < silence + 4 * Double(Sanitizer.patience))
                second.stop()
                _ = try cluster.primary(otherThan: second)
                try cluster.finish()
            }
        }

        @Test
        func `a node that was paused for longer than its lease acknowledges nothing afterwards`()
            async throws
        {
            try await onThread {
                let cluster = try Cluster()
                let first = try cluster.primary()
                first.pause(true)
                let second = try cluster.primary(otherThan: first)
                let told = cluster.sends.state.withLock { $0.counts[first.name] ?? 0 }
                first.pause(false)
                try cluster.wait("end of the deposed primary") {
                    first.view.withLock { $0.fence } != nil ? () : nil
                }
                #expect(cluster.sends.state.withLock { $0.counts[first.name] ?? 0 } == told)
                #expect(cluster.primaries.map(\.name) == [second.name])
                try cluster.finish()
            }
        }

        @Test func `the leader of the stream dies, and the primary stays or is followed`()
            async throws
        {
            try await onThread {
                let cluster = try Cluster()
                let first = try cluster.primary()
                let administration = try LogClient(
                    settings(cluster.servers, asksSync: false), byteCountMaximum: nil)
                let name = try cluster.wait("a leader of the stream") {
                    (try? administration.log.describe())?.leader
                }
                let index = try #require(cluster.servers.index(named: name))
                cluster.servers.kill(index)
                _ = try cluster.wait("another leader of the stream") {
                    let leader = (try? administration.log.describe())?.leader
                    return leader == nil || leader == name ? nil : leader
                }
                _ = try cluster.primary()
                // With the leader and the primary gone together.
                try cluster.servers.start(index)
                first.stop()
                _ = try cluster.primary(otherThan: first)
                try cluster.finish()
            }
        }
    }
}
