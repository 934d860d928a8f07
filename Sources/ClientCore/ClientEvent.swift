// The events that a client's machine reports to its program.

import BrokerTerms
import Primitives
import WireFormat

/// One event. ``ClientMachine/bytes(_:)`` resolves its ranges, which are valid until the next call
/// of a mutating function of the machine.
public enum ClientEvent: Hashable, Sendable {
    /// Open a transport connection to the address ``ClientMachine/server``, then call
    /// ``ClientMachine/opened(now:)``, or ``ClientMachine/closed(now:)`` if that failed.
    case connectionWanted
    /// Reason 5: logged in.
    case connected(ClientConnected)
    /// A message: the reason is its kind (2 unicast, 3 group, 4 broadcast, 6 kicked out). Process
    /// it. If it has a number, store the inbox record with the message's effect and call
    /// ``ClientMachine/acknowledge(through:now:)``.
    case delivered(MRT.Deliver)
    /// A change in a group, which is the delivery's address; process and acknowledge it like a
    /// message. Events that this program does not know are reported as ``delivered(_:)``.
    case groupChanged(MRT.Deliver, MRT.GroupEvent)
    /// The result of a send: reason 1, or the refusal. It is not sent again.
    case resolved(MRT.SendResult)
    /// The answer to a request.
    case answered(MRT.Response)
    /// The answer to ``ClientMachine/replaceCredential(_:)``.
    case credentialAnswered(ReasonCode)
    /// A packet on a channel that this client carries for another client, as a gateway does. The
    /// program passes the packets of its channels to the transport itself, after all of the
    /// machine's own bytes have been passed.
    case carried(MRT.Channel)
    /// The connection has ended: close the transport and discard its unsent bytes.
    case disconnected(ClientDisconnection)
}

/// A successful login.
public struct ClientConnected: Hashable, Sendable {
    /// The terms that the broker granted.
    public var accepted: MRT.ConnectAccepted
    /// The inbox numbers belong to a new session: store a new inbox record.
    public var isNewInbox: Bool
}

/// The end of a connection, or of an attempt to connect.
public struct ClientDisconnection: Hashable, Sendable {
    /// The broker's reason, or the machine's: ``ReasonCode/keepAliveTimeout`` for a silent broker,
    /// ``ReasonCode/malformedPacket`` or ``ReasonCode/protocolError`` for invalid packets,
    /// ``ReasonCode/packetTooLarge`` for a packet beyond the receive memory,
    /// ``ReasonCode/receiveMaximumExceeded`` for deliveries beyond the inbox window; nil if the
    /// transport ended without a reason.
    public var reason: ReasonCode?
    /// When ``ClientEvent/connectionWanted`` follows; nil if it requires another
    /// ``ClientMachine/start(now:)``.
    public var retryAt: Instant?
    /// The address of the connection, by its index in ``ClientIdentity/servers``.
    public var server: Int
    /// The next address is tried at once: the attempts of this round are not over.
    public var isWithinRound: Bool
    /// The text of a refused login, of any bytes; for ``ReasonCode/useAnotherServer`` HOST:PORT of
    /// the server to use, whether it is in the list or not. Mostly empty.
    public var text: ByteRange
}

/// The reason why a send or a request was not accepted.
public enum ClientError: Error, Hashable, Sendable {
    /// The outbox memory is full of unanswered packets.
    case outboxFull
    /// A transient send needs a connection.
    case notConnected
    /// The broker would refuse it for this reason.
    case refused(ReasonCode)
}
