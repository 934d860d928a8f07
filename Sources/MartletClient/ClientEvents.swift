// What a client tells its application, as an asynchronous sequence.

import BrokerTerms

/// What the broker granted with a login.
public struct ConnectionTerms: Hashable, Sendable {
    /// The user that the credential proved.
    public var user: String
    /// The broker knew this session: its queue, subscriptions and results are still there.
    public var isSessionPresent: Bool
    /// Numbers before belong to another session: a stored ``InboxRecord`` is void.
    public var isNewInbox: Bool
    /// Tells this session from an earlier one of the same user and device; never 0.
    public var sessionEpoch: UInt64
    /// The broker's clock when it answered, Unix milliseconds.
    public var serverTime: UInt64
    /// Seconds; 0 for none.
    public var keepAliveSeconds: UInt16
    /// Seconds; `UInt32.max` for ever.
    public var sessionExpirySeconds: UInt32
    /// Unacknowledged messages that the broker has on their way to the client at once, 1 to 65,535:
    /// at most ``ClientSettings/inboxWindow``.
    public var inboxWindow: UInt16
    /// Sends without a result that the broker takes from the client at once, 1 to 65,535.
    public var sendWindow: UInt16
    /// Bytes of the minimal JSON form of a text message; one more is refused with 0x95.
    public var messageMaximum: UInt32
    /// Bytes of a message of bytes.
    public var payloadMaximum: UInt32
}

/// The end of a connection, or of an attempt at one.
public struct Disconnection: Hashable, Sendable {
    /// What the broker said, or what the client found: `keepAliveTimeout` for a silent broker; nil
    /// where the connection just ended.
    public var reason: ReasonCode?
    /// For people: what the network or TLS met; may be empty.
    public var detail: String
    /// Milliseconds until the next attempt.
    public var retryMilliseconds: UInt64
}

extension Client {
    /// One thing that happened.
    public enum Event: Hashable, Sendable {
        /// Reason 5: logged in, for the first time or again.
        case connected(ConnectionTerms)
        /// A message for this user.
        case message(IncomingMessage)
        /// The connection is lost; the client reconnects by itself.
        case disconnected(Disconnection)
        /// A transient message was refused, of which there is no other word.
        case transientRefused(ReasonCode, messageID: String?)
        /// So many transient messages came while the application did not look, and are lost.
        case transientDropped(count: Int)
        /// The session was new on a reconnect, and this subscription could not be made again.
        case subscriptionLost(filter: String, ReasonCode)
        /// The will was sent or had ended, and could not be set again.
        case willLost(ReasonCode)
    }

    /// The events of a client. It has one reader at a time; it ends when the client is closed, or
    /// is stopped for good, which ``Client/stopReason`` tells.
    public struct Events: AsyncSequence, Sendable {
        let client: Client

        /// An iterator over the events that are not taken yet.
        public func makeAsyncIterator() -> Iterator { Iterator(client: client) }

        /// Takes the events one by one.
        public struct Iterator: AsyncIteratorProtocol {
            let client: Client

            /// Waits for the next event; nil at the end, or when the task is cancelled.
            public mutating func next() async -> Event? { await client.nextEvent() }

            /// The same, wherever the caller runs.
            public mutating func next(
                isolation actor: isolated (any Actor)?
            ) async -> Event? { await client.nextEvent() }
        }
    }
}
