// The core on its own: a message to many who are online, and a durable one with its
// acknowledgements and its batch. There is no store: its answers are made up here.

import BrokerCore
import Primitives

/// A core with clients, and the memory its events point into.
struct BenchCore: ~Copyable {
    var broker: Broker
    var effects = Effects()
    private var batch = StoreBatch()
    private var moment = Moment(
        instant: Instant(milliseconds: 1), unixMilliseconds: 1_700_000_000_000)
    /// "sender", the topic, the payload, and names.
    private let text: [UInt8]
    private static let topic = ByteRange(offset: 6, count: 7)
    private static let payload = ByteRange(offset: 13, count: 100)
    private let sender = ConnectionID(lane: 0, slot: 0, generation: 1)
    private var sequence: UInt64 = 0

    /// Connects a sender and `receivers`, who subscribe to the one topic.
    init(receivers: Int, grade: Grade, expirySeconds: UInt32) {
        var text = Array("senderbench/f".utf8) + [UInt8](repeating: 0x6D, count: 100)
        let names = (0..<receivers).map { index in
            let name = Array("r\(index)".utf8)
            text += name
            return ByteRange(offset: text.count - name.count, count: name.count)
        }
        self.text = text
        broker = Broker(at: moment)
        broker.anonymousApp = Array("bench".utf8)
        let empty = RestoredState(
            identity: StoreIdentity(high: 1, low: 1), nextMessage: MessageID(raw: 1), stamp: nil,
            damaged: [])
        do throws(RestoreError) {
            try broker.finishRestoring(empty, newEpochSeed: 1, at: moment)
        } catch {
            preconditionFailure("nothing was restored: \(error)")
        }
        precondition(broker.addApp(broker.anonymousApp, keyDigest: nil), "a core has no apps yet")
        connect(sender, ByteRange(offset: 0, count: 6), expirySeconds: 0)
        for (index, name) in names.enumerated() {
            let connection = receiver(index)
            connect(connection, name, expirySeconds: expirySeconds)
            commit()
            step(
                .subscribeReceived(
                    connection,
                    SubscribeRequest(requestIdentifier: 1, filter: BenchCore.topic, grade: grade)))
            commit()
        }
        effects[0].removeAll()
    }

    func receiver(_ index: Int) -> ConnectionID {
        ConnectionID(lane: 0, slot: index + 1, generation: 1)
    }

    private mutating func connect(
        _ connection: ConnectionID, _ name: ByteRange, expirySeconds: UInt32
    ) {
        step(
            .connectReceived(
                connection,
                ConnectRequest(
                    dialect: .mrt, claim: .anonymous(user: name), device: .empty,
                    startsClean: expirySeconds == 0, sessionExpirySeconds: expirySeconds,
                    outbox: OutboxPosition(epoch: 1, resultsSeen: 0, highestUsed: 0),
                    newEpoch: UInt64(connection.slot + 1), newCookie: 1)))
    }

    mutating func step(_ event: Event) {
        text.withUnsafeBytes { bytes in
            broker.step(event, bytes: bytes, at: moment, effects: &effects)
        }
    }

    /// One message to the topic; the number of effects it had.
    mutating func send(_ grade: Grade) -> Int {
        if grade != .transient { sequence += 1 }
        step(
            .sendReceived(
                sender,
                SendRequest(
                    number: grade == .transient ? 0 : sequence, grade: grade,
                    target: .topic(BenchCore.topic), isRaw: true, payload: BenchCore.payload,
                    messageByteCount: 0)))
        return effects[0].effects.count
    }

    /// Every receiver acknowledges what it was given, and the sender its result.
    mutating func acknowledge(_ receivers: Int) {
        for effect in 0..<effects[0].effects.count {
            if case .deliver(let delivery) = effects[0].effects[effect] {
                step(.inboxAcknowledged(delivery.connection, throughNumber: delivery.number))
            }
        }
        step(.resultsSeen(sender, throughNumber: sequence))
    }

    /// Stores what is gathered, as a disk would that is done at once.
    mutating func commit() {
        while broker.takeBatch(into: &batch, at: moment) {
            var result = StoreResult()
            result.sequence = batch.sequence
            broker.stored(result, at: moment, effects: &effects)
        }
    }
}

func measureFanOut(receivers: Int, deliveries: Int) {
    var core = BenchCore(receivers: receivers, grade: .transient, expirySeconds: 0)
    measure(
        "route to \(receivers), each delivery", times: max(1, deliveries / receivers),
        operationsEach: receivers
    ) {
        let count = core.send(.transient)
        precondition(count == receivers, "everybody gets it")
        core.effects[0].removeAll()
    }
}

/// Enqueue, deliver, acknowledge: the whole life of a durable message whose receivers are faster
/// than the disk, so that only its sender's result is left for the batch.
func measureInboxes(receivers: Int, deliveries: Int) {
    var core = BenchCore(receivers: receivers, grade: .durable, expirySeconds: 3600)
    measure(
        "enqueue and acknowledge at \(receivers), each", times: max(1, deliveries / receivers),
        operationsEach: receivers
    ) {
        let count = core.send(.durable)
        precondition(count >= receivers, "everybody gets it")
        core.acknowledge(receivers)
        core.commit()
        core.effects[0].removeAll()
    }
}
