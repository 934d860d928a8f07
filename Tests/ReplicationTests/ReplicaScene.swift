// One replica with the time and the commands of a test.

import BrokerCore
import Primitives

@testable import Replication

struct ReplicaScene {
    static let lease: UInt64 = 2_000
    static let own = NodeLife(name: Array("a".utf8), life: 1)
    static let other = NodeLife(name: Array("b".utf8), life: 2)

    var replica: Replica
    var now = Instant(milliseconds: 50_000)
    var commands: [ReplicaCommand] = []
    /// What the replica last tried to append.
    private(set) var bytes: [UInt8] = []
    private(set) var requests: [LogRequest] = []
    private(set) var reads: [LogRequest] = []

    init(position: ReplicaPosition? = .founding(RecordFixture.cluster)) {
        replica = Replica(
            ReplicaSettings(node: Self.own, leaseMilliseconds: Self.lease), position: position,
            at: ReplicaTime(now: now, moment: RecordFixture.moment), commands: &commands)
    }

    /// A primary in term 1 whose lease began now.
    static func primary() -> ReplicaScene {
        var scene = ReplicaScene()
        scene.pass(lease * 5 / 4)
        scene.answer(.committed(LogSequence(raw: 1)))
        scene.commands = []
        return scene
    }

    private var time: ReplicaTime { ReplicaTime(now: now, moment: RecordFixture.moment) }

    mutating func handle(_ event: ReplicaEvent) {
        let before = commands.count
        replica.handle(event, at: time, commands: &commands)
        for command in commands[before...] {
            switch command {
            case .append(let bytes, _, let request):
                self.bytes = bytes
                requests.append(request)
            case .read(_, let request): reads.append(request)
            default: break
            }
        }
    }

    mutating func pass(_ milliseconds: UInt64) {
        now = now.advanced(byMilliseconds: milliseconds)
        handle(.timePassed)
    }

    /// The outcome of the last try, or of an earlier one.
    mutating func answer(_ outcome: AppendOutcome, back: Int = 0) {
        handle(.log(.appended(requests[requests.count - 1 - back], outcome)))
    }

    mutating func answerRead(_ outcome: ReadOutcome) {
        handle(.log(.read(reads[reads.count - 1], outcome)))
    }

    mutating func follow(_ sequence: UInt64, _ bytes: [UInt8]) {
        handle(.log(.followed(LogSequence(raw: sequence), record: bytes)))
    }

    mutating func decide(hasSends: Bool = true) {
        handle(.decided(DecidedBatch(StoreBatch(), BatchOutcome()).encoded!, hasSends: hasSends))
    }

    /// A record of the other node.
    static func record(term: UInt64, number: UInt64, _ content: LogContent) -> [UInt8] {
        LogRecord(
            cluster: RecordFixture.cluster, term: Term(raw: term), number: number,
            moment: RecordFixture.moment, content: content
        ).encoded
    }

    /// The commands since the last call, in short.
    mutating func takeTold() -> [String] {
        defer { commands = [] }
        return commands.map { command in
            switch command {
            case .append(_, let last, _): "append after \(last.raw)"
            case .read(let sequence, _): "read \(sequence.raw)"
            case .follow(let sequence): "follow \(sequence.raw)"
            case .trim(let sequence): "trim \(sequence.raw)"
            case .apply(let position, _, _): "apply \(position.sequence.raw)"
            case .lead(let term): "lead \(term.raw)"
            case .commit(let position): "commit \(position.sequence.raw)"
            case .refuseSends: "refuse sends"
            case .copyStore: "copy"
            case .fence(let cause): "fence \(cause)"
            }
        }
    }
}
