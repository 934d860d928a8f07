// Transcripts of one replica: what happened, and what it asked for.

import BrokerCore
import Primitives
import Testing

@testable import Replication

@Suite struct `A standby` {
    @Test func `follows, and takes over after a lease and a quarter of silence`() {
        var scene = ReplicaScene()
        #expect(scene.takeTold() == ["follow 1"])
        scene.pass(2_499)
        #expect(scene.takeTold() == [])
        scene.pass(1)
        #expect(scene.takeTold() == ["append after 0"])
        scene.answer(.committed(LogSequence(raw: 1)))
        #expect(scene.takeTold() == ["apply 1", "lead 1"])
        #expect(scene.replica.role == .primary)
        #expect(scene.replica.mayEmit(at: scene.now))
    }

    @Test func `takes over only behind what its store has applied`() {
        var scene = ReplicaScene()
        scene.follow(1, ReplicaScene.record(term: 0, number: 0, .takeover(ReplicaScene.other)))
        #expect(scene.takeTold() == ["follow 1", "apply 1"])
        scene.pass(10_000)
        #expect(scene.takeTold() == [])
        scene.handle(.applied(LogSequence(raw: 1)))
        #expect(scene.takeTold() == ["append after 1"])
    }

    @Test func `whose takeover is behind another record follows that one`() {
        var scene = ReplicaScene()
        scene.pass(2_500)
        scene.answer(.wrongLast)
        #expect(scene.takeTold() == ["follow 1", "append after 0", "read 1"])
        scene.answerRead(
            .record(ReplicaScene.record(term: 0, number: 0, .takeover(ReplicaScene.other))))
        #expect(scene.takeTold() == ["apply 1"])
        #expect(scene.replica.role == .standby)
        // Late outcomes of the takeover mean nothing.
        scene.answer(.wrongLast)
        #expect(scene.takeTold() == [])
    }

    @Test func `says that the log has no room for its takeover`() {
        var scene = ReplicaScene()
        scene.pass(2_500)
        #expect(!scene.replica.isTakeoverRefused)
        scene.answer(.full)
        #expect(scene.replica.isTakeoverRefused)
        scene.pass(500)
        scene.answer(.committed(LogSequence(raw: 1)))
        #expect(!scene.replica.isTakeoverRefused && scene.replica.role == .primary)
    }

    @Test func `recognises its takeover by its bytes, wherever it sees it`() {
        var scene = ReplicaScene()
        scene.pass(2_500)
        scene.answer(.unknown(.timeout))
        scene.follow(1, scene.bytes)
        #expect(scene.takeTold().last == "lead 1")
        // The time of the first try counts.
        #expect(scene.replica.leaseEnd == scene.now.advanced(byMilliseconds: 2_000))
    }

    @Test func `reads a record that delivery left out`() {
        var scene = ReplicaScene()
        let first = ReplicaScene.record(term: 0, number: 0, .takeover(ReplicaScene.other))
        scene.follow(2, ReplicaScene.record(term: 1, number: 1, .heartbeat))
        scene.answerRead(.record(first))
        #expect(scene.takeTold() == ["follow 1", "read 1", "apply 1", "follow 2"])
    }

    @Test func `asks for a copy once the log has forgotten what it needs`() {
        var scene = ReplicaScene()
        for _ in 0..<ReplicationLimits.emptyReadMaximum {
            scene.follow(9, ReplicaScene.record(term: 1, number: 7, .heartbeat))
            scene.answerRead(.nothing)
            scene.pass(500)
        }
        #expect(scene.takeTold().last == "copy")
        #expect(scene.replica.role == .joining)
        scene.pass(60_000)
        #expect(scene.takeTold() == [])
        scene.handle(
            .copied(
                ReplicaPosition(
                    cluster: RecordFixture.cluster, sequence: LogSequence(raw: 8),
                    term: Term(raw: 1), number: 6)))
        scene.follow(9, ReplicaScene.record(term: 1, number: 7, .heartbeat))
        #expect(scene.takeTold() == ["follow 9", "apply 9"])
    }

    @Test func `asks for a copy if the log tells that the next record is missing`() {
        var scene = ReplicaScene()
        for _ in 0..<ReplicationLimits.emptyReadMaximum {
            #expect(scene.replica.role == .standby)
            scene.handle(.log(.recordsMissing(before: LogSequence(raw: 9))))
            scene.answerRead(.nothing)
            scene.pass(500)
        }
        #expect(scene.takeTold().suffix(3) == ["follow 1", "read 1", "copy"])
        #expect(scene.replica.role == .joining)
    }

    @Test func `goes on if the record that seemed to be missing is there`() {
        var scene = ReplicaScene()
        scene.handle(.log(.recordsMissing(before: LogSequence(raw: 2))))
        scene.answerRead(
            .record(ReplicaScene.record(term: 0, number: 0, .takeover(ReplicaScene.other))))
        #expect(scene.takeTold() == ["follow 1", "read 1", "apply 1", "follow 2"])
    }

    @Test func `without a cluster copies a store first, and never takes over`() {
        var scene = ReplicaScene(position: nil)
        scene.pass(60_000)
        #expect(scene.takeTold() == ["copy"])
    }

    @Test func `stops at a record that it must not apply`() {
        let heartbeat = ReplicaScene.record(term: 0, number: 1, .heartbeat)
        var foreign = LogRecord(
            cluster: StoreIdentity(high: 1, low: 1), term: .none, number: 1,
            moment: RecordFixture.moment, content: .heartbeat)
        var newer = heartbeat
        newer[4] = 2
        LogRecord.seal(&newer)
        foreign.number = 1
        let wrong = ReplicaScene.record(term: 0, number: 2, .heartbeat)
        let malformed = ReplicaScene.record(term: 0, number: 1, .batch([1]))
        for bytes in [foreign.encoded, newer, wrong, malformed] {
            var scene = ReplicaScene()
            scene.follow(1, bytes)
            #expect(scene.replica.role == .fenced)
            scene.pass(60_000)
            #expect(scene.takeTold().count == 2)
        }
    }

    @Test func `reads a damaged record again before it stops`() {
        var scene = ReplicaScene()
        var damaged = ReplicaScene.record(term: 0, number: 1, .heartbeat)
        damaged[20] ^= 1
        for _ in 1..<ReplicationLimits.emptyReadMaximum {
            scene.follow(1, damaged)
            scene.pass(500)
        }
        #expect(scene.replica.role == .standby)
        scene.follow(1, damaged)
        #expect(scene.replica.role == .fenced)
    }
}

@Suite struct `A primary` {
    @Test func `commits a batch once it is in the log`() {
        var scene = ReplicaScene.primary()
        scene.decide()
        #expect(scene.takeTold() == ["append after 1"])
        scene.answer(.committed(LogSequence(raw: 2)))
        #expect(scene.takeTold() == ["commit 2"])
    }

    @Test func `tries the same bytes until their outcome is known`() {
        var scene = ReplicaScene.primary()
        scene.decide()
        let bytes = scene.bytes
        for outcome in [
            .unknown(.timeout), .unknown(.leaderless), .full, .refused(.absent),
        ] as [AppendOutcome] {
            scene.answer(outcome)
            scene.pass(500)
            #expect(scene.bytes == bytes)
        }
        // The first try was committed: its answer comes late.
        scene.answer(.committed(LogSequence(raw: 2)), back: 4)
        #expect(scene.takeTold().contains("commit 2"))
    }

    @Test func `asks the log what a wrong last sequence means`() {
        var scene = ReplicaScene.primary()
        scene.decide()
        let bytes = scene.bytes
        scene.answer(.wrongLast)
        scene.answerRead(.nothing)
        scene.pass(20)
        scene.answer(.wrongLast)
        scene.answerRead(.unknown(.timeout))
        scene.pass(40)
        scene.answer(.wrongLast)
        scene.answerRead(.record(bytes))
        #expect(
            scene.takeTold() == [
                "append after 1", "read 2", "append after 1", "read 2", "append after 1", "read 2",
                "commit 2",
            ])
    }

    @Test func `is fenced by another's record, and silent from then on`() {
        let takeover = ReplicaScene.record(term: 1, number: 0, .takeover(ReplicaScene.other))
        var read = ReplicaScene.primary()
        read.decide()
        read.answer(.wrongLast)
        read.answerRead(.record(takeover))
        var followed = ReplicaScene.primary()
        followed.follow(2, takeover)
        for var scene in [read, followed] {
            #expect(scene.takeTold().last == "fence deposed(at: Replication.LogSequence(raw: 2))")
            #expect(!scene.replica.mayEmit(at: scene.now))
            scene.pass(60_000)
            #expect(scene.takeTold() == [])
        }
    }

    @Test func `is fenced if the log has trimmed what is behind its last record`() {
        var scene = ReplicaScene.primary()
        for _ in 0..<ReplicationLimits.emptyReadMaximum {
            scene.handle(.log(.recordsMissing(before: LogSequence(raw: 40))))
            scene.answerRead(.nothing)
            scene.pass(500)
        }
        #expect(scene.replica.role == .fenced)
    }

    @Test func `holds a lease from the first try of its last committed append`() {
        var scene = ReplicaScene.primary()
        let begun = scene.now
        scene.pass(100)
        scene.decide()
        scene.answer(.unknown(.timeout))
        scene.pass(1_000)
        scene.answer(.committed(LogSequence(raw: 2)))
        #expect(scene.replica.mayEmit(at: begun.advanced(byMilliseconds: 2_099)))
        #expect(!scene.replica.mayEmit(at: begun.advanced(byMilliseconds: 2_100)))
    }

    @Test func `appends heartbeats while it is idle, and at once after its lease has ended`() {
        var scene = ReplicaScene.primary()
        scene.pass(499)
        #expect(scene.takeTold() == [])
        scene.pass(1)
        scene.answer(.unknown(.timeout))
        scene.pass(5_000)
        scene.answer(.committed(LogSequence(raw: 2)))
        #expect(!scene.replica.mayEmit(at: scene.now))
        #expect(
            scene.takeTold() == ["append after 1", "append after 1", "apply 2", "append after 2"])
        scene.answer(.committed(LogSequence(raw: 3)))
        // The store has the position of a heartbeat too, so that the log may forget it.
        #expect(scene.takeTold() == ["apply 3"])
        #expect(scene.replica.mayEmit(at: scene.now))
    }

    @Test func `confirms a decision with an append that began after it`() {
        var scene = ReplicaScene.primary()
        scene.decide()
        let mark = scene.replica.confirmationMark
        scene.handle(.confirmationWanted)
        scene.answer(.committed(LogSequence(raw: 2)))
        #expect(!scene.replica.isConfirmed(mark))
        #expect(scene.takeTold() == ["append after 1", "commit 2", "append after 2"])
        scene.answer(.committed(LogSequence(raw: 3)))
        #expect(scene.replica.isConfirmed(mark))
    }

    @Test func `refuses sends only if a full log has certainly not taken them`() {
        var scene = ReplicaScene.primary()
        scene.decide()
        scene.answer(.full)
        #expect(scene.takeTold() == ["append after 1", "refuse sends"])
        scene.decide(hasSends: false)
        scene.answer(.full)
        scene.pass(20)
        #expect(scene.takeTold() == ["append after 1", "append after 1"])
    }

    @Test func `stops if the log keeps a record elsewhere, or never takes its size`() {
        for outcome in [.committed(LogSequence(raw: 9)), .refused(.tooLarge)] as [AppendOutcome] {
            var scene = ReplicaScene.primary()
            scene.decide()
            scene.answer(outcome)
            #expect(scene.replica.role == .fenced)
        }
    }
}
