// Devices that are connected, subscribed, and do not read until the test lets them; then they
// receive and acknowledge everything. They are on one loop, which a test runs turn by turn.

import BrokerTerms
import MartletClient
import NetTransport
import Primitives
import TestSurroundings
import WireFormat

final class SlowFleet {
    private struct Handler: IndifferentHandler {
        enum Progress { case connecting, subscribing, ready }

        let subscribe: [UInt8]
        var packets: [ConnectionID: [UInt8]] = [:]
        var progress: [ConnectionID: Progress] = [:]
        /// Inbox numbers in the order in which they came.
        var numbers: [ConnectionID: [UInt64]] = [:]
        var readyCount = 0
        var lostCount = 0
        var refusal: ReasonCode?

        mutating func opened(
            _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
        ) {
            progress[connection] = .connecting
            send(packets.removeValue(forKey: connection)!, to: connection, in: &loop)
        }

        private func send(
            _ bytes: [UInt8], to connection: ConnectionID, in loop: inout EventLoop
        ) {
            _ = bytes.withUnsafeBytes { loop.append($0, to: connection, .required) }
        }

        mutating func received(
            _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
        ) -> Consumption {
            let all = Array(bytes.bytes(in: loop.arena))
            var taken = 0
            all.withUnsafeBytes { buffer in
                while case .packet(let frame) = PacketFrame.next(
                    in: buffer.bytes, at: taken, packetMaximum: 1 << 20)
                {
                    take(frame, frame.body.bytes(in: buffer), from: connection, in: &loop)
                    taken = frame.endOffset
                }
            }
            return Consumption(consumed: taken)
        }

        private mutating func take(
            _ frame: PacketFrame, _ body: UnsafeRawBufferPointer, from connection: ConnectionID,
            in loop: inout EventLoop
        ) {
            switch MRT.PacketType(rawValue: frame.type) {
            case .connack:
                if case .refused(let refused)? = try? MRT.Connack(body: body.bytes) {
                    refusal = refused.reason
                }
                progress[connection] = .subscribing
                send(subscribe, to: connection, in: &loop)
            case .response:
                if progress[connection] == .subscribing {
                    progress[connection] = .ready
                    readyCount += 1
                    loop.pauseReading(connection)
                }
            case .deliver:
                guard let deliver = try? MRT.Deliver(flags: frame.flags, body: body.bytes),
                    deliver.number > 0
                else { return }
                numbers[connection, default: []].append(deliver.number)
                send(packetBytes(MRT.Ack(inboxNumber: deliver.number)), to: connection, in: &loop)
            default: break
            }
        }

        mutating func closed(
            _ connection: ConnectionID, _ cause: TransportCloseCause, in loop: inout EventLoop
        ) {
            lostCount += 1
        }
    }

    private var loop: EventLoop
    private var handler: Handler
    private var connections: [ConnectionID] = []

    /// Connects devices of one user and subscribes each to a topic, with the grade *durable*.
    init(_ broker: TestBroker, user: String, count: Int, topic: String) throws {
        var configuration = EventLoop.Configuration()
        configuration.connectionsMaximum = count
        configuration.connectMilliseconds = 60_000
        loop = try EventLoop(configuration, handle: LoopHandle())
        let filter = [Grade.durable.rawValue] + Array(topic.utf8)
        handler = Handler(
            subscribe: packetBytes(
                MRT.Request(
                    identifier: 1, operation: .subscribe,
                    parameters: ByteRange(offset: 0, count: filter.count)), filter))
        let address = SocketAddress(numericHost: "127.0.0.1", port: broker.plainPort)!
        let token = try broker.token(user)
        for number in 0..<count {
            let connection = try loop.connect(to: address)
            handler.packets[connection] = connectBytes(token: token, device: "slow-\(number)")
            connections.append(connection)
            if number % 64 == 63 { _ = loop.turn(&handler, waitMaximum: 0) }
        }
        try turn(seconds: 60, "all of the slow readers") { $0.readyCount == count }
    }

    var lostCount: Int { handler.lostCount }

    /// Hears of connections that ended, and reads nothing.
    func look() { _ = loop.turn(&handler, waitMaximum: 0) }

    /// Reads and acknowledges until every device has so many messages with a number.
    ///
    /// - Returns: each device's inbox numbers, in the order of arrival.
    func readAll(_ count: Int) throws -> [[UInt64]] {
        for connection in connections { loop.resumeReading(connection) }
        try turn(seconds: 60, "\(count) messages for each") { handler in
            connections.allSatisfy { handler.numbers[$0, default: []].count >= count }
        }
        return connections.map { handler.numbers[$0, default: []] }
    }

    private func turn(
        seconds: Double, _ what: String, until isDone: (Handler) -> Bool
    ) throws {
        let end = ContinuousClock.now + .seconds(seconds * Double(Sanitizer.patience))
        while !isDone(handler) {
            _ = loop.turn(&handler, waitMaximum: 20)
            if let reason = handler.refusal { throw TestFailure("refused: \(reason)") }
            guard ContinuousClock.now < end else {
                throw TestFailure(
                    "\(seconds) s passed without \(what): \(handler.readyCount) are ready, "
                        + "\(handler.lostCount) lost, \(handler.numbers.values.map(\.count))")
            }
        }
    }
}
