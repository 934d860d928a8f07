// A fleet of clients on one loop that connect at once, and the order in which they are admitted.

import BrokerTerms
import MartletClient
import NetTransport
import Primitives
import TestSurroundings
import WireFormat

/// Many devices of one user, plain and over TLS.
final class Fleet {
    private struct Handler: IndifferentHandler {
        var numbers: [ConnectionID: Int] = [:]
        var packets: [[UInt8]]
        var isLetIn: [Bool]
        /// Numbers of devices in the order in which their CONNACK came.
        var order: [Int] = []
        var refusals: [ReasonCode: Int] = [:]
        var resumedCount = 0
        var lostCount = 0
        var connected: [ConnectionID] = []

        mutating func opened(
            _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
        ) {
            connected.append(connection)
            guard let number = numbers[connection] else { return }
            _ = packets[number].withUnsafeBytes {
                loop.append($0, to: connection, .required)
            }
        }

        mutating func received(
            _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
        ) -> Consumption {
            let buffer = bytes.bytes(in: loop.arena)
            guard let number = numbers[connection], !isLetIn[number] else {
                return Consumption(consumed: buffer.count)
            }
            guard
                case .packet(let frame) = PacketFrame.next(
                    in: buffer.bytes, at: 0, packetMaximum: 4096)
            else { return Consumption(consumed: 0) }
            switch try? MRT.Connack(body: frame.body.bytes(in: buffer).bytes) {
            case .accepted(let accepted)?:
                isLetIn[number] = true
                order.append(number)
                if accepted.isSessionPresent { resumedCount += 1 }
            case .refused(let refused)?:
                refusals[refused.reason, default: 0] += 1
            case nil:
                refusals[.malformedPacket, default: 0] += 1
            }
            return Consumption(consumed: buffer.count)
        }

        mutating func closed(
            _ connection: ConnectionID, _ cause: TransportCloseCause, in loop: inout EventLoop
        ) {
            lostCount += 1
        }
    }

    private var loop: EventLoop
    private var handler: Handler
    private let tls: ClientTLSContext
    let plainCount: Int
    let tlsCount: Int

    /// The plain devices come first, then those with TLS.
    init(_ broker: TestBroker, token: String, plainCount: Int, tlsCount: Int) throws {
        var configuration = EventLoop.Configuration()
        configuration.connectionsMaximum = plainCount + tlsCount
        configuration.connectMilliseconds = 60_000
        loop = try EventLoop(configuration, handle: LoopHandle())
        tls = try ClientTLSContext(trust: .authorityFile(broker.authority))
        (self.plainCount, self.tlsCount) = (plainCount, tlsCount)
        let packets = (0..<plainCount + tlsCount).map { number in
            connectBytes(token: token, device: "device-\(number)")
        }
        handler = Handler(
            packets: packets, isLetIn: Array(repeating: false, count: packets.count))
    }

    /// Connects them all, in their order. The broker need not answer yet.
    func connect(to broker: TestBroker) throws {
        let plain = SocketAddress(numericHost: "127.0.0.1", port: broker.plainPort)!
        let secure = SocketAddress(numericHost: "127.0.0.1", port: broker.tlsPort)!
        for number in 0..<plainCount + tlsCount {
            let isPlain = number < plainCount
            let connection = try loop.connect(
                to: isPlain ? plain : secure, tls: isPlain ? nil : tls)
            handler.numbers[connection] = number
            if number % 64 == 63 { _ = loop.turn(&handler, waitMaximum: 0) }
        }
        _ = loop.turn(&handler, waitMaximum: 0)
    }

    /// Turns until all are in, or one is lost or refused; `look` is called now and then.
    func waitUntilIn(seconds: Double, _ look: () throws -> Void) throws {
        let end = ContinuousClock.now + .seconds(seconds * Double(Sanitizer.patience))
        var next = ContinuousClock.now
        while letInCount < plainCount + tlsCount, refusals.isEmpty, lostCount == 0 {
            _ = loop.turn(&handler, waitMaximum: 20)
            let now = ContinuousClock.now
            if now > end { throw TestFailure("\(seconds) s passed: \(letInCount) are in") }
            if now >= next {
                try look()
                next = now + .milliseconds(50)
            }
        }
    }

    var letInCount: Int { handler.order.count }
    var refusals: [ReasonCode: Int] { handler.refusals }
    var resumedCount: Int { handler.resumedCount }
    var lostCount: Int { handler.lostCount }

    /// By how many places a device came in later than it stood, at most; of one kind of listener,
    /// since each has a line of its own.
    func longestDelay(of devices: Range<Int>) -> Int {
        let order = handler.order.filter(devices.contains)
        return order.enumerated().map { $0.offset - ($0.element - devices.lowerBound) }.max() ?? 0
    }
}
