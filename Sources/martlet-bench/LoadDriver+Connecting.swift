// How clients come in: a bounded number at a time, each with CONNECT, then, a receiver, SUBSCRIBE.

import NetTransport
import Primitives
import WireFormat

/// Where the load goes, resolved.
struct LoadTarget {
    var address: SocketAddress
    var serverName: String
    var sources: [SocketAddress]
    var tls: ClientTLSContext?
    /// Whose costs are measured; nil for nobody's.
    var cost: CostSource?
}

extension LoadDriver {
    /// Connects that wait for their answer at a time: enough to keep a broker busy, few enough that
    /// none of them waits for long.
    private static let connectsUnderWayMaximum = 256

    mutating func connectMore(at now: UInt64, in loop: inout EventLoop) {
        if connectsBegun == 0 {
            connectStart = now
            if plan.scenario == .connect { startInterval() }
        }
        while let client = toConnect.first, connectsUnderWay < LoadDriver.connectsUnderWayMaximum,
            isConnectDue(at: now)
        {
            // The first connection brings the session that the others resume.
            if plan.resumesTLS, connectsBegun > 0, ticket == nil { return }
            let source =
                target.sources.isEmpty ? nil : target.sources[client % target.sources.count]
            do throws(TransportError) {
                let connection = try loop.connect(
                    to: target.address, from: source, tls: target.tls,
                    serverName: target.serverName, resuming: ticket)
                clients[client] = Client(connection: connection, phase: .connecting)
                clientBySlot[connection.slot] = UInt32(client)
            } catch {
                fail("\(error)")
                return
            }
            toConnect.removeFirst()
            connectsUnderWay += 1
            connectsBegun += 1
        }
    }

    private func isConnectDue(at now: UInt64) -> Bool {
        guard let rate = plan.connectsPerSecond else { return true }
        return Double(connectsBegun) <= Double(now - connectStart) / 1e9 * Double(rate)
    }

    /// Sends CONNECT.
    func introduce(_ client: Int, in loop: inout EventLoop) {
        let identity = ClientIdentity(
            name: Array(name(of: client).utf8), user: plan.user.map { Array($0.utf8) },
            password: plan.password.map { Array($0.utf8) },
            expirySeconds: client < plan.receiverCount ? plan.expirySeconds : 0,
            inboxWindow: UInt16.max, isNumbered: client >= plan.receiverCount && plan.qos > 0)
        switch plan.dialect {
        case .mrt: MRTCodec.writeConnect(identity, to: clients[client].connection, in: &loop)
        case .mqtt311:
            MQTTCodec.writeConnect(identity, to: clients[client].connection, in: &loop)
        }
    }

    /// The broker has let a client in.
    mutating func becameConnected(_ client: Int, in loop: inout EventLoop) {
        let connection = clients[client].connection
        if plan.resumesTLS, ticket == nil { ticket = loop.sessionTicket(of: connection) }
        guard client < plan.receiverCount, stage == .connecting, plan.scenario != .connect,
            !receivesUnasked
        else {
            becameReady(client)
            return
        }
        clients[client].phase = .subscribing
        let topic = Array(plan.topic(ofPair: client).utf8)
        switch plan.dialect {
        case .mrt:
            MRTCodec.writeSubscribe(
                topic, grade: MRT.Grade(rawValue: UInt8(plan.qos))!, to: connection, in: &loop)
        case .mqtt311:
            MQTTCodec.writeSubscribe(topic, qos: UInt8(plan.qos), to: connection, in: &loop)
        }
    }

    mutating func becameReady(_ client: Int) {
        guard clients[client].phase != .ready else { return }
        clients[client].phase = .ready
        connectsUnderWay -= 1
        readyCount += 1
        tally.connected += 1
        progress(at: monotonicNanoseconds())
    }

    /// Users of MRT get their mail without subscribing to it.
    private var receivesUnasked: Bool { plan.dialect == .mrt && plan.topology == .pairs }

    /// The client id, which is also the user where a listener asks for no credentials.
    func name(of client: Int) -> String {
        client < plan.receiverCount
            ? plan.receiverName(client)
            : "\(plan.prefix)-p\(plan.startNumber + client - plan.receiverCount)"
    }
}

extension Plan {
    func receiverName(_ receiver: Int) -> String { "\(prefix)-r\(startNumber + receiver)" }

    /// The plain topic of a pair, or of all.
    func topic(ofPair pair: Int) -> String {
        var text = ""
        var rest = topic[...]
        while let place = rest.firstIndex(of: "%") {
            text += rest[..<place]
            rest = rest[place...].dropFirst()
            if rest.first == "i" {
                text += String(startNumber + pair)
                rest = rest.dropFirst()
            } else {
                text += "%"
            }
        }
        return text + rest
    }
}
