// Makes a copy of a node's store for nodes that need one, and answers their questions. The node
// goes on meanwhile: its thread takes a snapshot between two batches, and another one copies it.

import BrokerCore
import Credentials
import Primitives
import QueueStore
import Replication
import Threads

/// The copy that a node has for others, one at a time.
final class CopyService: Sendable {
    /// A copy that is complete.
    private struct Ready {
        var description: StoreCopy
        var file: UnnamedCopy
    }

    private enum Phase {
        case none
        /// The node's thread has to take a snapshot.
        case wanted
        case making(CopyProgress)
        case ready(Ready)
        /// Told to the next node that asks.
        case failed(String)
    }

    private struct State {
        var phase = Phase.none
        var thread: Thread?
        /// When a node asked last, on ``ClusterGate/nowMilliseconds``.
        var askedMilliseconds: UInt64 = 0
    }

    private let state = Locked(State())
    private let name: String
    private let directory: String
    private let cluster: StoreIdentity
    private let log: LogWriter
    private let wakeNode: @Sendable () -> Void
    private let firstRecord: @Sendable () -> LogSequence?

    /// - Parameters:
    ///   - name: of the node in the log.
    ///   - wakeNode: wakes the node's thread.
    ///   - firstRecord: the first record of the log at the last look; nil if it is not known.
    init(
        _ directory: String, named name: String, of cluster: StoreIdentity, log: LogWriter,
        wakeNode: @escaping @Sendable () -> Void,
        firstRecord: @escaping @Sendable () -> LogSequence?
    ) {
        self.name = name
        self.directory = directory
        self.cluster = cluster
        self.log = log
        self.wakeNode = wakeNode
        self.firstRecord = firstRecord
    }

    // MARK: Any thread

    /// The answer to a question's bytes.
    func answer(_ bytes: [UInt8]) -> [UInt8] {
        guard let question = CopyQuestion(decoding: bytes) else {
            return CopyAnswer.unknown.encoded
        }
        return answer(question).encoded
    }

    private func answer(_ question: CopyQuestion) -> CopyAnswer {
        switch question {
        case .begin: return begin()
        case .part(let number, let offset):
            let found = state.withLock { state -> Ready? in
                state.askedMilliseconds = ClusterGate.nowMilliseconds
                guard case .ready(let ready) = state.phase else { return nil }
                return ready
            }
            guard let found, found.description.number == number,
                offset < found.description.byteCount
            else { return .unknown }
            do throws(StoreError) {
                return .part(
                    copy: number, offset: offset,
                    try found.file.read(
                        at: Int(offset), count: ReplicationLimits.copyPartByteCount))
            } catch {
                return .refused(Array("\(error)".utf8))
            }
        }
    }

    private func begin() -> CopyAnswer {
        let first = firstRecord() ?? .start
        let (answer, isNew) = state.withLock { state -> (CopyAnswer, Bool) in
            state.askedMilliseconds = ClusterGate.nowMilliseconds
            switch state.phase {
            case .wanted, .making: return (.pending, false)
            case .ready(let ready) where ready.description.sequence.next >= first:
                return (.ready(ready.description), false)
            case .none, .ready:
                state.phase = .wanted
                return (.pending, true)
            case .failed(let text):
                state.phase = .none
                return (.refused(Array(text.utf8)), false)
            }
        }
        if isNew { wakeNode() }
        return answer
    }

    /// Whether a snapshot of the store may be there.
    var isMaking: Bool {
        state.withLock { if case .making = $0.phase { true } else { false } }
    }

    // MARK: The node's thread

    /// Takes the snapshot that is wanted, and forgets a copy that nobody asks for any more.
    func serve(_ store: borrowing LMDBQueueStore) {
        let isWanted = state.withLock { state in
            switch state.phase {
            case .wanted: return true
            case .ready:
                let now = ClusterGate.nowMilliseconds
                if now - min(state.askedMilliseconds, now) > ClusterLimits.copyIdleMilliseconds {
                    state.phase = .none
                }
                return false
            case .none, .making, .failed: return false
            }
        }
        guard isWanted else { return }
        joinLast()
        let (snapshot, sequence): (StoreSnapshot, LogSequence)
        do throws(StoreError) {
            snapshot = try store.snapshot()
            sequence = store.writtenPosition?.sequence ?? .start
        } catch {
            return fail("\(error)")
        }
        let progress = CopyProgress()
        state.withLock { $0.phase = .making(progress) }
        let thread = Thread.attempt(name: "copy") {
            self.make(snapshot, at: sequence, progress)
        }
        if thread == nil {
            snapshot.end()
            fail("the system has no further thread")
        }
        state.withLock { $0.thread = thread }
    }

    /// Ends the making of a copy, before the store is closed. A complete copy stays.
    func stopMaking() {
        state.withLock { if case .making(let progress) = $0.phase { progress.cancel() } }
        joinLast()
    }

    private func joinLast() {
        let thread = state.withLock { state in
            defer { state.thread = nil }
            return state.thread
        }
        thread?.join()
    }

    // MARK: The copy's thread

    private func make(
        _ snapshot: StoreSnapshot, at sequence: LogSequence, _ progress: CopyProgress
    ) {
        defer { snapshot.end() }
        do throws(StoreError) {
            let file = try snapshot.copyForNode(in: directory, progress: progress)
            var sum = StoreCopy.emptyChecksum
            var offset = 0
            while offset < file.byteCount {
                let part = try file.read(at: offset, count: ReplicationLimits.copyPartByteCount)
                sum.mix(part: part)
                offset += part.count
                try progress.check()
            }
            let description = StoreCopy(
                number: SystemRandom.number(), cluster: cluster, sequence: sequence,
                byteCount: UInt64(file.byteCount), checksum: sum.value)
            log.write(
                .info, .clusterCopy,
                fields: [
                    "node": .text(name),
                    "detail": "this node has a copy of its store for another one",
                    "bytes": .number(file.byteCount), "sequence": .number(sequence.raw),
                ])
            state.withLock { state in
                state.phase = .ready(Ready(description: description, file: file))
                state.askedMilliseconds = ClusterGate.nowMilliseconds
            }
        } catch {
            fail("\(error)")
        }
    }

    private func fail(_ text: String) {
        log.write(
            .warning, .clusterCopy,
            fields: [
                "node": .text(name),
                "detail": .text("no copy of this node's store could be made: \(text)"),
            ])
        state.withLock { $0.phase = .failed(text) }
    }
}
