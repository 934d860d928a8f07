// How messages go out, in a closed or an open loop, and how the loop is closed: by receipts of all
// receivers and the broker's own.

import NetTransport
import Primitives
import WireFormat

extension LoadDriver {
    /// One for each address: of each pair, or of all together.
    static func makeSources(of plan: Plan) -> ContiguousArray<OutgoingSource> {
        let count =
            plan.publisherCount == 0 ? 0 : plan.topology == .everybody ? 1 : plan.receiverCount
        return ContiguousArray(
            (0..<count).map { pair in
                let address: String
                switch plan.addressKind {
                case .topic: address = plan.topic(ofPair: pair)
                case .user: address = plan.name(ofClient: pair)
                // The group's name comes when it has been made.
                case .group, .everybody: address = ""
                }
                return OutgoingSource(
                    plan.addressKind, address: Array(address.utf8),
                    payloadByteCount: plan.payloadByteCount)
            })
    }

    mutating func listAllPublishers() {
        for publisher in 0..<publishers.count { list(publisher) }
    }

    private mutating func list(_ publisher: Int) {
        guard !publishers[publisher].isListed else { return }
        publishers[publisher].isListed = true
        listedPublishers.append(UInt32(publisher))
    }

    mutating func publish(at now: UInt64, in loop: inout EventLoop) {
        // What has been seen makes room for what is sent next: it has to be said first.
        confirmResults(in: &loop)
        switch plan.pace {
        case .window(let window): publishWindows(window, at: now, in: &loop)
        case .rate(let rate): publishSchedule(rate, at: now, in: &loop)
        }
        for publisher in listedPublishers { publishers[Int(publisher)].isListed = false }
        listedPublishers.removeAll(keepingCapacity: true)
    }

    /// The messages of each publisher in this stage.
    private var messageLimit: UInt64 { stage == .enqueuing ? plan.limit : .max }

    /// Closed loop: fills the window of every publisher that has room in it.
    private mutating func publishWindows(
        _ window: Int, at now: UInt64, in loop: inout EventLoop
    ) {
        let limit = messageLimit
        for index in 0..<listedPublishers.count {
            let publisher = Int(listedPublishers[index])
            while publishers[publisher].inFlight < window,
                publishers[publisher].nextSequence < limit
            {
                let place = awaitedIndex(publisher, publishers[publisher].nextSequence)
                // A message may only be passed over by so many that its place is still its own.
                guard awaited[place] == 0 else { break }
                awaited[place] = receiptsPerMessage
                publishers[publisher].inFlight += 1
                send(publisher, intended: now, in: &loop)
            }
        }
    }

    /// Open loop: message m of all publishers together is due m periods after the start, whether
    /// anybody is ready for it or not; what is late is late from then.
    private mutating func publishSchedule(
        _ rate: Double, at now: UInt64, in loop: inout EventLoop
    ) {
        while true {
            let due = due(scheduledCount, rate)
            guard due <= now else { return }
            let publisher = Int(scheduledCount % UInt64(publishers.count))
            guard hasRoomInOutbox(publisher), publishers[publisher].nextSequence < messageLimit
            else { return }
            scheduledCount += 1
            send(publisher, intended: due, in: &loop)
        }
    }

    /// When a message of an open loop is due, by its number among those of all publishers.
    private func due(_ number: UInt64, _ rate: Double) -> UInt64 {
        paceStart + UInt64(Double(number) * 1e9 / (rate * Double(publishers.count)))
    }

    /// An MRT session may not have more sends without a seen result than its window.
    private func hasRoomInOutbox(_ publisher: Int) -> Bool {
        plan.qos == 0 || plan.dialect != .mrt
            || publishers[publisher].nextSequence
                < publishers[publisher].confirmedThrough + UInt64(Plan.numberedWindowMaximum)
    }

    @inline(__always)
    mutating func send(_ publisher: Int, intended: UInt64, in loop: inout EventLoop) {
        let sequence = publishers[publisher].nextSequence
        publishers[publisher].nextSequence += 1
        let source = sources[plan.topology == .everybody ? 0 : publisher]
        source.stamp(
            Stamp(
                publisher: UInt32(publisher), sequence: sequence, nanoseconds: intended - origin))
        let connection = clients[plan.client(ofPublisher: publisher)].connection
        let number = plan.qos == 0 ? 0 : sequence + 1
        if let mqtt {
            mqtt.writePublish(
                topicByteCount: source.addressByteCount, qos: plan.qos, number: number,
                UnsafeRawBufferPointer(source.bytes), to: connection, in: &loop)
        } else {
            MRTCodec.writeSend(
                source, grade: MRT.Grade(rawValue: plan.qos)!, number: number,
                isKept: plan.isKept, to: connection, in: &loop)
        }
    }

    // MARK: - Receipts

    /// What completes a message: every receiver has it, and the broker has confirmed it where it
    /// does. Messages for absent sessions are complete with the broker's word.
    var receiptsPerMessage: UInt32 {
        let confirmations: UInt32 = plan.qos == 0 ? 0 : 1
        return stage == .enqueuing
            ? confirmations : UInt32(plan.receiversPerMessage) + confirmations
    }

    func awaitedIndex(_ publisher: Int, _ sequence: UInt64) -> Int {
        publisher * Int(awaitedMask + 1) + Int(sequence & awaitedMask)
    }

    /// One receipt of a message.
    @inline(__always)
    mutating func receipt(_ publisher: Int, _ sequence: UInt64) {
        guard case .window = plan.pace else { return }
        let place = awaitedIndex(publisher, sequence)
        guard awaited[place] > 0 else {
            fail("the broker delivered or confirmed a message that was complete")
            return
        }
        awaited[place] -= 1
        if awaited[place] == 0 {
            publishers[publisher].inFlight -= 1
            list(publisher)
        }
    }

    /// The broker has taken a send. A packet identifier stands for the last send that bore it.
    mutating func confirm(_ number: UInt64, of publisher: Int) {
        guard plan.qos > 0 else {
            fail("the broker confirmed what asks for no confirmation")
            return
        }
        guard publisher >= 0, number > 0, publishers[publisher].nextSequence > 0 else {
            fail("the broker confirmed what was never sent")
            return
        }
        let last = publishers[publisher].nextSequence - 1
        if mqtt == nil {
            let ahead = number &- publishers[publisher].confirmedThrough &- 1
            guard ahead < 64, number <= last + 1,
                publishers[publisher].confirmedBeyond & 1 << ahead == 0
            else {
                fail("the broker confirmed a send that was not on its way")
                return
            }
            publishers[publisher].confirmedBeyond |= 1 << ahead
            confirmed(number - 1, of: publisher)
            list(publisher)
        } else {
            let back = (UInt64(MQTTCodec.packetIdentifier(of: last + 1)) + 65_535 - number) % 65_535
            guard back <= last else {
                fail("the broker confirmed what was never sent")
                return
            }
            confirmed(last - back, of: publisher)
        }
        tally.confirmed += 1
        lastProgress = max(lastProgress, monotonicNanoseconds())
    }

    /// In an open loop, a message for absent sessions is measured from its due time to the broker's
    /// acknowledgement.
    private mutating func confirmed(_ sequence: UInt64, of publisher: Int) {
        receipt(publisher, sequence)
        guard stage == .enqueuing, case .rate(let rate) = plan.pace else { return }
        let due = due(sequence * UInt64(publishers.count) + UInt64(publisher), rate)
        let now = monotonicNanoseconds()
        recentLatencies.record(now - min(now, due))
    }

    /// Tells the broker which results need not be kept, once per turn.
    private mutating func confirmResults(in loop: inout EventLoop) {
        for index in 0..<listedPublishers.count {
            let publisher = Int(listedPublishers[index])
            let seen = (~publishers[publisher].confirmedBeyond).trailingZeroBitCount
            guard seen > 0 else { continue }
            publishers[publisher].confirmedThrough += UInt64(seen)
            publishers[publisher].confirmedBeyond =
                seen == 64 ? 0 : publishers[publisher].confirmedBeyond >> UInt64(seen)
            MRTCodec.writeAck(
                inbox: 0, resultsSeen: publishers[publisher].confirmedThrough,
                to: clients[plan.client(ofPublisher: publisher)].connection, in: &loop)
        }
    }

    /// MRT acknowledges once for all that came together.
    func acknowledgeBurst(of client: Int, inbox: UInt64, in loop: inout EventLoop) {
        guard inbox > 0 else { return }
        MRTCodec.writeAck(
            inbox: inbox, resultsSeen: 0, to: clients[client].connection, in: &loop)
    }
}
