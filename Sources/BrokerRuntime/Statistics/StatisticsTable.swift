// The table of statistics. Names are those of Mosquitto's `$SYS` topics where these exist, and of
// the same form for all others. They never change: operators' alarms contain them.
//
// `MARTLET_UPDATE_DOCS=1 swift test --filter StatisticsTableTests` writes the table of
// docs/operating/statistics.md.

enum StatisticsTable {
    /// All statistics, in the order in which they are shown.
    static let all: [Statistic] = [
        logins, sending, relays, moderation, delivering, history, store, topics, requests, registry,
        connections, web, process, cluster,
    ].flatMap { $0 }

    // MARK: - Clients

    private static let logins: [Statistic] = [
        .gauge("clients/connected", of: "connections", "Connections with a login") {
            UInt64($0.gauges.connections)
        },
        .gauge("clients/total", of: "sessions", "Sessions, connected or not") {
            UInt64($0.gauges.sessions)
        },
        .counter("clients/new", of: "sessions", "Sessions that were made") {
            $0.counters.sessionsCreated
        },
        .counter(
            "clients/expired", of: "sessions",
            "Sessions that ended because they were disconnected longer than their expiry"
        ) { $0.counters.sessionsExpired },
        .counter("connects/accepted", of: "logins", "Logins that were accepted") {
            $0.counters.connectsAccepted
        },
        .counter(
            "connects/refused", of: "logins", "Refused logins: wrong credentials, limits, ids"
        ) { $0.counters.connectsRefused },
        .counter(
            "connects/refused/quota", of: "logins",
            "Of `connects/refused`, because a limit of sessions or users was reached, or the store "
                + "is full (0x97)"
        ) { $0.counters.connectsOverQuota },
        .counter(
            "connects/refused/damped", of: "logins",
            "Of `connects/refused`, because the device was taken over too often within a minute "
                + "(0x9F)"
        ) { $0.counters.connectsDamped },
        .counter(
            "connects/takeovers", of: "logins",
            "Logins that took the session over from another connection"
        ) { $0.counters.takeovers },
        .counter(
            "connects/held", of: "logins",
            "MQTT logins that waited before a takeover (`limits.takeoversPerMinute`)"
        ) { $0.counters.connectsDelayed },
        .counter(
            "passwords/verified", of: "logins", "Passwords that were hashed and are right"
        ) { $0.passwords.verified },
        .counter(
            "passwords/recognized", of: "logins",
            "Passwords that were verified before, and not hashed again"
        ) { $0.passwords.recognized },
        .counter(
            "passwords/refused", of: "logins", "User names and passwords that are wrong"
        ) { $0.passwords.refused },
        .counter(
            "passwords/busy", of: "logins",
            "Logins that were refused because too many passwords waited to be hashed (0x89)"
        ) { $0.passwords.busy },
        .counter(
            "passwords/busy/share", of: "logins",
            "Of `passwords/busy`, because their address had its share of the logins that wait"
        ) { $0.passwords.overShare },
        .counter(
            "passwords/busy/displaced", of: "logins",
            "Of `passwords/busy`, because a login of an address with fewer took their place"
        ) { $0.passwords.displaced },
        .counter(
            "credentials/refused", of: "credentials",
            "Invalid new credentials that connected clients presented"
        ) { $0.counters.credentialsRefused },
        .counter(
            "rights/refused", of: "refusals",
            "Sends, receivers, subscriptions, queries, and logins of app keys and sensors, refused "
                + "for lack of a right"
        ) { $0.counters.rightsRefusals },
        .counter(
            "clients/paused", of: "pauses",
            "Times that the broker stopped reading from a client above its rate"
        ) { $0.rates.pauses },
        .counter(
            "clients/floods", of: "connections",
            "Connections ended because the client exceeded its rate for "
                + "`limits.rateToleranceSeconds`"
        ) { $0.rates.floods },
        .counter(
            "protocol_errors", of: "connections",
            "Connections ended because of a protocol violation by the client"
        ) { $0.counters.protocolErrors },
    ]

    // MARK: - Messages

    private static let sending: [Statistic] = [
        .counter("messages/received", of: "messages", "Sends that were accepted") {
            $0.counters.sendsAccepted
        },
        .counter("messages/refused", of: "messages", "Sends that were refused, with a reason") {
            $0.counters.sendsRefused
        },
        .counter(
            "messages/refused/uncommitted", of: "messages",
            "Of `messages/refused`, because `queues.uncommittedBytes` were waiting for the disk"
        ) { $0.counters.sendsOverUncommitted },
        .counter(
            "messages/taken_back", of: "messages",
            "Accepted sends that no receiver took, because the store was full at their commit; "
                + "their senders were told (0x97)"
        ) { $0.counters.sendsTakenBack },
        .counter(
            "messages/held", of: "pauses",
            "Times that the broker stopped reading from an MQTT client because it had more "
                + "unanswered publications than `mqtt.receiveMaximum`"
        ) { $0.counters.readingPauses },
        .counter(
            "messages/repeated", of: "messages",
            "Resends that were recognised and not delivered again"
        ) { $0.counters.sendsRepeated },
        .gauge(
            "messages/keys", of: "keys",
            "Keys with which programs make a send safe to repeat (`Idempotency-Key`), while they "
                + "are remembered"
        ) { UInt64($0.gauges.sendKeys) },
        .counter(
            "messages/keys/refused", of: "messages",
            "Sends refused because of their key: it was used for other content, its first send was "
                + "under way, or the user had 10,000 keys, the users of the app 900,000 or the app "
                + "1,000,000"
        ) { $0.counters.sendKeysRefused },
        .gauge(
            "messages/tracked", of: "messages",
            "Messages with a reference, because their senders asked for one or for receipts, until "
                + "they expire"
        ) { UInt64($0.gauges.trackedSends) },
        .counter(
            "messages/tracked/accepted", of: "messages", "Messages that got a reference"
        ) { $0.counters.sendsTracked },
        .counter("messages/receipts", of: "messages", "Receipts to the senders of messages") {
            $0.counters.receiptsSent
        },
        .counter(
            "messages/receipts/delayed", of: "messages",
            "Receipts that had to wait, because the sender's queue or the store was full"
        ) { $0.counters.receiptsDelayed },
        .counter(
            "messages/receipts/uncounted", of: "deliveries",
            "Deliveries to members of groups with several devices that no receipt counts, because "
                + "as many members are remembered as `limits.trackedMembersPerApp` or "
                + "`limits.trackedMembersPerUser` allow"
        ) { $0.counters.membersUncounted },
        .counter(
            "messages/receipts/refused", of: "requests",
            "Members of groups who could not tell what they did with a message for the same reason"
        ) { $0.counters.membersRefused },
        .counter(
            "messages/tracked/refused", of: "messages",
            "Sends that asked for a reference or for receipts, or had a key, and were refused "
                + "because of `limits.trackedSendsPerUser` or `limits.trackedSendsPerApp`"
        ) { $0.counters.trackedRefused },
        .counter(
            "messages/recalled", of: "messages", "Messages that their senders recalled"
        ) { $0.counters.messagesRecalled },
        .counter(
            "messages/replaced", of: "messages",
            "Messages to which their senders gave new content"
        ) { $0.counters.messagesReplaced },
        .counter(
            "messages/collapsed", of: "messages",
            "Messages that gave way to a newer one with the same collapse key"
        ) { $0.counters.messagesCollapsed },
        .counter(
            "messages/collapses/refused", of: "messages",
            "Messages with a collapse key that were refused, because the earlier one could not "
                + "give way"
        ) { $0.counters.collapsesRefused },
        .counter(
            "messages/collapses/skipped", of: "messages",
            "Messages with a collapse key that left the earlier one in the queues, because many "
                + "members of the group did not take them"
        ) { $0.counters.collapsesSkipped },
        .counter(
            "messages/copies/withdrawn", of: "messages",
            "Copies that recalls and collapse keys took out of queues"
        ) { $0.counters.copiesWithdrawn },
        .counter(
            "messages/revisions/told", of: "receivers",
            "Receivers that were told that a message they may have was recalled or changed"
        ) { $0.counters.revisionsTold },
        .counter(
            "messages/revisions/delayed", of: "messages",
            "Times at which that had to wait, because the store was full"
        ) { $0.counters.revisionsDelayed },
        .counter(
            "messages/possible_duplicates", of: "messages",
            "Sends that an earlier run of the broker may have delivered; marked for their receivers"
        ) { $0.counters.possibleDuplicates },
        .counter(
            "messages/receivers_refused", of: "receivers",
            "Receivers refused in sends that other receivers got"
        ) { $0.counters.receiversRefused },
        .counter(
            "sender_clocks_rejected", of: "messages",
            "Messages whose time by the sender was more than 5 s off and was replaced"
        ) { $0.counters.senderClocksRejected },
    ]

    private static let delivering: [Statistic] = [
        .counter("messages/sent", of: "deliveries", "Deliveries to clients") {
            $0.counters.deliveries
        },
        .counter("messages/acknowledged", of: "deliveries", "Deliveries that were acknowledged") {
            $0.counters.acknowledgements
        },
        .counter(
            "messages/expired", of: "deliveries",
            "Stored deliveries that expired before they were acknowledged"
        ) { $0.counters.expired },
        .counter(
            "messages/discarded", of: "deliveries",
            "Waiting messages discarded with a session that expired or that its client ended, "
                + "beyond the limit of what others may take over from it, or by "
                + "`martlet queue purge`"
        ) { $0.counters.discarded },
        .counter(
            "messages/refused/queue", of: "deliveries",
            "Messages for one receiver refused by its full queue; the sender is told, in MQTT 5 as "
                + "a number"
        ) { $0.counters.queueRefused },
        .counter(
            "messages/refused/memory_queue", of: "deliveries",
            "Of `messages/refused/queue`, by the queue of a session that is not persistent and "
                + "whose client does not read"
        ) { $0.counters.memoryQueueRefused },
        .counter(
            "messages/dropped/queue", of: "deliveries",
            "Messages dropped by a queue with the policy `oldest` or `newest`"
        ) { $0.counters.queueDropped },
        .counter(
            "messages/dropped/oversize", of: "deliveries",
            "Deliveries larger than the packet maximum of their receiver"
        ) { $0.counters.oversizeDropped },
        .counter(
            "messages/dropped/slow_reader", of: "deliveries",
            "Transient messages of normal priority dropped for connections whose client does not "
                + "read"
        ) { $0.sum(\.drops) },
        .counter(
            "messages/dropped/slow_reader_low", of: "deliveries",
            "The same of low priority, which are dropped first"
        ) { $0.sum(\.dropsFirst) },
        .counter(
            "messages/dropped/slow_reader_high", of: "deliveries",
            "The same of high priority, which are dropped last"
        ) { $0.sum(\.dropsLast) },
        .gauge(
            "messages/stored", of: "deliveries",
            "Messages that wait in queues of the store, counted once for each receiver"
        ) { $0.gauges.queuedMessages },
        .gauge("messages/memory", of: "messages", "Messages in memory, in delivery") {
            UInt64($0.gauges.messagesInMemory)
        },
        .gauge(
            "messages/memory/queue/bytes", of: "bytes",
            "Memory of messages of sessions that are not persistent; at most `queues.memoryBytes`, "
                + "and a window for each session"
        ) { UInt64($0.gauges.memoryQueueBytes) },
        .gauge(
            "messages/memory/spare/bytes", of: "bytes",
            "Memory of finished messages that is kept for new ones"
        ) { UInt64($0.gauges.spareBytes) },
    ]

    private static let history: [Statistic] = [
        .gauge(
            "conversations/count", of: "conversations",
            "Conversations that have or had kept messages"
        ) { UInt64($0.gauges.conversations) },
        .gauge("history/topics", of: "topics", "Topics that have or had kept messages") {
            UInt64($0.gauges.keptTopics)
        },
        .gauge("history/messages", of: "messages", "Kept messages in all conversations") {
            $0.gauges.keptMessages
        },
        .counter(
            "history/messages/kept", of: "messages",
            "Messages that were kept, once for each conversation"
        ) { $0.counters.messagesKept },
        .counter(
            "history/messages/pulled", of: "messages",
            "Copies of kept messages that were not queued, because their devices read the history"
        ) { $0.counters.messagesPulled },
        .counter(
            "history/messages/refused", of: "messages",
            "Messages that were delivered and not kept, because history by default had no room"
        ) { $0.counters.historyRefused },
        .counter(
            "history/messages/dropped", of: "messages",
            "Kept messages that made room for newer ones (`history.messages`, `history.bytes`)"
        ) { $0.counters.historyDropped },
        .counter(
            "history/messages/expired", of: "messages",
            "Kept messages that became older than `history.ageSeconds`"
        ) { $0.counters.historyExpired },
        .counter(
            "history/events", of: "events",
            "Read marks published to the other devices of their users"
        ) { $0.counters.unreadEvents },
    ]

    // MARK: - The store

    private static let store: [Statistic] = [
        .gauge("store/messages/bytes", of: "bytes", "Bytes of `messages/stored`") {
            $0.gauges.queuedBytes
        },
        .counter("store/messages/written", of: "messages", "Message bodies written to disk") {
            $0.counters.messagesStored
        },
        .counter("store/entries/written", of: "entries", "Queue entries written to disk") {
            $0.counters.entriesStored
        },
        .counter(
            "store/entries/elided", of: "entries",
            "Queue entries not written, because every receiver acknowledged before the commit"
        ) { $0.counters.entriesElided },
        .counter(
            "store/entries/damaged", of: "entries",
            "Queue entries that failed their checksum and were set aside"
        ) { $0.counters.damagedEntries },
        .counter(
            "store/entries/missing", of: "entries",
            "Queue entries that a queue counted and the store did not have; the count was corrected"
        ) { $0.counters.missingEntries },
        .counter(
            "store/rows/repaired", of: "rows",
            "Rows of ended sessions and memberships that the start found and removed"
        ) { $0.counters.rowsRepaired },
        .counter("store/batches", of: "commits", "Commits of the store") {
            $0.counters.batchesCommitted
        },
        .counter(
            "store/batches/refused", of: "commits",
            "Commits whose sends were refused for lack of space"
        ) { $0.counters.batchesRefused },
        .gauge("store/full", of: "0 or 1", "1 while sends are refused for lack of space") {
            $0.gauges.isStoreFull ? 1 : 0
        },
        .gauge("store/used/bytes", of: "bytes", "Bytes of the store's file in use") {
            $0.gauges.storeUsedBytes
        },
        .gauge(
            "store/limit/bytes", of: "bytes",
            "Bytes at which the store is full (`store.softLimitBytes`)"
        ) { $0.gauges.storeLimitBytes },
    ]

    // MARK: - Topics, requests and what is registered

    private static let topics: [Statistic] = [
        .gauge("retained messages/count", of: "messages", "Retained messages of all apps") {
            UInt64($0.gauges.retainedMessages)
        },
        .gauge("retained messages/bytes", of: "bytes", "Bytes of the retained messages") {
            UInt64($0.gauges.retainedBytes)
        },
        .gauge(
            "subscriptions/count", of: "subscriptions", "Filters that sessions subscribe to"
        ) { UInt64($0.gauges.subscriptions) },
        .counter(
            "subscriptions/refused", of: "subscriptions", "Subscriptions that were refused"
        ) { $0.counters.subscriptionsRefused },
        .counter(
            "subscriptions/refused/quota", of: "subscriptions",
            "Of `subscriptions/refused`, because the session has its maximum (0x97)"
        ) { $0.counters.subscriptionsOverQuota },
        .gauge(
            "shared_subscriptions/count", of: "shared subscriptions",
            "Shared subscriptions: distinct pairs of name and filter"
        ) { UInt64($0.gauges.sharedSubscriptions) },
        .counter(
            "shared_subscriptions/handed_over", of: "messages",
            "Messages of shared subscriptions that moved to another session of the share"
        ) { $0.counters.sharesHandedOver },
        .counter(
            "presence/events", of: "events",
            "Connections and disconnections of devices published to subscribers of presence"
        ) { $0.counters.presenceEvents },
    ]

    private static let requests: [Statistic] = [
        .counter(
            "requests/published", of: "requests",
            "Requests that MQTT clients made on `$api/`, refused and repeated ones included"
        ) { $0.counters.requestsPublished },
        .counter(
            "requests/refused", of: "requests",
            "Refused requests about groups and wills, and unknown requests"
        ) { $0.counters.requestsRefused },
        .counter(
            "requests/refused/quota", of: "requests",
            "Of `requests/refused`, because a limit of groups or members was reached, or the store "
                + "is full (0x97)"
        ) { $0.counters.requestsOverQuota },
        .gauge("groups/count", of: "groups", "Groups of all apps") { UInt64($0.gauges.groups) },
        .counter(
            "groups/events_skipped", of: "events",
            "Joins and leaves that were not published, because the group has over a thousand "
                + "members"
        ) { $0.counters.groupEventsSkipped },
        .counter(
            "groups/notices", of: "messages",
            "Notices to devices whose users became members of groups, or left them"
        ) { $0.counters.groupNotices },
        .gauge("wills/count", of: "wills", "Wills that are set") { UInt64($0.gauges.wills) },
        .counter("wills/sent", of: "wills", "Wills that were sent") { $0.counters.willsSent },
        .counter(
            "wills/refused", of: "wills",
            "Wills that were due and not sent, because no right allowed them any more, their "
                + "credential was withdrawn, or their app is moderated"
        ) { $0.counters.willsRefused },
    ]

    private static let registry: [Statistic] = [
        .gauge("apps/total", of: "apps", "Apps") { UInt64($0.gauges.apps) },
        .gauge("users/total", of: "users", "Users that are known") { UInt64($0.gauges.users) },
        .counter(
            "users/refused", of: "users",
            "Users that tokens and registrations did not make, because `limits.users` or "
                + "`limits.usersPerApp` was reached (0x97)"
        ) { $0.counters.usersRefused },
        .gauge("tokens/total", of: "tokens", "Minted tokens that are not revoked") {
            UInt64($0.gauges.tokens)
        },
    ]

    // MARK: - Connections

    private static let connections: [Statistic] = [
        .counter("sockets/accepted", of: "connections", "TCP connections that were accepted") {
            $0.sum(\.accepted)
        },
        .gauge("sockets/pending", of: "connections", "Connections without a login") {
            $0.sum(\.pending)
        },
        .counter("sockets/closed", of: "connections", "TCP connections that were closed") {
            $0.sum(\.closed)
        },
        .counter(
            "sockets/closed/overflow", of: "connections",
            "Of `sockets/closed`, because the client did not read what could not be dropped"
        ) { $0.sum { $0[closed: .outgoingOverflow] + $0[closed: .lingerTimeout] } },
        .gauge(
            "sockets/outgoing/bytes", of: "bytes",
            "Memory of bytes that wait for clients; at `limits.outgoingBytes` the broker drops or "
                + "closes for the slowest readers"
        ) { $0.sum(\.outgoingHeld) },
        .counter(
            "sockets/refused", of: "connections",
            "Connections closed at once because of `limits.connections`"
        ) { $0.sum(\.refusedByMaximum) },
        .counter(
            "sockets/refused/address", of: "connections",
            "Connections closed at once, or when a proxy had named the client, because of "
                + "`limits.connectionsPerAddress`"
        ) { $0.sum(\.refusedByAddress) },
        .counter(
            "sockets/accept_pauses", of: "pauses",
            "Times that listeners stopped accepting because of descriptors, memory, "
                + "`limits.pendingLogins` or `limits.handshakes`"
        ) { $0.sum(\.acceptPauses) },
        .counter("proxy/headers", of: "headers", "PROXY headers that were read") {
            $0.sum(\.proxyHeaders)
        },
        .counter(
            "proxy/headers/refused", of: "connections",
            "Of `sockets/closed`, because the PROXY header was missing, malformed or late"
        ) { $0.sum { $0[closed: .proxyHeaderFault] } },
        .gauge(
            "tls/handshakes/pending", of: "handshakes",
            "Of `sockets/pending`, with a TLS handshake under way, or a PROXY header before it"
        ) { $0.sum(\.handshaking) },
        .counter("tls/handshakes", of: "handshakes", "TLS handshakes that were completed") {
            $0.sum(\.handshakesCompleted)
        },
        .counter(
            "tls/handshakes/resumed", of: "handshakes",
            "Of `tls/handshakes`, those that resumed a session"
        ) { $0.sum(\.handshakesResumed) },
        .counter(
            "tls/handshakes/failed", of: "handshakes",
            "TLS handshakes that failed or were not finished"
        ) { $0.sum { $0[closed: .tlsFailure] + $0[closed: .handshakeTimeout] } },
        .counter("bytes/received", of: "bytes", "Bytes from clients, without TLS") {
            $0.sum(\.bytesReceived)
        },
        .counter("bytes/sent", of: "bytes", "Bytes to clients, without TLS") {
            $0.sum(\.bytesSent)
        },
    ]

    private static let web: [Statistic] = [
        .counter(
            "web/requests", of: "requests",
            "HTTP requests that were answered, handshakes of WebSocket included"
        ) { $0.web.requests },
        .counter(
            "web/requests/refused", of: "requests",
            "Of `web/requests`, those answered with a status of 400 or more"
        ) { $0.web.refusals },
        .counter(
            "web/forwarded/malformed", of: "requests",
            "Requests of reverse proxies with an `X-Forwarded-For` that is no list of addresses, "
                + "which was ignored from there on"
        ) { $0.web.malformedClients },
        .counter("api/requests", of: "requests", "Requests of the HTTP API that were executed") {
            $0.api.requests
        },
        .counter(
            "api/credentials/refused", of: "requests",
            "Requests of the HTTP API without a valid token"
        ) { $0.api.failures },
        .counter(
            "interfaces/rest/requests", of: "requests",
            "Requests to the small REST server (`interfaces` of `apps`), registrations included"
        ) { $0.interfaces.requests(to: .rest) },
        .counter(
            "interfaces/rest/refused", of: "requests",
            "Of `interfaces/rest/requests`, those answered with a status of 400 or more"
        ) { $0.interfaces.refusals(at: .rest) },
        .counter(
            "interfaces/quickblox/requests", of: "requests", "Requests to QuickBlox's interface"
        ) { $0.interfaces.requests(to: .quickblox) },
        .counter(
            "interfaces/quickblox/refused", of: "requests",
            "Of `interfaces/quickblox/requests`, those answered with a status of 400 or more"
        ) { $0.interfaces.refusals(at: .quickblox) },
        .counter(
            "interfaces/leanmessage/requests", of: "requests",
            "Handshakes of clients of LeanMessage; their logins are among `connects/accepted` and "
                + "`connects/refused`"
        ) { $0.interfaces.requests(to: .leanmessage) },
        .counter(
            "interfaces/leanmessage/refused", of: "requests",
            "Of `interfaces/leanmessage/requests`, those without a WebSocket"
        ) { $0.interfaces.refusals(at: .leanmessage) },
        .counter(
            "interfaces/diuit/requests", of: "requests",
            "Requests of clients of Diuit: nonces, logins, handshakes, and events on sockets"
        ) { $0.interfaces.requests(to: .diuit) },
        .counter(
            "interfaces/diuit/refused", of: "requests",
            "Of `interfaces/diuit/requests`, those answered with a status of 400 or more, or with "
                + "an error"
        ) { $0.interfaces.refusals(at: .diuit) },
        .counter(
            "files/stored", of: "files",
            "Files of messages that were stored, those that were there already included"
        ) { $0.files.stored },
        .counter(
            "files/refused", of: "files",
            "Files of messages without room: `files.bytesPerApp`, 100,000 files of an app, the "
                + "share of their user, or the disk"
        ) { $0.files.refused },
        .counter(
            "files/refused/share", of: "files",
            "Of `files/refused`, those beyond the share of their user (`files.userPercent`)"
        ) { $0.files.overShare },
        .counter(
            "files/expired", of: "files", "Files that were removed at `files.ageSeconds`"
        ) { $0.files.expired },
        .counter(
            "files/removed", of: "files", "Files of apps that were deleted"
        ) { $0.files.removed },
        .counter("files/served", of: "requests", "Responses with a file, or a part of one") {
            $0.files.served
        },
        .counter(
            "files/busy", of: "requests",
            "Requests for files answered with 503, because too many are read"
        ) { $0.files.busy },
        .gauge("files/count", of: "files", "Files that are stored") {
            UInt64($0.files.fileCount)
        },
        .gauge("files/bytes", of: "bytes", "Bytes of the files that are stored") {
            UInt64($0.files.byteCount)
        },
        .counter(
            "websockets/opened", of: "connections", "Connections that went on with WebSocket"
        ) { $0.sum(\.webSocketsOpened) },
        .counter(
            "websockets/faults", of: "connections",
            "Of `websockets/opened`, closed because the client broke a rule of WebSocket"
        ) { $0.sum(\.webSocketFaults) },
    ]

    // MARK: - The process

    private static let process: [Statistic] = [
        .gauge(
            "process/memory/bytes", of: "bytes",
            "Resident memory, including touched pages of the store"
        ) { $0.process.residentBytes },
        .gauge("process/descriptors", of: "descriptors", "Open descriptors of the process") {
            $0.process.descriptorCount
        },
        .gauge(
            "process/descriptors/limit", of: "descriptors",
            "Maximum of open descriptors of the process"
        ) { $0.process.descriptorLimit },
        .gauge(
            "tls/certificate/days", of: Statistic.days,
            "Time until the server certificate expires; 100 years without one"
        ) { UInt64(max($0.expiry.certificateDays ?? 36_500, 0)) },
        // Without a list there is nothing that expires.
        .gauge(
            "tls/revocation_list/days", of: Statistic.days,
            "Time until the revocation list expires; absent without one"
        ) { $0.expiry.revocationListDays.map { UInt64(max($0, 0)) } },
    ]
    // MARK: - The cluster

    /// Absent without a cluster.
    private static let cluster: [Statistic] = [
        .gauge("cluster/leads", of: "nodes", "1 if this node is the primary, 0 if a standby") {
            $0.cluster.map { $0.part == .primary ? 1 : 0 }
        },
        .gauge("cluster/term", of: "record", "The record with which the primary took over") {
            $0.cluster?.term.raw
        },
        .gauge(
            "cluster/standbys", of: "nodes",
            "Standbys that were heard within ten seconds; a takeover needs one"
        ) { $0.cluster.map { UInt64($0.standbys.count) } },
        .gauge(
            "cluster/lag/records", of: "records",
            "Records of the log that the slowest of these standbys has not applied"
        ) { sources in sources.cluster.map(\.lag) },
        .gauge("cluster/log/bytes", of: "bytes", "The size of the log") {
            $0.cluster?.log?.byteCount
        },
        .gauge(
            "cluster/log/bytes/limit", of: "bytes",
            "The largest size of the log, at which sends are refused (0x97)"
        ) { $0.cluster?.log?.byteCountMaximum },
        .gauge(
            "cluster/batches/oversized", of: "batches",
            "Batches that did not fit into a record of the log, so that their sends were refused"
        ) { $0.cluster?.oversizedCount },
        .gauge(
            "cluster/batches/log_full", of: "batches",
            "Batches whose sends were refused because the log was full or nearly full"
        ) { $0.cluster?.logFullCount },
        .gauge(
            "cluster/redirected", of: "requests",
            "Logins and requests that this node has refused since its start, as a standby"
        ) { $0.cluster?.refusedCount },
    ]
}
