// What each statistic counts and its unit, for people who read `/metrics`.
// docs/operating/statistics.md explains them.

enum StatisticsHelp {
    /// The text of a statistic.
    static func text(_ name: String) -> String {
        guard let (meaning, unit) = texts[name] else {
            preconditionFailure("the statistic \(name) has no explanation")
        }
        return text(meaning, unit: unit)
    }

    static func text(_ meaning: String, unit: String) -> String { "\(meaning). Unit: \(unit)." }

    private static let texts: [String: (meaning: String, unit: String)] = [
        "clients/connected": ("Connections with a login", "connections"),
        "clients/total": ("Sessions, connected or not", "sessions"),
        "clients/expired": (
            "Sessions that ended because they were away longer than their expiry", "sessions"
        ),
        "connects/accepted": ("Logins that were accepted", "logins"),
        "connects/refused": ("Refused logins: wrong credentials, limits, ids", "logins"),
        "connects/refused/quota": (
            "Refused logins because a limit of sessions or users was reached, or the store is full",
            "logins"
        ),
        "connects/refused/damped": (
            "Refused logins because the device was taken over too often within a minute", "logins"
        ),
        "connects/takeovers": (
            "Logins that took the session over from another connection", "logins"
        ),
        "connects/held": ("MQTT logins that waited before a takeover", "logins"),
        "messages/held": (
            "Times that reading from an MQTT client stopped because of its unanswered publications",
            "pauses"
        ),
        "credentials/refused": ("Invalid new credentials of connected clients", "credentials"),
        "rights/refused": (
            "Sends, receivers, subscriptions and queries refused for lack of a right", "refusals"
        ),
        "messages/received": ("Sends that were accepted", "messages"),
        "messages/refused": ("Sends that were refused, with a reason", "messages"),
        "messages/refused/uncommitted": (
            "Refused sends because too many bytes were waiting for the disk", "messages"
        ),
        "messages/repeated": ("Resends that were recognised and not delivered again", "messages"),
        "messages/keys": ("Idempotency keys of sends that are remembered", "keys"),
        "messages/keys/refused": ("Sends refused because of their idempotency key", "messages"),
        "messages/tracked": ("Messages with a reference, until they expire", "messages"),
        "messages/tracked/accepted": ("Messages that got a reference", "messages"),
        "messages/receipts": ("Receipts to the senders of messages", "messages"),
        "messages/receipts/delayed": (
            "Receipts that waited because the sender's queue or the store was full", "messages"
        ),
        "messages/receipts/uncounted": (
            "Deliveries to members of groups that no receipt counts, because too many members are "
                + "remembered", "deliveries"
        ),
        "conversations/count": ("Conversations that have or had kept messages", "conversations"),
        "history/messages": ("Kept messages in all conversations", "messages"),
        "history/messages/kept": (
            "Messages that were kept, once for each conversation", "messages"
        ),
        "history/messages/dropped": ("Kept messages that made room for newer ones", "messages"),
        "history/messages/expired": (
            "Kept messages that became older than history.ageSeconds", "messages"
        ),
        "history/events": ("Read marks told to the other devices of their users", "events"),
        "users/refused": ("Users refused because of limits.users or limits.usersPerApp", "users"),
        "messages/possible_duplicates": (
            "Sends that an earlier run of the broker may have delivered", "messages"
        ),
        "messages/sent": ("Deliveries to clients", "deliveries"),
        "messages/acknowledged": ("Deliveries that were acknowledged", "deliveries"),
        "messages/receivers_refused": (
            "Receivers refused in sends that other receivers got", "receivers"
        ),
        "messages/expired": (
            "Stored deliveries that expired before their receiver connected", "deliveries"
        ),
        "messages/discarded": (
            "Waiting messages discarded with a session that its client ended, or by an operator",
            "deliveries"
        ),
        "messages/refused/queue": (
            "Messages for one receiver refused by its full queue", "deliveries"
        ),
        "messages/dropped/queue": (
            "Messages dropped by a queue with the policy oldest or newest", "deliveries"
        ),
        "messages/refused/memory_queue": (
            "Messages refused by the queue of a session that is not persistent", "deliveries"
        ),
        "messages/dropped/oversize": (
            "Deliveries larger than the packet maximum of their receiver", "deliveries"
        ),
        "messages/dropped/slow_reader": (
            "Transient messages of normal priority dropped for clients that do not read",
            "deliveries"
        ),
        "messages/dropped/slow_reader_low": (
            "Transient messages of low priority dropped for clients that do not read",
            "deliveries"
        ),
        "messages/dropped/slow_reader_high": (
            "Transient messages of high priority dropped for clients that do not read",
            "deliveries"
        ),
        "messages/stored": (
            "Messages that wait in queues of the store, once for each receiver", "deliveries"
        ),
        "store/messages/bytes": ("Bytes of the messages that wait in queues of the store", "bytes"),
        "store/messages/written": ("Message bodies written to disk", "messages"),
        "store/entries/written": ("Queue entries written to disk", "entries"),
        "store/entries/elided": (
            "Queue entries not written, because every receiver acknowledged before the commit",
            "entries"
        ),
        "store/entries/damaged": (
            "Entries that failed their checksum and were set aside", "entries"
        ),
        "store/entries/missing": (
            "Entries that a queue counted and the store did not have", "entries"
        ),
        "store/rows/repaired": ("Rows of ended sessions that the start found and removed", "rows"),
        "store/batches": ("Commits of the store", "commits"),
        "store/batches/refused": ("Commits whose sends were refused for lack of space", "commits"),
        "store/full": ("Whether sends are refused for lack of space: 1 while they are", "0 or 1"),
        "store/used/bytes": ("Bytes of the file of the store in use", "bytes"),
        "store/limit/bytes": ("Bytes at which the store is full: store.softLimitBytes", "bytes"),
        "subscriptions/count": ("Filters that sessions subscribe to", "subscriptions"),
        "shared_subscriptions/count": (
            "Shared subscriptions: distinct pairs of name and filter", "shared subscriptions"
        ),
        "retained messages/count": ("Retained messages of all apps", "messages"),
        "retained messages/bytes": ("Bytes of retained messages", "bytes"),
        "subscriptions/refused": ("Subscriptions that were refused", "subscriptions"),
        "subscriptions/refused/quota": (
            "Subscriptions refused because the session has its maximum", "subscriptions"
        ),
        "requests/published": (
            "Requests that MQTT clients published, refused and repeated ones included", "requests"
        ),
        "requests/refused": (
            "Refused requests about groups and wills, and unknown requests", "requests"
        ),
        "requests/refused/quota": (
            "Requests refused because a limit of groups was reached, or the store is full",
            "requests"
        ),
        "groups/count": ("Groups of all apps", "groups"),
        "groups/events_skipped": (
            "Joins and leaves that were not told, because the group has over a thousand members",
            "events"
        ),
        "shared_subscriptions/handed_over": (
            "Messages that moved to another session of a shared subscription", "messages"
        ),
        "presence/events": (
            "Connections and disconnections told to subscribers of presence", "events"
        ),
        "wills/count": ("Wills that are set", "wills"),
        "wills/sent": ("Wills that were sent", "wills"),
        "wills/refused": (
            "Wills that were due and not sent for lack of a right or a valid credential", "wills"
        ),
        "messages/memory": ("Messages in memory, in delivery", "messages"),
        "messages/memory/spare/bytes": (
            "Memory of finished messages that is kept for new ones", "bytes"
        ),
        "messages/memory/queue/bytes": (
            "Memory of messages of sessions that are not persistent", "bytes"
        ),
        "apps/total": ("Apps", "apps"),
        "users/total": ("Users that are known", "users"),
        "tokens/total": ("Minted tokens that are not revoked", "tokens"),
        "protocol_errors": (
            "Connections ended because of a protocol violation by the client", "connections"
        ),
        "sender_clocks_rejected": (
            "Messages whose time by the sender was more than 5 s off and was replaced", "messages"
        ),
        "sockets/accepted": ("TCP connections that were accepted", "connections"),
        "sockets/closed": ("TCP connections that were closed", "connections"),
        "sockets/refused": (
            "Connections closed at once because of limits.connections", "connections"
        ),
        "sockets/refused/address": (
            "Connections closed because of limits.connectionsPerAddress", "connections"
        ),
        "sockets/accept_pauses": (
            "Times that listeners stopped accepting because of a limit or a lack of resources",
            "pauses"
        ),
        "sockets/pending": ("Connections without a login", "connections"),
        "tls/handshakes/pending": (
            "TLS handshakes under way, and PROXY headers before them", "handshakes"
        ),
        "clients/paused": (
            "Times that the broker stopped reading from a client above its rate", "pauses"
        ),
        "clients/floods": (
            "Connections ended because the client exceeded its rate for too long", "connections"
        ),
        "tls/handshakes": ("TLS handshakes completed", "handshakes"),
        "tls/handshakes/resumed": ("TLS handshakes that resumed a session", "handshakes"),
        "tls/handshakes/failed": ("TLS handshakes that failed or were not finished", "handshakes"),
        "sockets/outgoing/bytes": ("Memory of bytes that wait for clients", "bytes"),
        "sockets/closed/overflow": (
            "Connections closed because the client did not read what could not be dropped",
            "connections"
        ),
        "web/requests": (
            "HTTP requests that were answered, handshakes of WebSocket included", "requests"
        ),
        "web/requests/refused": ("HTTP requests answered with a status of 400 or more", "requests"),
        "api/requests": ("Requests of the HTTP API that were executed", "requests"),
        "api/credentials/refused": ("Requests of the HTTP API without a valid token", "requests"),
        "web/forwarded/malformed": (
            "Requests of reverse proxies with a malformed X-Forwarded-For", "requests"
        ),
        "proxy/headers": ("PROXY headers that were read", "headers"),
        "proxy/headers/refused": (
            "Connections closed because the PROXY header was missing, malformed or late",
            "connections"
        ),
        "websockets/opened": ("Connections that went on with WebSocket", "connections"),
        "websockets/faults": (
            "WebSocket connections closed because the client broke a rule of WebSocket",
            "connections"
        ),
        "bytes/received": ("Bytes from clients, without TLS", "bytes"),
        "bytes/sent": ("Bytes to clients, without TLS", "bytes"),
        "process/memory/bytes": ("Resident memory, including touched pages of the store", "bytes"),
        "process/descriptors": ("Open descriptors of the process", "descriptors"),
        "process/descriptors/limit": ("Maximum of open descriptors of the process", "descriptors"),
        "tls/certificate/days": (
            "Time until the server certificate expires; 100 years without one", "seconds"
        ),
        "tls/revocation_list/days": (
            "Time until the revocation list expires; 100 years without one", "seconds"
        ),
    ]
}
