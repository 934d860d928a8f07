// Connects clients: a bounded number at a time, each with CONNECT and, if needed, a request: a
// receiver subscribes or joins a group, a publisher creates the group or sets its will.

import NetTransport
import Primitives
import WireFormat

/// The target of the load, with resolved addresses.
struct LoadTarget {
    var address: SocketAddress
    var serverName: String
    var sources: [SocketAddress]
    var tls: ClientTLSContext?
    /// The process whose costs are measured; nil for none.
    var cost: CostSource?
}

extension LoadDriver {
    /// Unanswered connects at a time: enough to keep a broker busy, and few enough that none of
    /// them waits for long.
    private static let connectsUnderWayMaximum = 256

    mutating func connectMore(at now: UInt64, in loop: inout EventLoop) {
        if connectsBegun == 0 {
            connectStart = now
            if plan.scenario == .connect { startInterval() }
        }
        while connectsUnderWay < LoadDriver.connectsUnderWayMaximum, mayConnect {
            let due = connectTime(at: now)
            guard due <= now, let client = nextToConnect(due) else { return }
            let source =
                target.sources.isEmpty ? nil : target.sources[client % target.sources.count]
            do throws(TransportError) {
                let connection = try loop.connect(
                    to: target.address, from: source, tls: target.tls,
                    serverName: target.serverName, resuming: ticket)
                clients[client].connection = connection
                clients[client].phase = .connecting
                clientBySlot[connection.slot] = UInt32(client)
            } catch {
                fail(OwnLimits.explain(error))
                return
            }
            connectsUnderWay += 1
            connectsBegun += 1
        }
    }

    /// The first connection may provide what all others need: the TLS session that they resume, or
    /// the group that they join.
    private var mayConnect: Bool {
        if connectsBegun == 0 { return true }
        if plan.resumesTLS, ticket == nil { return false }
        return plan.scenario != .group || !group.isEmpty
    }

    /// When the next connect should begin.
    private func connectTime(at now: UInt64) -> UInt64 {
        guard let rate = plan.connectsPerSecond else { return now }
        return connectStart + UInt64(Double(connectsBegun) / rate * 1e9)
    }

    /// Takes the next client off its list; `due` is when it should begin, unless that is known
    /// already.
    private mutating func nextToConnect(_ due: UInt64) -> Int? {
        if !toConnect.isEmpty {
            let place = toConnect.removeFirst()
            // The client that creates the group is the first.
            let isFounder = plan.scenario == .group && place == 0
            let client =
                plan.scenario == .group
                ? (isFounder ? plan.receiverCount : place - 1) : place
            clients[client].since = due
            return client
        }
        guard reconnectsBegun < reconnects.count else { return nil }
        let client = Int(reconnects[reconnectsBegun])
        reconnectsBegun += 1
        if reconnectsBegun == reconnects.count {
            reconnects.removeAll(keepingCapacity: true)
            reconnectsBegun = 0
        }
        return client
    }

    /// Sends CONNECT.
    mutating func introduce(_ client: Int, in loop: inout EventLoop) {
        let publisher = plan.publisher(ofClient: client)
        let hasWill = plan.scenario == .will && publisher >= 0
        let will = hasWill && mqtt != nil ? will(of: publisher) : nil
        defer { will?.bytes.deallocate() }
        let isNumbered = publisher >= 0 && plan.qos > 0
        if isNumbered {
            // Open exchanges of a cut connection are not resumed.
            publishers[publisher].confirmedThrough = publishers[publisher].nextSequence
            publishers[publisher].confirmedBeyond = 0
        }
        let identity = ClientIdentity(
            name: Array(plan.name(ofClient: client).utf8), user: plan.user.map { Array($0.utf8) },
            password: plan.password.map { Array($0.utf8) },
            expirySeconds: plan.isReceiver(client) ? plan.expirySeconds : 0,
            inboxWindow: UInt16.max,
            numbersUsed: isNumbered ? publishers[publisher].nextSequence : nil, will: will,
            willQoS: plan.qos)
        let connection = clients[client].connection
        clients[client].phase = .introduced
        if let mqtt {
            mqtt.writeConnect(identity, to: connection, in: &loop)
        } else {
            MRTCodec.writeConnect(identity, to: connection, in: &loop)
        }
    }

    /// The broker has accepted a client's login.
    mutating func becameConnected(_ client: Int, in loop: inout EventLoop) {
        guard clients[client].phase == .introduced else {
            fail("the broker accepted a login twice")
            return
        }
        let connection = clients[client].connection
        if plan.resumesTLS, ticket == nil { ticket = loop.sessionTicket(of: connection) }
        clients[client].phase = .subscribing
        if plan.isReceiver(client), needsSubscription {
            subscribe(client, in: &loop)
        } else if plan.scenario == .group {
            if plan.isReceiver(client) {
                MRTCodec.writeGroupJoin(group, to: connection, in: &loop)
            } else {
                MRTCodec.writeGroupCreate(to: connection, in: &loop)
            }
        } else if plan.scenario == .will, mqtt == nil {
            let will = will(of: plan.publisher(ofClient: client))
            MRTCodec.writeWill(will, to: connection, in: &loop)
            will.bytes.deallocate()
        } else {
            becameReady(client, at: monotonicNanoseconds(), in: &loop)
        }
    }

    /// Users of MRT receive messages to them without a subscription; the subscriptions of
    /// persistent sessions exist when a client returns.
    private var needsSubscription: Bool {
        guard plan.scenario != .connect, plan.addressKind == .topic else { return false }
        return stage == .connecting || plan.scenario == .churn
    }

    private func subscribe(_ client: Int, in loop: inout EventLoop) {
        let topic = Array(plan.topic(ofPair: client).utf8)
        let connection = clients[client].connection
        if let mqtt {
            mqtt.writeSubscribe(topic, qos: plan.qos, to: connection, in: &loop)
        } else {
            MRTCodec.writeSubscribe(
                topic, grade: MRT.Grade(rawValue: plan.qos)!, to: connection, in: &loop)
        }
    }

    mutating func becameReady(_ client: Int, at now: UInt64, in loop: inout EventLoop) {
        guard clients[client].phase == .subscribing else { return }
        clients[client].phase = .ready
        connectsUnderWay -= 1
        readyCount += 1
        tally.connected += 1
        lastProgress = now
        if plan.scenario == .connect {
            recentLatencies.record(now - min(now, clients[client].since))
        }
        if stage != .connecting { resumedLife(client, at: now, in: &loop) }
    }
}
