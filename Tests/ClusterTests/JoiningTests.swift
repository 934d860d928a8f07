// A node that the log cannot serve any more, or from which its store was taken, gets a copy of
// another node's store by itself, whoever dies meanwhile.

import Administration
import Foundation
import TestSurroundings
import Testing

extension ClusterTests {
    @Suite(
        .serialized, .timeLimit(.minutes(20)),
        .enabled(if: NATSServers.isInstalled, "nats-server cannot be installed from PyPI"))
    struct JoiningTests {
        @Test func `a node without a store gets a copy, and one that was away too long another`()
            async throws
        {
            try await onThread {
                let cluster = try TestCluster()
                let primary = try cluster.primary(otherThan: nil)
                try cluster.createApp(on: primary)
                let joining = try #require(cluster.nodes.first { $0 !== primary })
                let other = try #require(cluster.nodes.last { $0 !== primary })
                try retain(20, from: 0, on: primary)
                try stop(joining)
                try FileManager.default.removeItem(atPath: joining.data)
                try trim(cluster, primary)
                try cluster.start(joining)
                try awaitCopy(1, of: joining, in: cluster, primary)

                try stop(joining)
                try retain(20, from: 20, on: primary)
                try trim(cluster, primary)
                try cluster.start(joining)
                try awaitCopy(2, of: joining, in: cluster, primary)
                // The other standby has made both, and goes on.
                #expect(log(other).contains("a copy of its store for another one"))

                try stop(joining)
                try stop(other)
                let (rows, expected) = (
                    try StoreRows(directory: joining.data), try StoreRows(directory: other.data)
                )
                #expect(rows == expected, "\(rows.counts), \(expected.counts)")
            }
        }

        @Test func `whoever dies during a copy, the next attempt gets one`() async throws {
            try await onThread {
                let cluster = try TestCluster()
                let primary = try cluster.primary(otherThan: nil)
                try cluster.createApp(on: primary)
                let joining = try #require(cluster.nodes.first { $0 !== primary })
                let other = try #require(cluster.nodes.last { $0 !== primary })
                try retain(250, from: 0, on: primary)
                try stop(joining)
                try FileManager.default.removeItem(atPath: joining.data)
                try trim(cluster, primary)
                var found = try killInCopy(joining, in: cluster)
                for _ in 0..<10 where found == nil {
                    try stop(joining)
                    try FileManager.default.removeItem(atPath: joining.data)
                    found = try killInCopy(joining, in: cluster)
                }
                let copyCount = try #require(found, "each kill came after the end of the copy")
                let begun = count(Self.begins, in: joining)
                other.process?.signal(SIGKILL)
                _ = try other.process?.waitForEnd()
                // It is the only one, with the primary, of which the next copy is.
                try cluster.wait("another attempt", seconds: 120) {
                    count(Self.begins, in: joining) > begun
                        || count(Self.ends, in: joining) > copyCount ? () : nil
                }
                try cluster.start(other)
                try awaitCopy(copyCount + 1, of: joining, in: cluster, primary)
                // Both are there: one dies, and the other two go on.
                primary.process?.signal(SIGKILL)
                _ = try cluster.primary(otherThan: primary)
            }
        }

        // MARK: -

        private static let begins = "this node gets a copy of the store of"
        private static let ends = "this node has a copy of the store of"

        private func log(_ node: TestCluster.Node) -> String {
            (try? String(contentsOfFile: node.log, encoding: .utf8)) ?? ""
        }

        private func count(_ text: String, in node: TestCluster.Node) -> Int {
            log(node).components(separatedBy: text).count - 1
        }

        private func stop(_ node: TestCluster.Node) throws {
            node.process?.signal(SIGTERM)
            #expect(try node.process?.waitForEnd() == 0)
        }

        private func show(_ node: TestCluster.Node) throws -> ShowCluster.Reply {
            try AdministrationClient(socketPath: "\(node.data)/\(ClusterLine.socketName)")
                .send(ShowCluster())
        }

        /// Kills a node without a store in the middle of its copy, and starts it again, so that it
        /// gets another one.
        ///
        /// - Returns: the copies that it had got before that start; nil if it has got all of its
        ///   copy before it was killed, as it may while this thread is paused.
        private func killInCopy(
            _ node: TestCluster.Node, in cluster: TestCluster
        ) throws -> Int? {
            let standby = "event=cluster_standby"
            var begun = count(Self.begins, in: node)
            let complete = count(Self.ends, in: node)
            try cluster.start(node)
            try cluster.wait("beginning") { count(Self.begins, in: node) > begun ? () : nil }
            node.process?.signal(SIGKILL)
            _ = try node.process?.waitForEnd()
            begun = count(Self.begins, in: node)
            let (copyCount, standbyCount) = (count(Self.ends, in: node), count(standby, in: node))
            try cluster.start(node)
            let isInTime = try cluster.wait("another beginning") { () -> Bool? in
                if count(Self.begins, in: node) > begun { return true }
                return count(standby, in: node) > standbyCount ? false : nil
            }
            guard isInTime || copyCount > complete else {
                throw ClusterFailure(
                    description: "\(node.name) goes on with a copy that is not complete: "
                        + cluster.logs)
            }
            return isInTime ? copyCount : nil
        }

        /// Waits until a node has got so many copies and follows the log.
        private func awaitCopy(
            _ copyCount: Int, of node: TestCluster.Node, in cluster: TestCluster,
            _ primary: TestCluster.Node
        ) throws {
            try cluster.wait("copy \(copyCount) of \(node.name)", seconds: 120) {
                count(Self.ends, in: node) >= copyCount ? () : nil
            }
            try cluster.wait("node \(node.name) that follows") {
                let shown = try show(primary).nodes.first { $0.name == node.name }
                return shown.map { $0.heardMilliseconds < 2_000 && $0.lagRecords < 20 } == true
                    ? () : nil
            }
        }

        /// Removes the records that the stores of the nodes that run have.
        private func trim(_ cluster: TestCluster, _ primary: TestCluster.Node) throws {
            let last = try cluster.wait("stores with all records") {
                let shown = try show(primary).nodes.filter { $0.heardMilliseconds < 2_000 }
                let isThere = shown.count == 2 && shown.allSatisfy { $0.lagRecords < 20 }
                return isThere ? shown.map(\.sequence).min() : nil
            }
            try cluster.administerStream("PURGE", "{\"seq\": \(last + 1)}")
            try cluster.wait("log without these records") {
                (try show(primary).firstRecord ?? 0) > last ? () : nil
            }
        }

        /// Publishes retained messages of 200 KB, each on a topic of its own.
        private func retain(_ count: Int, from first: Int, on node: TestCluster.Node) throws {
            let filler = try RetainedFiller(node.port)
            for number in first..<first + count {
                try filler.publish("kept/\(number)", byteCount: 200_000)
            }
        }
    }
}
