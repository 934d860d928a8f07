// The common part of the handlers of the tests' clients.

import BrokerTerms
import NetTransport

/// A loop handler that does nothing at the events that it does not implement itself.
protocol IndifferentHandler: LoopHandler {}

extension IndifferentHandler {
    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {}
    mutating func outgoingDrained(_ connection: ConnectionID, in loop: inout EventLoop) {}
    mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout EventLoop
    ) {}
    mutating func woken(in loop: inout EventLoop) {}
    mutating func turnEnded(in loop: inout EventLoop) {}
    mutating func stopping(in loop: inout EventLoop) {}
}
