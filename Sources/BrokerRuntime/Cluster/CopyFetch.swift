// How a node without a usable store gets a copy of another node's, on a thread of its own: it
// collects the reports of the other nodes, asks one of them, and takes the copy part by part. If
// the other node ends meanwhile, the attempt fails, and the next one begins anew.

import BrokerCore
import Configuration
import Glibc
import Primitives
import QueueStore
import Replication
import Threads

/// One attempt, until it has ended.
final class CopyFetch: Sendable {
    /// Why an attempt has failed, in words for an operator.
    struct Failure: Error {
        let text: String
        /// Whether the other node could not give its copy. The fault is this node's otherwise.
        var isOfSource = true
    }

    private struct State {
        var outcome: Result<Void, Failure>?
        /// The node that was asked.
        var source: [UInt8]?
        var isStopped = false
        var thread: Thread?
    }

    private let state = Locked(State())
    private let nodeLog: any NodeLog
    private let directory: String
    /// Of this node in the log, which may have the shard, and in its reports.
    private let name: String
    private let nodeName: [UInt8]
    /// Nil for a node that belongs to no cluster yet.
    private let cluster: StoreIdentity?
    private let sources: CopySources
    private let log: LogWriter

    /// Begins.
    ///
    /// - Parameters:
    ///   - name: of the node in the log.
    ///   - cluster: that of the store which the copy replaces; nil without one.
    ///   - sources: what earlier attempts have shown.
    init(
        _ settings: BrokerSettings, named name: String, of cluster: StoreIdentity?,
        from sources: CopySources, over nodeLog: any NodeLog, log: LogWriter
    ) {
        self.sources = sources
        self.nodeLog = nodeLog
        self.log = log
        self.cluster = cluster
        directory = settings.dataDirectory
        self.name = name
        nodeName = Array((settings.cluster.node ?? "").utf8)
        let thread = Thread.attempt(name: "copy") { self.run() }
        state.withLock { state in
            state.thread = thread
            if thread == nil {
                state.outcome = .failure(Failure(text: "the system has no further thread"))
            }
        }
    }

    /// How it has ended; nil while it runs.
    var outcome: Result<Void, Failure>? { state.withLock { $0.outcome } }

    /// The name of the node that was asked; nil before that.
    var source: [UInt8]? { state.withLock { $0.source } }

    /// Ends it, at the latest after the time of one question.
    func stop() {
        let thread = state.withLock { state in
            state.isStopped = true
            defer { state.thread = nil }
            return state.thread
        }
        thread?.join()
    }

    // MARK: The thread

    private func run() {
        let outcome: Result<Void, Failure>
        do throws(Failure) {
            try fetch()
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        state.withLock { $0.outcome = outcome }
    }

    private func checkStop() throws(Failure) {
        guard !state.withLock({ $0.isStopped }) else { throw Failure(text: "the node stops") }
    }

    private func fetch() throws(Failure) {
        let other = try findNode()
        state.withLock { $0.source = other.name }
        tell("this node gets a copy of the store of \(other.text)")
        let copy = try awaitCopy(of: other)
        if let cluster, copy.cluster != cluster {
            throw Failure(text: "the node \(other.text) belongs to another cluster")
        }
        var file = try storing { () throws(StoreError) in
            try ArrivingCopy(directory: directory, byteCount: copy.byteCount)
        }
        try take(copy, from: other, into: &file)
        try storing { () throws(StoreError) in try file.publish() }
        tell(
            "this node has a copy of the store of \(other.text): \(copy.byteCount) bytes, at "
                + "record \(copy.sequence.raw)")
    }

    private func tell(_ text: String) {
        log.write(.info, .clusterCopy, fields: ["node": .text(name), "detail": .text(text)])
    }

    /// One of the nodes that are heard. While the best of them has to wait, because its copies have
    /// failed, the reports are collected again: they get old, and a better node may come.
    private func findNode() throws(Failure) -> NodeLife {
        while true {
            guard let found = sources.choose(from: try collectReports()) else {
                throw Failure(text: "no other node of the cluster is heard")
            }
            let now = ClusterGate.nowMilliseconds
            if sources.waitMilliseconds(before: found, now: now) == 0 { return found.node }
        }
    }

    private func collectReports() throws(Failure) -> [NodeReport] {
        var reports: [[UInt8]: NodeReport] = [:]
        let end = ClusterGate.nowMilliseconds + ClusterLimits.copyListenMilliseconds
        while ClusterGate.nowMilliseconds < end {
            try checkStop()
            while let bytes = nodeLog.takeAnnouncement() {
                guard let report = NodeReport(decoding: bytes),
                    report.cluster == cluster ?? report.cluster,
                    report.node.name != nodeName,
                    reports.count < ClusterLimits.nodesMaximum
                else { continue }
                reports[report.node.name] = report
            }
            _ = poll(nil, 0, 50)
        }
        return Array(reports.values)
    }

    /// Asks until there is an answer.
    private func ask(
        _ question: CopyQuestion, of other: NodeLife
    ) throws(Failure) -> CopyAnswer {
        for _ in 0..<ClusterLimits.copyTriesMaximum {
            try checkStop()
            let begin = ClusterGate.nowMilliseconds
            let bytes = nodeLog.ask(other.life, question.encoded)
            if let answer = bytes.flatMap(CopyAnswer.init(decoding:)) { return answer }
            // Nobody may be there who could answer, which is told at once.
            if ClusterGate.nowMilliseconds < begin + 1_000 { _ = poll(nil, 0, 500) }
        }
        throw Failure(text: "the node \(other.text) does not answer")
    }

    private func awaitCopy(of other: NodeLife) throws(Failure) -> StoreCopy {
        while true {
            switch try ask(.begin, of: other) {
            case .ready(let copy): return copy
            case .pending: _ = poll(nil, 0, ClusterLimits.copyPendingMilliseconds)
            case .refused(let text):
                let words = String(decoding: text, as: UTF8.self)
                throw Failure(text: "the node \(other.text) can make no copy: \(words)")
            case .part, .unknown: throw Failure(text: "the node \(other.text) answers otherwise")
            }
        }
    }

    private func take(
        _ copy: StoreCopy, from other: NodeLife, into file: inout ArrivingCopy
    ) throws(Failure) {
        var sum = StoreCopy.emptyChecksum
        while file.byteCount < copy.byteCount {
            let wanted = UInt64(file.byteCount)
            let answer = try ask(.part(copy: copy.number, offset: wanted), of: other)
            guard case .part(copy.number, wanted, let part) = answer, !part.isEmpty else {
                throw Failure(
                    text: "the node \(other.text) has no more of its copy after \(wanted) of "
                        + "\(copy.byteCount) bytes")
            }
            sum.mix(part: part)
            try storing { () throws(StoreError) in try file.append(part) }
        }
        guard UInt64(file.byteCount) == copy.byteCount, sum.value == copy.checksum else {
            throw Failure(text: "the copy of the node \(other.text) fails its checksum")
        }
    }

    private func storing<Value: ~Copyable>(
        _ body: () throws(StoreError) -> Value
    ) throws(Failure) -> Value {
        do throws(StoreError) {
            return try body()
        } catch {
            throw Failure(text: "\(error)", isOfSource: false)
        }
    }
}

extension NodeLife {
    /// The name for operators.
    fileprivate var text: String { String(decoding: name, as: UTF8.self) }
}
