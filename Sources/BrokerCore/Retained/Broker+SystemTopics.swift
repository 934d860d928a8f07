// What the broker tells of itself on `$SYS/…`: the last value of each topic is kept in memory only,
// for every app alike, and goes to who subscribes and has the right to it by name. Which values
// there are, the core does not know.

import Primitives

/// The last values.
struct SystemTopics: ~Copyable {
    var tree = RetainedTree<SystemBlock>()
    var blocks = Slab<SystemBlock>()
}

/// The message block of one topic's last value.
struct SystemBlock {
    var bytes: [UInt8]
}

/// One value, as it is published.
public struct SystemValue: Sendable {
    /// Begins with `$SYS/`.
    public var topic: [UInt8]
    public var payload: [UInt8]

    public init(topic: [UInt8], payload: [UInt8]) {
        self.topic = topic
        self.payload = payload
    }
}

extension Broker {
    /// Whether anybody subscribes to `$SYS`.
    public var hasSystemSubscribers: Bool {
        for app in registry.apps.places
        where registry.apps.contains(app) && registry.apps[app].systemCount > 0 {
            return true
        }
        return false
    }

    /// Publishes values of the broker's own, at most once to whoever is online.
    public mutating func publishSystem(
        _ values: [SystemValue], at moment: Moment, effects: inout Effects
    ) {
        var step = Step(at: moment, effects: effects)
        for value in values {
            precondition(
                value.topic.withUnsafeBytes { ReservedTopic($0) == .system },
                "\(String(decoding: value.topic, as: UTF8.self)) is no topic of the system")
            let block = systemBlock(value, at: step.moment)
            if let index = value.topic.withUnsafeBytes({ retention.systemTopics.tree.value(of: $0) }
            ) {
                retention.systemTopics.blocks[index].bytes = block
            } else {
                let index = retention.systemTopics.blocks.insert(SystemBlock(bytes: block)).index
                _ = value.topic.withUnsafeBytes { retention.systemTopics.tree.set($0, to: index) }
            }
            for app in registry.apps.places
            where registry.apps.contains(app) && registry.apps[app].systemCount > 0 {
                let audience = value.topic.withUnsafeBytes {
                    self.audience(ofTopic: $0, app, from: nil)
                }
                guard let audience else { continue }
                let stamp = makeStamp()
                block.withUnsafeBytes {
                    let message = TransientMessage(
                        stamp: stamp, parts: MessageParts(MessageBlock($0)), deadline: .never,
                        excluded: nil, sender: nil, isRetained: true)
                    deliver(message, to: audience, in: &step)
                }
            }
        }
    }

    private func systemBlock(_ value: SystemValue, at moment: Moment) -> [UInt8] {
        let empty = UnsafeRawBufferPointer(start: nil, count: 0)
        return value.topic.withUnsafeBytes { topic in
            value.payload.withUnsafeBytes { payload in
                MessageParts(
                    kind: .topic, marks: [.raw, .retain], grade: .transient,
                    time: moment.unixMilliseconds, sender: empty, address: topic,
                    properties: empty, payload: payload
                ).block()
            }
        }
    }

    /// Sends one of the last values to a new subscription.
    mutating func send(
        system index: Index<SystemBlock>, to session: Index<Session>,
        subscriptionIdentifier: UInt32, in step: inout Step
    ) {
        let connection = liveConnection(of: session)
        guard connection != .none else { return }
        let state = EntryState(
            grade: .transient, options: .retain, subscriptionIdentifier: subscriptionIdentifier)
        let stamp = makeStamp()
        retention.systemTopics.blocks[index].bytes.withUnsafeBytes {
            step.effects[connection.loop].deliver(
                stamp: stamp, block: $0, deadline: .never, to: connection,
                sessions[session].dialect, state: state)
        }
        counters.deliveries += 1
    }
}
