// The core on its own: a message to many who are online, by each kind of address and among many
// filters of others; and a durable one with its acknowledgements and its batch. There is no store:
// its answers are made up here, except for History.swift.

import BrokerCore
import BrokerTerms
import Primitives
import QueueStore

/// A core with clients, and the memory its events point into.
struct BenchCore: ~Copyable {
    var broker: Broker
    var effects = Effects()
    private var batch = StoreBatch()
    private var moment = Moment(
        instant: Instant(milliseconds: 1), unixMilliseconds: 1_700_000_000_000)
    /// "sender", the topic, the payload, names and filters. Plain memory, so that an event costs no
    /// more here than it does in the broker; what is not used of it costs nothing.
    private let text = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 27, alignment: 8)
    private var textByteCount = 0
    private static let topic = ByteRange(offset: 6, count: 7)
    private static let payload = ByteRange(offset: 13, count: 100)
    private let sender = ConnectionID(loop: 0, slot: 0, generation: 1)
    private var sequence: UInt64 = 0
    private var nanoseconds: UInt64 = 0
    private let publisher = ConnectionID(loop: 0, slot: 1 << 20, generation: 1)
    private var firstUnreleased: UInt16 = 1
    private var lastUnreleased: UInt16 = 0
    private var target = SendTarget.topic(BenchCore.topic)
    private let receiverCount: Int
    private var users: [ByteRange] = []
    private var nextUser = 0

    /// Connects a sender and `receivers`; if they have a `grade`, they subscribe to the one topic.
    init(
        receivers: Int, grade: Grade?, expirySeconds: UInt32 = 0, limits: CoreLimits = CoreLimits()
    ) {
        receiverCount = receivers
        broker = Broker(limits: limits, at: moment)
        broker.anonymousApp = Array("bench".utf8)
        broker.beginEmpty(at: moment)
        precondition(
            try! broker.addApp(broker.anonymousApp, keyDigest: nil, rights: .everything),
            "a core has no apps yet")
        _ = place("senderbench/f" + String(repeating: "m", count: 100))
        connect(sender, ByteRange(offset: 0, count: 6), expirySeconds: 0)
        for index in 0..<receivers {
            let connection = receiver(index)
            connect(connection, place("r\(index)"), expirySeconds: expirySeconds)
            commit()
            if let grade { subscribe(connection, BenchCore.topic, grade) }
            effects[0].removeAll()
        }
    }

    private mutating func subscribe(
        _ connection: ConnectionID, _ filter: ByteRange, _ grade: Grade
    ) {
        step(
            .subscribeReceived(
                connection,
                SubscribeRequest(
                    requestIdentifier: 1,
                    filters: .one(FilterRequest(filter: filter, grade: grade)))))
        commit()
    }

    private mutating func place(_ word: String) -> ByteRange {
        let range = ByteRange(offset: textByteCount, count: word.utf8.count)
        UnsafeMutableRawBufferPointer(rebasing: text[textByteCount...])
            .copyBytes(from: word.utf8)
        textByteCount += word.utf8.count
        return range
    }

    deinit {
        text.deallocate()
    }

    // MARK: - Addresses

    /// Messages go to one receiver by name.
    mutating func addressUser() {
        target = .user(place("r0"))
    }

    /// Messages go to so many receivers by name, in turn, where ``turnToNextUser()`` is called.
    mutating func addressUsers(_ count: Int) {
        users = (0..<count).map { place("r\($0)") }
        turnToNextUser()
    }

    mutating func turnToNextUser() {
        nextUser = (nextUser + 1) % users.count
        target = .user(users[nextUser])
    }

    /// Messages go to a topic that is too long to be remembered: each is matched.
    mutating func addressLongTopic() {
        let topic = place(String(repeating: "bench", count: 12) + "/f")
        subscribe(receiver(0), topic, .transient)
        effects[0].removeAll()
        target = .topic(topic)
    }

    mutating func addressEverybody() {
        target = .everybody
    }

    /// Messages go to a group of the sender and all receivers.
    mutating func addressGroup() {
        step(
            .groupRequested(
                sender, requestIdentifier: 1,
                .create(
                    GroupCreation(key: 1, title: .empty, meta: .empty, allowed: nil, seed: 1))))
        commit()
        var name: [UInt8] = []
        for effect in effects[0].effects.elements {
            if case .mrt(.respond(_, _, .success, let body)) = effect {
                name = Array(body.bytes(in: effects[0].bytes.bytes))
            }
        }
        precondition(!name.isEmpty, "the group has an id")
        let group = place(String(decoding: name, as: UTF8.self))
        target = .group(group)
        for index in 0..<receiverCount {
            effects[0].removeAll()
            step(.groupRequested(receiver(index), requestIdentifier: 1, .join(group)))
            commit()
            // Members hear of each other.
            acknowledge()
        }
        effects[0].removeAll()
    }

    /// Other sessions subscribe to filters that the topic does not match: as many as a session may
    /// have each, with and without wildcards.
    mutating func addFilters(_ count: Int) {
        let each = 1000
        for index in 0..<(count + each - 1) / each {
            let connection = ConnectionID(
                loop: 0, slot: receiverCount + 1 + index, generation: 1)
            connect(connection, place("f\(index)"), expirySeconds: 0)
            commit()
            for filter in 0..<min(each, count - index * each) {
                let tail = filter % 2 == 0 ? "state" : "+/state"
                subscribe(connection, place("site/\(index)/\(filter)/\(tail)"), .transient)
                effects[0].removeAll()
            }
        }
    }

    func receiver(_ index: Int) -> ConnectionID {
        ConnectionID(loop: 0, slot: index + 1, generation: 1)
    }

    // MARK: - MQTT

    /// Connects an MQTT client that has sent so many publications of QoS 2 and released none.
    mutating func leaveUnreleased(_ count: UInt16) {
        connect(publisher, place("publisher"), expirySeconds: 3600, dialect: .mqtt3)
        commit()
        for identifier in 1...count {
            publish(identifier)
            if identifier % 1_000 == 0 { commit() }
            effects[0].removeAll()
        }
        commit()
        effects[0].removeAll()
        (firstUnreleased, lastUnreleased) = (1, count)
    }

    /// One more publication of QoS 2, and the release of the oldest.
    mutating func publishAndRelease() -> Int {
        lastUnreleased = lastUnreleased % .max + 1
        publish(lastUnreleased)
        commit()
        step(
            .packetAnswered(
                publisher, packetIdentifier: firstUnreleased, .release, .success))
        commit()
        firstUnreleased = firstUnreleased % .max + 1
        defer { effects[0].removeAll() }
        return effects[0].effects.count
    }

    private mutating func publish(_ identifier: UInt16) {
        var request = SendRequest(
            number: 0, grade: .once, target: .topic(BenchCore.topic), isRaw: true,
            payload: BenchCore.payload, messageByteCount: 0)
        request.packetIdentifier = identifier
        step(.sendReceived(publisher, request))
    }

    private mutating func connect(
        _ connection: ConnectionID, _ name: ByteRange, expirySeconds: UInt32,
        dialect: SessionDialect = .mrt
    ) {
        step(
            .connectReceived(
                connection,
                ConnectRequest(
                    dialect: dialect, claim: .anonymous(user: name), device: .empty,
                    startsClean: expirySeconds == 0, sessionExpirySeconds: expirySeconds,
                    outbox: OutboxPosition(epoch: 1, resultsSeen: 0, highestUsed: 0),
                    newEpoch: UInt64(connection.slot + 1), newCookie: 1)))
    }

    mutating func step(_ event: Event) {
        nanoseconds += 1_000
        broker.noteTime(nanoseconds: nanoseconds)
        broker.step(event, bytes: UnsafeRawBufferPointer(text), at: moment, effects: &effects)
    }

    /// One message to the topic; the number of effects it had.
    mutating func send(_ grade: Grade, isKept: Bool = false, asks: SendAsks = []) -> Int {
        if grade != .transient { sequence += 1 }
        let isRaw = if case .topic = target { true } else { false }
        let payload = BenchCore.payload
        var request = SendRequest(
            number: grade == .transient ? 0 : sequence, grade: grade,
            target: target, isRaw: isRaw, payload: payload, messageByteCount: 50)
        request.isKept = isKept
        if !asks.isEmpty {
            request.asks = asks
            request.reference = MessageReferences.make(
                random: sequence, unixMilliseconds: moment.unixMilliseconds)
        }
        step(.sendReceived(sender, request))
        return effects[0].effects.count
    }

    /// Every receiver acknowledges what it was given, and the sender its result.
    mutating func acknowledge() {
        acknowledgeDeliveries()
        step(.resultsSeen(sender, throughNumber: sequence))
    }

    mutating func acknowledgeDeliveries() {
        for effect in 0..<effects[0].effects.count {
            if case .deliver(let delivery) = effects[0].effects[effect] {
                step(.inboxAcknowledged(delivery.connection, throughNumber: delivery.number))
            }
        }
    }

    /// Deliveries to the sender that the last events had.
    var receiptDeliveryCount: Int {
        effects[0].effects.elements.count {
            if case .deliver(let delivery) = $0 { delivery.connection == sender } else { false }
        }
    }

    /// Stores what is gathered, in a real store.
    mutating func commit(in store: inout LMDBQueueStore) {
        while broker.takeBatch(into: &batch, at: moment) {
            var result = StoreResult()
            do throws(StoreError) {
                try store.carryOut(batch, into: &result)
            } catch {
                preconditionFailure("\(error)")
            }
            broker.stored(result, at: moment, effects: &effects)
        }
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

/// Sends one transient message a time and checks that everybody gets it.
private func measureSends(
    _ name: String, receivers: Int, deliveries: Int, prepare: () -> BenchCore
) {
    measure(
        name, times: max(1, deliveries / receivers), operationsEach: receivers, prepare: prepare,
        { core in
            let count = core.send(.transient)
            precondition(count == receivers, "everybody gets it")
            core.effects[0].removeAll()
        })
}

func measureFanOut(receivers: Int, deliveries: Int) {
    measureSends("fanout-\(receivers)", receivers: receivers, deliveries: deliveries) {
        BenchCore(receivers: receivers, grade: .transient)
    }
}

func measureUnicast(times: Int) {
    measureSends("unicast", receivers: 1, deliveries: times) {
        var core = BenchCore(receivers: 100, grade: nil)
        core.addressUser()
        return core
    }
}

func measureGroup(members: Int, deliveries: Int) {
    measureSends("group-\(members)", receivers: members, deliveries: deliveries) {
        var core = BenchCore(receivers: members, grade: nil)
        core.addressGroup()
        return core
    }
}

func measureBroadcast(receivers: Int, deliveries: Int) {
    measureSends("broadcast-\(receivers)", receivers: receivers, deliveries: deliveries) {
        var core = BenchCore(receivers: receivers, grade: nil)
        core.addressEverybody()
        return core
    }
}

/// One receiver among many filters of others: a topic that came before, and one that has to be
/// matched.
func measureMatch(filters: Int, times: Int) {
    measureSends("match-\(filters)", receivers: 1, deliveries: times) {
        var core = BenchCore(receivers: 1, grade: .transient)
        core.addFilters(filters)
        return core
    }
    measureSends("match-new-\(filters)", receivers: 1, deliveries: times) {
        var core = BenchCore(receivers: 1, grade: .transient)
        core.addFilters(filters)
        core.addressLongTopic()
        return core
    }
}

/// Enqueue, deliver, acknowledge: the whole life of a durable message whose receivers are faster
/// than the disk, so that only its sender's result is left for the batch.
func measureInboxes(receivers: Int, deliveries: Int) {
    measure(
        "inbox-\(receivers)", times: max(1, deliveries / receivers), operationsEach: receivers,
        prepare: { BenchCore(receivers: receivers, grade: .durable, expirySeconds: 3600) },
        { core in
            let count = core.send(.durable)
            precondition(count >= receivers, "everybody gets it")
            core.acknowledge()
            core.commit()
            core.effects[0].removeAll()
        })
}

/// A publication of QoS 2 and a release, of a client that has others unreleased: they must cost it
/// nothing.
func measureUnreleased(_ count: UInt16, times: Int) {
    measure(
        "unreleased-\(count)", times: times,
        prepare: {
            var core = BenchCore(receivers: 1, grade: nil)
            core.leaveUnreleased(count)
            return core
        },
        { core in
            let count = core.publishAndRelease()
            precondition(count == 2, "PUBREC and PUBCOMP")
        })
}

extension Broker {
    /// Ends the restoration of a store that has nothing.
    mutating func beginEmpty(at moment: Moment) {
        let empty = RestoredState(
            identity: StoreIdentity(high: 1, low: 1), nextMessage: StoredMessageID(raw: 1),
            stamp: nil, damaged: [])
        do throws(RestoreError) {
            try finishRestoring(empty, newEpochSeed: 1, at: moment)
        } catch {
            preconditionFailure("an empty store was not restored: \(error)")
        }
    }
}
