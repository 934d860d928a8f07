// The events that a client's machine reports to its program.

import BrokerTerms
import Primitives
import WireFormat

/// One thing that happened. Ranges within are resolved by ``ClientMachine/bytes(_:)`` and are valid
/// until the next call of a mutating function of the machine.
public enum ClientEvent: Hashable, Sendable {
    /// Open a transport to the broker, then say ``ClientMachine/opened(now:)``, or
    /// ``ClientMachine/closed(now:)`` where that failed.
    case connectionWanted
    /// Reason 5: logged in.
    case connected(ClientConnected)
    /// A message: its kind is the reason (2 unicast, 3 group, 4 broadcast, 6 kicked out). Process
    /// it; if it has a number, store the inbox record with its effect and call
    /// ``ClientMachine/acknowledge(through:now:)``.
    case delivered(MRT.Deliver)
    /// Something happened in a group, which is the delivery's address; process and acknowledge it
    /// as a message. Events that this program does not know come as ``delivered(_:)``.
    case groupChanged(MRT.Deliver, MRT.GroupEvent)
    /// What became of a send: reason 1, or why it was refused. It is not sent again.
    case resolved(MRT.SendResult)
    /// The answer to a request.
    case answered(MRT.Response)
    /// The answer to ``ClientMachine/replaceCredential(_:)``.
    case credentialAnswered(ReasonCode)
    /// A packet of a conversation that this client carries for another, as a gateway does. What it
    /// sends for them it hands to the transport itself, whenever the machine's own bytes have been
    /// taken up to the last.
    case carried(MRT.Channel)
    /// The connection is over: close the transport and drop what it had not yet sent.
    case disconnected(ClientDisconnection)
}

/// A login that succeeded.
public struct ClientConnected: Hashable, Sendable {
    /// All that the broker granted.
    public var accepted: MRT.ConnectAccepted
    /// The inbox numbers belong to a new session: store the inbox record anew.
    public var isNewInbox: Bool
}

/// The end of a connection, or of an attempt at one.
public struct ClientDisconnection: Hashable, Sendable {
    /// What the broker said, or the machine's own judgement: ``ReasonCode/keepAliveTimeout`` for a
    /// broker that is silent, ``ReasonCode/malformedPacket`` or ``ReasonCode/protocolError`` for
    /// one that cannot be understood, ``ReasonCode/packetTooLarge`` for a packet beyond the receive
    /// memory, ``ReasonCode/receiveMaximumExceeded`` for one that does not keep to the inbox
    /// window; nil where the transport just ended.
    public var reason: ReasonCode?
    /// When ``ClientEvent/connectionWanted`` follows; nil where it does not without a new
    /// ``ClientMachine/start(now:)``.
    public var retryAt: Instant?
}

/// Why a send or a request was not taken.
public enum ClientError: Error, Hashable, Sendable {
    /// The outbox memory is full of what has no answer yet.
    case outboxFull
    /// A transient send needs a connection.
    case notConnected
    /// The broker would refuse it for this reason.
    case refused(ReasonCode)
}
