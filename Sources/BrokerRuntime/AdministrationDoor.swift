// The operator's door: a Unix socket in the data directory on which `martlet` asks and is answered,
// one JSON object per line. It runs on a loop and thread of its own, so that an operator never
// waits for the fleet, nor the fleet for an operator.

import Administration
import NetTransport
import Primitives

/// Reads requests from the socket and writes the desk's replies.
struct AdministrationDoor: LoopHandler, ~Copyable {
    private let desk: OperatorDesk

    init(desk: OperatorDesk) {
        self.desk = desk
    }

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        // Who may open the socket is who the file system says; there is nothing to log in to.
        loop.clearDeadline(of: connection)
        loop.setPacketMaximum(AdministrationLine.requestByteCountMaximum, for: connection)
    }

    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        var start = Int(bytes.offset)
        let end = bytes.endOffset
        let arena = loop.arena
        while let feed = arena[start..<end].firstIndex(of: UInt8(ascii: "\n")) {
            let reply = desk.answer(Array(arena[start..<feed]))
            _ = reply.withUnsafeBytes { loop.append($0, to: connection, .required) }
            start = feed + 1
        }
        return Consumption(consumed: start - Int(bytes.offset))
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {}

    mutating func closed(
        _ connection: ConnectionID, _ cause: NetTransport.CloseCause, in loop: inout EventLoop
    ) {}
}
