// What MQTT clients do in the world of the core's tests.

import BrokerTerms
import Primitives

@testable import BrokerCore

extension World {
    /// Lets MQTT clients in, commits, and forgets what was said.
    func beginMQTT(
        _ names: String..., dialect: SessionDialect = .mqtt5, clean: Bool = false,
        expiry: UInt32 = 3600, window: UInt16 = .max
    ) {
        for name in names {
            connect(name, clean: clean, expiry: expiry, window: window, dialect: dialect)
        }
        settle()
        _ = lines()
    }

    /// A publication on a topic; QoS by its grade.
    func publish(
        _ name: String, _ identifier: UInt16, _ topic: String, _ text: String,
        grade: Grade = .durable, isRetained: Bool = false, expiry: UInt64? = nil
    ) {
        publish(
            name, identifier, to: .topic(topic), text, grade: grade, isRetained: isRetained,
            expiry: expiry)
    }

    /// A QoS 0 publication.
    func publish(
        _ name: String, _ topic: String, _ text: String, grade: Grade, isRetained: Bool = false
    ) {
        precondition(grade == .transient, "other grades have identifiers")
        publish(name, 0, to: .topic(topic), text, grade: grade, isRetained: isRetained)
    }

    func publish(
        _ name: String, _ identifier: UInt16, to target: Target, _ text: String,
        grade: Grade = .durable, isRetained: Bool = false, expiry: UInt64? = nil, id: String = ""
    ) {
        var bytes = World.preceding
        var request = SendRequest(
            number: 0, grade: grade, target: target.append(to: &bytes), expirySeconds: expiry,
            isRaw: true, payload: bytes.appendRange(text), messageByteCount: 0)
        if case .topic = target {
        } else {
            request.isRaw = false
            request.payload = bytes.appendRange("\0" + text)
            request.messageByteCount = 20
        }
        request.packetIdentifier = identifier
        request.isRetained = isRetained
        if !id.isEmpty { request.messageIdentifier = bytes.appendRange(id) }
        step(.sendReceived(connections[name]!, request), bytes: bytes)
    }

    func answer(
        _ name: String, _ step: PacketStep, _ identifier: UInt16, _ reason: ReasonCode = .success
    ) {
        self.step(
            .packetAnswered(connections[name]!, packetIdentifier: identifier, step, reason))
    }

    /// Subscribes and commits; what the answer said, one number for each filter.
    @discardableResult
    func subscribeMQTT(
        _ name: String, _ filters: String..., grade: Grade = .once,
        options: SubscriptionOptions = [], identifier: UInt32 = 0
    ) -> [UInt8] {
        step(
            subscribe: filters, under: freeRequest(name), on: name, grade: grade,
            options: options, identifier: identifier)
        settle()
        return Array(lastAnswer)
    }

    /// One SUBSCRIBE of MQTT.
    func step(
        subscribe filters: [String], under requestIdentifier: UInt64, on name: String,
        grade: Grade = .once, options: SubscriptionOptions = [], identifier: UInt32 = 0
    ) {
        var bytes: [UInt8] = []
        for filter in filters {
            let wanted = FilterRequest(filter: .empty, grade: grade, options: options)
            bytes += [UInt8(filter.utf8.count >> 8), UInt8(filter.utf8.count & 0xFF)]
            bytes += Array(filter.utf8) + [wanted.settings]
        }
        let list = FilterList(
            bytes: ByteRange(offset: 0, count: bytes.count), count: filters.count)
        let request = SubscribeRequest(
            requestIdentifier: requestIdentifier, filters: .list(list),
            subscriptionIdentifier: identifier)
        step(.subscribeReceived(connections[name]!, request), bytes: bytes)
    }

    /// The lines of one client, without its name.
    func lines(of name: String) -> [String] {
        lines().filter { $0.hasPrefix("\(name): ") }.map { String($0.dropFirst(name.count + 2)) }
    }
}

extension RetainedTree {
    /// Everything that a filter matches, by a walk from one end to the other.
    mutating func matches(_ filter: [UInt8]) -> [Index<Value>] {
        var walk = begin(filter)
        defer { end(walk) }
        var values: [Index<Value>] = []
        while true {
            switch advance(&walk) {
            case .nothing: continue
            case .value(let value): values.append(value)
            case .end: return values
            }
        }
    }
}
