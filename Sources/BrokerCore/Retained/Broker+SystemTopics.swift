// The broker's values on `$SYS/…`. The last value of each topic is in memory only and is the same
// for all apps. Subscribers need a right by name. The runtime decides which values there are.

import Primitives

/// The last values of all topics.
struct SystemTopics: ~Copyable {
    var tree = RetainedTree<SystemBlock>()
    var blocks = Slab<SystemBlock>()
    /// Whether new subscriptions get the last values. Values that are not renewed any more say what
    /// was true long ago.
    var areCurrent = false
}

/// The message block of the last value of one topic.
struct SystemBlock {
    var bytes: [UInt8]
}

/// One value to be published.
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
    /// Whether any session subscribes to `$SYS`.
    public var hasSystemSubscribers: Bool {
        for app in registry.apps.places
        where registry.apps.contains(app) && registry.apps[app].systemCount > 0 {
            return true
        }
        return false
    }

    /// Publishes values at most once, to subscribers that are connected.
    public mutating func publishSystem(
        _ values: [SystemValue], at moment: Moment, effects: inout Effects
    ) {
        var step = Step(at: moment, effects: effects)
        retention.systemTopics.areCurrent = true
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

    /// Withholds the last values from new subscriptions until there are newer ones.
    public mutating func retireSystemValues() { retention.systemTopics.areCurrent = false }

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
        guard connection != .none, retention.systemTopics.areCurrent else { return }
        let state = EntryState(
            grade: .transient, options: .retain, subscriptionIdentifier: subscriptionIdentifier)
        let stamp = makeUnmeasuredStamp()
        retention.systemTopics.blocks[index].bytes.withUnsafeBytes {
            step.effects[connection.loop].deliver(
                stamp: stamp, block: $0, deadline: .never, to: connection,
                sessions[session].dialect, state: state)
        }
        counters.deliveries += 1
    }
}
