// The events of a client, as an asynchronous sequence.

import BrokerTerms

/// The terms that the broker granted with a login.
public struct ConnectionTerms: Hashable, Sendable {
    /// The user whom the credential identifies.
    public var user: String
    /// Whether the broker had this session: its queue, subscriptions and results still exist.
    public var isSessionPresent: Bool
    /// Whether earlier numbers belong to another session: a stored ``InboxRecord`` is void.
    public var isNewInbox: Bool
    /// Distinguishes this session from an earlier one of the same user and device; never 0.
    public var sessionEpoch: UInt64
    /// The broker's clock at its answer, Unix milliseconds.
    public var serverTime: UInt64
    /// Seconds; 0 for none.
    public var keepAliveSeconds: UInt16
    /// Seconds; `UInt32.max` for unlimited.
    public var sessionExpirySeconds: UInt32
    /// Unacknowledged messages that the broker sends to the client at once, 1 to 65,535: at most
    /// ``ClientSettings/inboxWindow``.
    public var inboxWindow: UInt16
    /// Sends without a result that the broker accepts from the client at once, 1 to 65,535.
    public var sendWindow: UInt16
    /// Maximum size of the minimal JSON form of a text message; a larger one is refused with 0x95.
    public var messageMaximum: UInt32
    /// Maximum size of a message of bytes.
    public var payloadMaximum: UInt32
    /// Conversations with unread messages, at most 50; nil for a device that does not pull.
    public var unreadCount: Int?
    /// The address at which the client is connected: one of ``ClientSettings/servers``.
    public var server: ServerAddress
}

/// The end of a connection, or of an attempt to connect.
public struct Disconnection: Hashable, Sendable {
    /// The broker's reason, or the client's: `keepAliveTimeout` for a silent broker; nil if the
    /// connection ended without a reason.
    public var reason: ReasonCode?
    /// The error of the network or of TLS as text; may be empty. If several addresses have failed,
    /// the errors of all.
    public var detail: String
    /// Milliseconds until the next attempt.
    public var retryMilliseconds: UInt64
}

extension Client {
    /// One event.
    public enum Event: Hashable, Sendable {
        /// Reason 5: logged in, for the first time or again.
        case connected(ConnectionTerms)
        /// A message for this user.
        case message(IncomingMessage)
        /// The connection is lost; the client reconnects by itself.
        case disconnected(Disconnection)
        /// A transient message was refused; it has no other result.
        case transientRefused(ReasonCode, messageID: String?)
        /// This many transient messages arrived while the application did not read, and are lost.
        case transientDropped(count: Int)
        /// The session was new after a reconnect, and this subscription was refused.
        case subscriptionLost(filter: String, ReasonCode)
        /// The will had been sent or had ended, and setting it again was refused.
        case willLost(ReasonCode)
    }

    /// The events of a client. Only one task at a time may read them. The sequence ends when the
    /// client is closed, or has stopped permanently; ``Client/stopReason`` has the reason.
    public struct Events: AsyncSequence, Sendable {
        let client: Client

        /// An iterator over the events that were not read yet.
        public func makeAsyncIterator() -> Iterator { Iterator(client: client) }

        /// Reads the events one by one.
        public struct Iterator: AsyncIteratorProtocol {
            let client: Client

            /// Waits for the next event; nil at the end, or when the task is cancelled.
            public mutating func next() async -> Event? { await client.nextEvent() }

            /// The same, on the caller's actor.
            public mutating func next(
                isolation actor: isolated (any Actor)?
            ) async -> Event? { await client.nextEvent() }
        }
    }
}
