// Received packets of a device: the wire is observed, each message is processed together with its
// record, and only then acknowledged.

import BrokerTerms
import ClientCore
import WireFormat

extension SimulatedClient {
    // MARK: Bytes

    /// Bytes arrive.
    func received(_ bytes: [UInt8]) {
        guard machine != nil, !bytes.isEmpty else { return }
        let isSound = incoming.take(bytes) { frame, body in look(at: frame, body) }
        if !isSound {
            oracle.fail(.nobodyIsAtFault, "the stream is not one of packets", client: index)
        }
        var rest = bytes[...]
        while !rest.isEmpty {
            guard let space = machine?.receiveSpace() else { return }
            let count = min(rest.count, space.count)
            space.copyBytes(from: rest.prefix(count))
            machine?.received(byteCount: count, now: context.now)
            rest = rest.dropFirst(count)
            guard drainEvents() else { return }
        }
        runOn()
    }

    /// Reads a packet like a device that knows only the protocol.
    private func look(at frame: PacketFrame, _ body: UnsafeRawBufferPointer) {
        guard let type = MRT.PacketType(rawValue: frame.type) else { return }
        switch type {
        case .connack:
            guard case .accepted(let accepted)? = try? MRT.Connack(body: body.bytes) else { return }
            inboxWindow = Int(min(accepted.inboxWindow, habits.inboxWindow))
            if asksForCleanStart { oracle.sessionMayEnd(index) }
            asksForCleanStart = false
            let isStanding = link.map { network.isStanding($0) } ?? false
            if isStanding { oracle.wakesBack(index) }
            session = oracle.connected(
                index, epoch: accepted.sessionEpoch, isPresent: accepted.isSessionPresent,
                isStanding: isStanding,
                hasWill: accepted.hasWill, expirySeconds: accepted.sessionExpirySeconds,
                brokerStart: link.map { network.brokerStart(of: $0) } ?? 0)
        case .deliver:
            guard let deliver = try? MRT.Deliver(flags: frame.flags, body: body.bytes), let session,
                deliver.number > 0
            else { return }
            oracle.seen(
                describe(deliver, in: body), session: session, client: index,
                before: lastSeenNumber)
            lastSeenNumber = max(lastSeenNumber, deliver.number)
            unacknowledged.append(deliver.number)
            if unacknowledged.count > inboxWindow {
                oracle.fail(
                    .windowIsKept,
                    "\(unacknowledged.count) unacknowledged in a window of \(inboxWindow)",
                    client: index)
            }
        case .result:
            guard let result = try? MRT.SendResult(flags: frame.flags, body: body.bytes),
                result.number > 0
            else { return }
            let message = messages[result.number]
            let isFromHere = message.map { oracle.sends[$0].issuedAt >= linkOpenedAt } ?? false
            if !answered.contains(result.number) {
                if isFromHere { answered.insert(result.number) }
            } else {
                oracle.fail(
                    .everySendIsAnswered, "send #\(result.number) is answered twice",
                    message: messages[result.number], client: index)
            }
        case .connect, .send, .ack, .request, .response, .channel, .pingRequest,
            .pingResponse, .disconnect, .auth:
            break
        }
    }

    private func describe(
        _ deliver: MRT.Deliver, in bytes: UnsafeRawBufferPointer
    ) -> ReceivedMessage {
        ReceivedMessage(
            number: deliver.number, grade: deliver.grade, kind: deliver.kind,
            from: String(decoding: deliver.from.bytes(in: bytes), as: UTF8.self),
            isMarked: deliver.isPossibleDuplicate,
            message: deliver.kind == .recall || deliver.kind == .update
                ? nil
                : MessageText.message(
                    in: deliver.payload.bytes(in: bytes), isRaw: deliver.isRaw),
            content: MessageText.content(in: deliver.payload.bytes(in: bytes).bytes),
            isRewritten: MessageText.isRewritten(deliver.payload.bytes(in: bytes).bytes))
    }

    // MARK: Events

    /// Handles the machine's events. False if the client lost power.
    func drainEvents() -> Bool {
        while let event = machine?.nextEvent(now: context.now) {
            switch event {
            case .connectionWanted: openLink()
            case .connected(let connected): handle(connected)
            case .delivered(let deliver), .groupChanged(let deliver, _): handle(deliver)
            case .resolved(let result): handle(result)
            case .answered(let response): handle(response)
            case .carried(let channel): deliver(channel)
            case .credentialAnswered: break
            case .disconnected(let end): disconnected(end)
            }
        }
        return machine != nil
    }

    private func handle(_ connected: ClientConnected) {
        flash.cookie = connected.accepted.resumeCookie
        if connected.isNewInbox { storeInbox(number: 0) }
        guard survives() else { return }
        if connected.isNewInbox {
            // The session has no subscriptions yet, whatever this client remembers.
            for (filter, grade) in wishes.sorted(by: { $0.key < $1.key }) {
                subscribe(filter, grade)
            }
        }
    }

    /// Writes the inbox record, in one write with the message's effect.
    private func storeInbox(number: UInt64) {
        guard let record = machine?.inboxRecord else { return }
        flash.inbox = MRT.Resume(epoch: record.epoch, lastNumber: number)
    }

    private func handle(_ deliver: MRT.Deliver) {
        guard let session else { return }
        // The machine's ranges are relative to the packet's body, whose last part is the payload.
        let body = bytes(through: deliver.payload.endOffset)
        let message = describe(deliver, in: body)
        if deliver.kind == .recall || deliver.kind == .update {
            readRevision(deliver, in: body.bytes)
        } else if deliver.kind == .receipt {
            readReceipt(deliver, in: body.bytes)
        } else if deliver.kind == .groupEvent {
            readGroupEvent(deliver, session: session, in: body.bytes)
        } else if !deliver.fields.isEmpty {
            noteAsks(deliver, in: body.bytes)
        }
        guard deliver.number > 0 else {
            if deliver.kind == .brokerEvent {
                return readVerdict(EventText(Array(deliver.payload.bytes(in: body))))
            }
            if deliver.payload.isEmpty { return }
            oracle.received(message, session: session, client: index, boot: flash.boots)
            return
        }
        let isFromBroker =
            deliver.kind == .groupEvent || deliver.kind == .kickedOut || deliver.kind == .receipt
            || deliver.kind == .recall || deliver.kind == .update
        if context.has(.earlyAcknowledgement) {
            machine?.acknowledge(through: deliver.number, now: context.now)
            guard transmit(), survives() else { return }
        }
        // An MQTT client removes a retained message with an empty one.
        if !isFromBroker, !deliver.payload.isEmpty {
            oracle.received(message, session: session, client: index, boot: flash.boots)
        }
        if context.has(.lateRecord) { guard survives() else { return } }
        storeInbox(number: deliver.number)
        guard survives() else { return }
        machine?.acknowledge(through: deliver.number, now: context.now)
        _ = survives()
    }

    /// Notes that this device was told of a group of its user.
    private func readGroupEvent(_ deliver: MRT.Deliver, session: Int, in body: RawSpan) {
        guard let event = try? MRT.GroupEvent(deliver.payload.bytes(in: body)) else {
            oracle.fail(.nobodyIsAtFault, "an event that cannot be read", client: index)
            return
        }
        guard case .added = event else { return }
        let name = deliver.address.bytes(in: body).withUnsafeBytes { Array($0) }
        oracle.told(of: name, session: session)
    }

    private func handle(_ result: MRT.SendResult) {
        guard let message = messages[result.number] else { return }
        let body = bytes(
            through: max(result.messageIdentifier.endOffset, result.refusals.endOffset))
        var refused: [(index: Int, reason: ReasonCode)] = []
        var refusals = MRT.RefusalList(result.refusals, in: body.bytes)
        while let refusal = refusals.next() {
            refused.append((index: Int(refusal.index), reason: refusal.reason))
        }
        oracle.resolve(
            message, result.reason,
            messageIdentifier: String(
                decoding: result.messageIdentifier.bytes(in: body), as: UTF8.self),
            refusedCount: Int(result.refusedCount), refused: refused)
        guard survives() else { return }
        messages[result.number] = nil
        flash.sends.removeAll { $0.number == result.number }
        flash.outbox = outboxRecord
        oracle.close(message)
        _ = survives()
    }

    private func handle(_ response: MRT.Response) {
        guard let request = requests.removeValue(forKey: response.identifier), let session else {
            return
        }
        switch request {
        case .subscription(let filter, let grade, let isSubscribing):
            let mayHave = oracle.maySubscribe(index, to: .topics(filter))
            if response.reason == .quotaExceeded || response.reason == .notAuthorized && !mayHave {
                // The store has no space for another subscription, or no right allows it.
                wishes[filter] = nil
            } else if response.reason.isFailure {
                checkRefusal(response.reason)
            } else if isSubscribing {
                oracle.checkSubscribed(index, to: .topics(filter))
                oracle.subscribed(session, filter: .topics(filter), grade: grade)
            }
        case .groupCreation(let askedAt):
            if response.reason.isFailure { return checkRefusal(response.reason) }
            let name = Array(
                bytes(through: response.content.endOffset)[Int(response.content.offset)...])
            oracle.groupCreated(name, by: index, askedAt: askedAt)
        case .membership(let group, let change):
            oracle.membershipAnswered(change, in: group, response.reason, client: index)
        case .will(let message):
            oracle.willAnswered(message, response.reason, client: index)
        case .groupChange:
            // The group may have ended.
            if response.reason != .topicNameInvalid, response.reason != .notAuthorized {
                checkRefusal(response.reason, isRefusal: response.reason.isFailure)
            }
        case .page(let conversation, let before, let asked):
            handle(response, of: conversation, before: before, asked: asked)
        case .mark(let conversation, let number):
            oracle.markAnswered(number, in: conversation, response.reason, client: index)
        case .hiding(let conversation, let number):
            oracle.markAnswered(number, in: conversation, response.reason, client: index)
            if !response.reason.isFailure {
                oracle.hidden(number, in: conversation, client: index)
            }
        case .revision(let message, let content):
            handle(response, of: message, content: content)
        case .wakeTarget(let kind, let isOwn): targetSet(response, kind: kind, isOwn: isOwn)
        case .wakeRemoval(let target): oracle.targetRemoved(target, response.reason)
        case .applied(let reference): oracle.told(reference, user: habits.user, response.reason)
        case .willRemoval:
            if response.reason.isFailure { return checkRefusal(response.reason) }
            oracle.willsAreOver(of: habits.device)
        }
    }

    /// The requests of these clients are refused only for lack of space.
    func checkRefusal(_ reason: ReasonCode, isRefusal: Bool = true) {
        guard isRefusal, reason != .quotaExceeded else { return }
        oracle.fail(
            .everySendIsAnswered, "a request was refused: \(reason.name)", client: index)
    }
}
