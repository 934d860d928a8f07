// Bytes of sockets that speak for another system.

import BrokerTerms
import Dialects
import NetTransport
import Primitives
import SourceInterfaces

extension BrokerLoopHandler {
    /// Messages of a connection that one turn reads: as many as the pings of its windows.
    private static let socketMessagesPerTurnMaximum = 256

    /// Reads messages of a socket.
    mutating func receivedMessages(
        _ bytes: ByteRange, from connection: ConnectionID,
        in loop: inout some BrokerLoop & ~Copyable
    ) -> Consumption {
        if isDrained {
            loop.pauseReading(connection, for: .handler)
            return Consumption(consumed: 0)
        }
        var offset = 0
        var messageCount = 0
        while let byteCountMaximum = sockets.messageByteCountMaximum(of: connection) {
            guard messageCount < Self.socketMessagesPerTurnMaximum else {
                continueNextTurn(connection, in: &loop)
                return Consumption(consumed: offset)
            }
            guard !sockets.holdUnread(connection, in: &loop) else {
                return Consumption(consumed: offset)
            }
            messageCount += 1
            let rest = ByteRange(
                offset: Int(bytes.offset) + offset, count: Int(bytes.count) - offset)
            switch SocketText.next(
                in: rest.bytes(in: loop.arena).bytes, byteCountMaximum: byteCountMaximum)
            {
            case .incomplete(let byteCount):
                return Consumption(consumed: offset, awaiting: byteCount)
            case .tooLarge:
                sockets.end(connection, code: 413, "the message is too long", in: &loop)
            case .text(let text, let end):
                offset += end
                if let packet = sockets.take(text, from: connection, in: &loop) {
                    let range = packet.withUnsafeBytes { loop.appendIncoming($0) }
                    readStandIn(range, for: connection, in: &loop)
                }
            }
        }
        // What follows the last message is not read; what waits for an answer is shown again.
        return Consumption(consumed: sockets.hasEnded(connection) ? Int(bytes.count) : offset)
    }
}
