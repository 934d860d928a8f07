// The bridge's session with Martlet: the client's state machine, its memory, and the conversion of
// messages. It opens no socket.

import BrokerTerms
import ClientCore
import MartletClient
import Primitives
import WireFormat

package final class MartletLink {
    /// The result of passing a message on.
    enum Handed {
        case taken(number: UInt64)
        /// There is no room until an answer arrives.
        case full
        case refused(ReasonCode)
    }

    package var machine: ClientMachine
    private let identity: UnsafeMutableRawBufferPointer
    private let receive: UnsafeMutableRawBufferPointer
    private let outbox: UnsafeMutableRawBufferPointer
    private let transmit: UnsafeMutableRawBufferPointer

    init(
        _ settings: MartletSettings, packetMaximum: Int, record: ClientRecord, jitterSeed: UInt64
    ) {
        func room(_ byteCount: Int) -> UnsafeMutableRawBufferPointer {
            .allocate(byteCount: byteCount, alignment: 16)
        }
        let device = Array(settings.device.utf8)
        let token = Array((settings.token ?? "").utf8)
        let servers = ServerAddress.names(settings.servers)
        identity = room(device.count + token.count + servers.count)
        identity.copyBytes(from: device + token + servers)
        // Martlet must not shorten its answers because of this client's packet maximum.
        receive = room(packetMaximum)
        // The largest message fits beside another one at any time.
        outbox = room(2 * packetMaximum)
        var connect = MRT.Connect()
        connect.keepAliveSeconds = settings.keepAliveSeconds
        connect.inboxWindow = UInt16(settings.inFlightMaximum)
        connect.device = ByteRange(offset: 0, count: device.count)
        if settings.token != nil {
            connect.credential = .token(ByteRange(offset: device.count, count: token.count))
        }
        machine = ClientMachine(
            identity: ClientIdentity(
                connect: connect,
                servers: ByteRange(offset: device.count + token.count, count: servers.count),
                bytes: UnsafeRawBufferPointer(identity)),
            memory: ClientMemory(receive: receive, outbox: outbox), record: record,
            options: ClientOptions(jitterSeed: jitterSeed))
        transmit = room(max(64 << 10, machine.transmitByteCountMinimum))
    }

    deinit {
        for memory in [identity, receive, outbox, transmit] { memory.deallocate() }
    }

    /// Passes a message on.
    ///
    /// - Parameter number: the number of a message that an earlier run has sent; nil for a new one.
    func send(_ message: PreparedSend, _ grade: MRT.Grade, again number: UInt64? = nil) -> Handed {
        let address: [UInt8]
        let target: MRT.Target
        switch message.target {
        case .user(let name):
            address = name
            target = .user(ByteRange(offset: 0, count: name.count))
        case .group(let name):
            address = name
            target = .group(ByteRange(offset: 0, count: name.count))
        case .topic(let name):
            address = name
            target = .topic(ByteRange(offset: 0, count: name.count))
        }
        // A name that exceeds its length field is no address.
        guard address.count <= Self.addressByteCountMaximum(target), !address.isEmpty else {
            return .refused(.topicNameInvalid)
        }
        var send = MRT.Send(
            grade: grade, number: number ?? 0, target: target,
            payload: ByteRange(offset: address.count, count: message.payload.count))
        send.isRaw = message.isRaw
        send.isRetained = message.isRetained
        send.expirySeconds = message.expirySeconds
        return (address + message.payload).withUnsafeBytes { source in
            do throws(ClientError) {
                if let number {
                    try machine.resend(send, number: number, from: source)
                    return .taken(number: number)
                }
                return .taken(number: try machine.send(send, from: source))
            } catch {
                switch error {
                case .outboxFull, .notConnected: return .full
                case .refused(let reason): return .refused(reason)
                }
            }
        }
    }

    private static func addressByteCountMaximum(_ target: MRT.Target) -> Int {
        if case .topic = target { return WireLimits.topicByteCountMaximum }
        return WireLimits.identifierByteCountMaximum
    }

    /// The next bytes for Martlet; empty if there are none.
    package func nextBytes(now: Instant) -> UnsafeRawBufferPointer {
        let count = machine.transmit(into: transmit, now: now)
        return UnsafeRawBufferPointer(rebasing: transmit[..<count])
    }

    func copy(_ range: ByteRange) -> [UInt8] { Array(machine.bytes(range)) }
}
