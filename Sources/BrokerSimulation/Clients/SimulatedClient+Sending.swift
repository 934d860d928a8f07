// Packets that a device sends: messages that are stored in its flash before they are transmitted,
// requests, and the other bytes of its machine.

import ClientCore
import Primitives
import WireFormat

/// A message that an application sends.
struct Order {
    var receivers: Receivers
    var grade: MRT.Grade
    var expirySeconds: UInt32 = 0
    var messageIdentifier = ""
    var isRaw = false
    var padding = 0
    /// Whether it is retained, or removes the retained message (MQTT).
    var isRetained = false
    var isClearing = false
    /// Whether it is kept in its conversations.
    var isKept = false
    /// What its sender is told about it.
    var asks: MRT.SendAsks = []
    /// An earlier message with it gives way; empty for none.
    var collapseKey = ""
    /// The message wakes nobody.
    var isWithoutWake = false
}

extension SimulatedClient {
    // MARK: Messages

    /// Sends a message, if the machine accepts it.
    func send(_ order: Order) {
        guard machine != nil, order.grade != .transient || isConnected else { return }
        var fact = SendFact(
            client: index, receivers: order.receivers, grade: order.grade,
            expirySeconds: order.expirySeconds, messageIdentifier: order.messageIdentifier,
            issuedAt: context.now, session: session,
            wasReachable: isReachable, deathsBefore: oracle.deaths,
            fullTimesBefore: oracle.pastFullTimes)
        fact.isKept = order.isKept || context.profile.keepsTopic(order.receivers, order.grade)
        // For a planted bug that must show in wills only.
        if context.has(.uncheckedWill), oracle.isForbidden(fact) { return }
        let message = oracle.issue(fact)
        let (packet, source) = encode(order, message)
        let outcome = source.withUnsafeBytes { source in
            Result { () throws(ClientError) in
                guard let number = try machine?.send(packet, from: source) else {
                    preconditionFailure("client \(index) sends without power")
                }
                return number
            }
        }
        switch outcome {
        case .success(let number):
            guard number > 0 else { return runOn() }
            let epoch = outboxRecord.epoch
            oracle.number(message, outboxEpoch: epoch, number)
            messages[number] = message
            if context.has(.lateSendRecord) {
                guard transmit() else { return }
                if context.misbehaves(.lateSendRecord, perTenThousand: 500) {
                    return powerOff()
                }
            }
            guard survives() else { return }
            store(StoredSend(number: number, message: message, packet: packet, source: source))
            guard survives() else { return }
        case .failure: oracle.withdraw(message)
        }
        runOn()
    }

    /// Whether the client is logged in, and its connection is open at both ends.
    private var isReachable: Bool {
        isConnected && (link.map(network.isReachable) ?? false)
    }

    /// Writes a send into flash before it is transmitted.
    private func store(_ send: StoredSend) {
        guard habits.keepsOutbox else { return }
        flash.sends.append(send)
        flash.outbox = outboxRecord
    }

    /// Passes the sends that were stored before its start to the machine.
    func sendStored() {
        messages = [:]
        for send in flash.sends {
            messages[send.number] = send.message
            oracle.reopen(send.message)
            send.source.withUnsafeBytes { source in
                do throws(ClientError) {
                    try machine?.resend(send.packet, number: send.number, from: source)
                } catch {
                    preconditionFailure("stored send \(send.number) does not fit: \(error)")
                }
            }
        }
    }

    func encode(_ order: Order, _ message: Int) -> (packet: MRT.Send, source: [UInt8]) {
        var source: [UInt8] = []
        func append(_ bytes: some Collection<UInt8>) -> ByteRange {
            source += bytes
            return ByteRange(offset: source.count - bytes.count, count: bytes.count)
        }
        func name(_ user: Int) -> String.UTF8View {
            (user == context.profile.userCount
                ? Profile.unknownUser : Profile.userName(user)).utf8
        }
        let target: MRT.Target
        switch order.receivers {
        case .users(let users, isList: true):
            let ids = users.flatMap { [UInt8(name($0).count)] + Array(name($0)) }
            target = .list(count: users.count, ids: append(ids))
        case .users(let users, isList: false): target = .user(append(name(users[0])))
        case .everybody: target = .broadcast
        case .group(let group): target = .group(append(oracle.groups[group].name))
        case .topic(let topic): target = .topic(append(Profile.topics[topic].utf8))
        }
        let text = MessageText.make(message, padding: order.padding)
        let payload = append((order.isRaw ? [] : [0]) + text)
        var packet = MRT.Send(grade: order.grade, number: 0, target: target, payload: payload)
        packet.isRaw = order.isRaw
        // Where the app keeps messages by default, a sender says which ones are not kept.
        if context.profile.limits.appPolicy.keepsHistory {
            packet.isNeverKept = !order.isKept
        } else {
            packet.isKept = order.isKept
        }
        packet.expirySeconds = order.expirySeconds
        packet.messageIdentifier = append(order.messageIdentifier.utf8)
        var fields = MRT.SendFields()
        fields.asks = order.asks
        fields.collapseKey = append(order.collapseKey.utf8)
        fields.isWithoutWake = order.isWithoutWake
        packet.fields = append(fields.block(from: source.span.bytes))
        return (packet, source)
    }

    // MARK: Bytes

    /// Passes the machine's bytes to the network. False if the client lost power.
    func transmit() -> Bool {
        while let count = machine?.transmit(into: memory.transmit, now: context.now) {
            guard count > 0 else { return true }
            guard let link else {
                preconditionFailure("client \(index) has \(count) bytes and no connection")
            }
            let bytes = Array(memory.transmit[..<count])
            _ = outgoing.take(bytes) { frame, body in
                guard frame.type == MRT.PacketType.ack.rawValue,
                    let ack = try? MRT.Ack(flags: frame.flags, body: body.bytes)
                else { return }
                unacknowledged.removeAll { $0 <= ack.inboxNumber }
            }
            network.write(bytes[...], on: link, towards: .broker)
            guard survives() else { return false }
        }
        return false
    }
}
