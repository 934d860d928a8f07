// Every key of the configuration, once: range, unit, reason, and what a reload does. Defaults stand
// in `BrokerSettings`. docs/operating/configuration.md is rendered from this table.
import CommandLineOptions

/// The keys of the configuration in the order in which they are documented.
public enum SettingTable {
    public static let all: [Setting] =
        general + apps + tls + jwt + limits + queues + mqtt + web + store + log

    /// The known key that a person most likely meant: one spelled nearly so, or one of nearly the
    /// same name in another section.
    static func nearestKey(to key: String) -> String? {
        if let near = Spelling.nearest(to: key, among: all.map(\.key)) { return near }
        let names = all.map { $0.key.split(separator: ".").last.map(String.init) ?? $0.key }
        let name = key.split(separator: ".").last.map(String.init) ?? key
        return Spelling.nearest(to: name, among: names)
            .flatMap(names.firstIndex(of:)).map { all[$0].key }
    }

    private static let general: [Setting] = [
        .text(
            "dataDirectory", at: \.dataDirectory, reload: .restart,
            "Where the store lives. Made with 0700 if it is not there; one broker at a time."),
        .listeners(
            "listeners", at: \.listeners, reload: .restart,
            "Where to listen, as `tls://HOST:PORT`, `tcp://HOST:PORT`, or for WebSocket "
                + "([web.md](web.md)) `wss://HOST:PORT` or `ws://HOST:PORT`. HOST is `*` (every "
                + "address), `localhost`, or a numeric address. Options follow a `?` and are "
                + "joined by `&`: `anonymous` lets clients in without credentials; "
                + "`certificateFile=FILE` and `keyFile=FILE` take the place of those under `tls`; "
                + "`clientCertificates=optional` or `required` asks clients for one. "
                + "Plain text is for this machine only until somebody decides otherwise; 8883 and "
                + "1883 are the ports of MQTT; both carry both dialects. 8084 and 8083 are usual "
                + "for WebSocket. PORT 0 lets the system choose; the log tells which."),
        .integer(
            "loops", at: \.loops, in: 0...64, unit: "threads", reload: .restart,
            "Event loops. 0 lets the broker choose by the number of processors."),
    ]

    private static let apps: [Setting] = [
        .objects(
            "apps", at: \.apps, reload: .newConnections,
            "What single apps have otherwise than the keys below of the same names say, as `{app, "
                + "refusedPublish, joinsGroups, takeoversPerMinute}`; what is left out is as there."
        )
    ]

    private static let tls: [Setting] = [
        .optionalText(
            "tls.certificateFile", at: \.tls.certificateFile, reload: .newConnections,
            "The server's certificate and those between it and the root, as PEM, own one first."),
        .optionalText(
            "tls.keyFile", at: \.tls.keyFile, reload: .newConnections,
            "The private key of the certificate, as PEM. A pair that does not fit is refused, and "
                + "a reload then keeps the old one."),
        .choice(
            "tls.minimumVersion", at: \.tls.minimumVersion, reload: .newConnections,
            "The oldest TLS that is spoken. 1.2 because many modem chips have nothing newer; "
                + "anything older is broken (RFC 8996)."),
        .optionalText(
            "tls.clientAuthorityFile", at: \.tls.clientAuthorityFile, reload: .newConnections,
            "The authorities that client certificates are signed by, intermediate ones included, "
                + "as PEM. A change ends the resumption of earlier TLS sessions, so that every "
                + "client shows its certificate anew."),
        .optionalText(
            "tls.crlFile", at: \.tls.crlFile, reload: .newConnections,
            "Revoked client certificates: one list (CRL) of each authority above, as PEM. A list "
                + "whose time is over lets nobody in."),
        .choice(
            "tls.clientName", at: \.tls.clientName, reload: .newConnections,
            "Which name of a client certificate is the user: the subject's common name, or the "
                + "first alternative name of a kind. `APP/USER` names the app too."),
        .optionalText(
            "tls.clientApp", at: \.tls.clientApp, domain: "app id or null", reload: .newConnections,
            "The app of clients with a certificate or pre-shared key whose name contains no app."),
        .optionalText(
            "tls.pskFile", at: \.tls.pskFile, reload: .newConnections,
            "Pre-shared TLS keys for devices too small for certificates, one `IDENTITY:HEXKEY` a "
                + "line, at least 16 bytes each. The identity is `APP/USER`, or a user of "
                + "`clientApp`. TLS 1.2 and 1.3; readable by the broker alone."),
    ]

    private static let jwt: [Setting] = [
        .objects(
            "jwt.keys", at: \.jwt.keys, reload: .atOnce,
            "Keys of the account servers whose JSON Web Tokens let users in, as "
                + "`{app, kid, algorithm, file}`. The algorithm is RS256, ES256, EdDSA or HS256; "
                + "the file holds the public key as PEM. Sessions that a removed or replaced key "
                + "let in end."),
        .boolean(
            "jwt.allowHS256", at: \.jwt.allowHS256, reload: .atOnce,
            "Whether keys may be shared secrets (HS256). Whoever can check such a token can also "
                + "make one, so a stolen broker could speak for any user."),
    ]

    private static let limits: [Setting] = [
        .integer(
            "limits.connections", at: \.limits.connections, in: 1...1_000_000, unit: "connections",
            reload: .restart,
            "Connections at a time. Each needs a file descriptor: see LimitNOFILE."),
        .integer(
            "limits.connectionsPerAddress", at: \.limits.connectionsPerAddress, in: 0...1_000_000,
            unit: "connections", reload: .newConnections,
            "Connections of one address at a time, 0 for any number. Not limited by default, "
                + "because a whole site may stand behind one address."),
        .integer(
            "limits.pendingLogins", at: \.limits.pendingLogins, in: 1...1_000_000,
            unit: "connections", reload: .restart,
            "Connections that have not logged in, TLS handshakes under way included. With so many, "
                + "others wait in the kernel, the oldest first, and those that have been silent "
                + "for 3 s are closed. Each holds up to 16 KiB of a first packet and some 40 KiB "
                + "of TLS: 4096 are 230 MB at most."),
        .integer(
            "limits.handshakes", at: \.limits.handshakes, in: 1...1_000_000,
            unit: "connections", reload: .restart,
            "TLS handshakes under way. With so many, the TLS listeners let others wait, as for "
                + "`pendingLogins`, and plain ones go on. 1024 keep the wait of each below its "
                + "deadline on a machine that does 100 a second, and serve 500 a second to "
                + "devices which need 2 s for theirs."),
        .integer(
            "limits.messagesPerSecond", at: \.limits.messagesPerSecond, in: 0...1_000_000,
            unit: "messages a second", reload: .atOnce,
            "What one client may send, requests included, 0 for any. A second's worth may come at "
                + "once; what is more is not read until its time has come, so that nothing is "
                + "lost. Not limited by default: what is acknowledged is held to the send window, "
                + "and connections take turns. Set it where clients are strangers."),
        .integer(
            "limits.bytesPerSecond", at: \.limits.bytesPerSecond, in: 0...1_073_741_824,
            unit: "bytes a second", reload: .atOnce, "The same in bytes, acknowledgements included."
        ),
        .integer(
            "limits.rateToleranceSeconds", at: \.limits.rateToleranceSeconds, in: 1...86_400,
            unit: "seconds", reload: .atOnce,
            "A client that wants to send more than its rates allow for so long without a break is "
                + "closed with 0x96. A minute empties a backlog and does not carry a flood."),
        .integer(
            "limits.sessions", at: \.limits.sessions, in: 1...100_000_000, unit: "sessions",
            reload: .newConnections,
            "Sessions of all apps, connected or not. [sizing.md](sizing.md) has the memory of each."
        ),
        .integer(
            "limits.sessionsPerApp", at: \.limits.sessionsPerApp, in: 1...100_000_000,
            unit: "sessions", reload: .newConnections,
            "Sessions of one app, so that no app takes the room of the others."),
        .integer(
            "limits.users", at: \.limits.users, in: 1...100_000_000, unit: "users",
            reload: .newConnections,
            "Users of all apps who are known by a token, a registration or a login: what a client "
                + "that makes up names comes up against."),
        .integer(
            "limits.authenticationSeconds", at: \.limits.authenticationSeconds, in: 1...600,
            unit: "seconds", reload: .restart,
            "A connection that is not logged in after this time, counted from accept and TLS "
                + "included, is closed."),
        .integer(
            "limits.keepAliveMaximumSeconds", at: \.limits.keepAliveMaximumSeconds, in: 10...65_535,
            unit: "seconds", reload: .newConnections,
            "The longest keep-alive that is granted; a dead connection is noticed within 1.5 times "
                + "this. An hour and a half suits devices behind long NAT timeouts. MQTT 3.1.1 "
                + "cannot tell a client of it: there the client's own holds, and one that has "
                + "none is probed by the kernel."),
        .integer(
            "limits.sessionExpirySeconds", at: \.limits.sessionExpirySeconds, in: 1...4_294_967_295,
            unit: "seconds", reload: .newConnections,
            "How long a session outlives its connection where the client does not say: 7 days. "
                + "4294967295 is for ever."),
        .integer(
            "limits.sessionExpiryMaximumSeconds", at: \.limits.sessionExpiryMaximumSeconds,
            in: 1...4_294_967_295, unit: "seconds", reload: .newConnections,
            "The longest a client may ask for. 4294967295 allows sessions that never expire, "
                + "because pre-generated tokens are valid for years."),
        .integer(
            "limits.sessionsPerUser", at: \.limits.sessionsPerUser, in: 1...10_000,
            unit: "sessions",
            reload: .newConnections,
            "Devices of one user. Each is one more copy of everything sent to that user."),
        .integer(
            "limits.takeoversPerMinute", at: \.limits.takeoversPerMinute,
            in: Setting.takeoversPerMinute, unit: "takeovers", reload: .atOnce,
            "How often within a minute a login may end another connection of its device. A person "
                + "who changes devices does not reach 5; two devices with one name do, and each "
                + "login beyond it then waits two seconds and more (MQTT) or is refused with 0x9F "
                + "(MRT)."),
        .integer(
            "limits.groupsPerApp", at: \.limits.groupsPerApp, in: 0...10_000_000, unit: "groups",
            reload: .atOnce,
            "All groups are in memory, some 300 bytes each beside what `limits.groupBytesPerApp` "
                + "counts."),
        .integer(
            "limits.groupsPerUser", at: \.limits.groupsPerUser, in: 0...100_000, unit: "groups",
            reload: .atOnce,
            "Groups that a user is in, own ones included: each is looked at when the user logs "
                + "in."),
        .integer(
            "limits.groupBytesPerApp", at: \.limits.groupBytesPerApp, in: 0...1_099_511_627_776,
            unit: "bytes", reload: .atOnce,
            "Memory of the allow lists, titles and metas of an app's groups, 48 bytes for each "
                + "name included. A list or text that gets shorter always may."),
        .integer(
            "limits.groupBytesPerUser", at: \.limits.groupBytesPerUser, in: 0...1_099_511_627_776,
            unit: "bytes", reload: .atOnce,
            "The same of the groups that a user owns and is in: 36 lists of 1000 names of 64 "
                + "bytes."),
        .integer(
            "limits.membersPerGroup", at: \.limits.membersPerGroup, in: 1...10_000_000,
            unit: "users", reload: .atOnce,
            "Each member is one more copy of everything sent to the group."),
        .integer(
            "limits.subscriptionsPerSession", at: \.limits.subscriptionsPerSession,
            in: 1...1_000_000,
            unit: "subscriptions", reload: .atOnce,
            "So that one client cannot fill the topic tree."),
        .integer(
            "limits.topicLevels", at: \.limits.topicLevels, in: 1...256, unit: "levels",
            reload: .atOnce,
            "Levels of a topic or filter, which bound the cost of matching one."),
        .integer(
            "limits.filterBytes", at: \.limits.filterBytes, in: 16...65_535, unit: "bytes",
            reload: .atOnce,
            "Bytes of a filter, which is kept for as long as its subscription. Those in the field "
                + "are below 200."),
        .integer(
            "limits.retainedPerApp", at: \.limits.retainedPerApp, in: 0...100_000_000,
            unit: "messages", reload: .atOnce,
            "Retained messages of one app, all of which are in memory; one more is refused with "
                + "0x97."),
        .integer(
            "limits.retainedBytesPerApp", at: \.limits.retainedBytesPerApp,
            in: 0...1_099_511_627_776,
            unit: "bytes", reload: .atOnce, "The same in bytes, topics included."),
        .integer(
            "limits.inboxWindow", at: \.limits.inboxWindow, in: 1...65_535, unit: "messages",
            reload: .newConnections,
            "Deliveries on their way to one session and not yet acknowledged. 64 fill a link of "
                + "100 ms at 600 messages a second; a client may ask for fewer."),
        .integer(
            "limits.inboxWindowBytes", at: \.limits.inboxWindowBytes, in: 1_024...1_073_741_824,
            unit: "bytes", reload: .newConnections,
            "The same in bytes: what a slow reader can hold of the broker's memory. One message "
                + "always fits."),
        .integer(
            "limits.sendWindow", at: \.limits.sendWindow, in: 1...65_535, unit: "messages",
            reload: .newConnections,
            "Sends of one session without a seen result: what is remembered to recognise resends."),
        .integer(
            "limits.messageMaximum", at: \.limits.messageMaximum, in: 64...65_535, unit: "bytes",
            reload: .atOnce,
            "The minimal JSON form of a `t`/`b` message; one byte more is refused with "
                + "0x95."),
        .integer(
            "limits.payloadMaximum", at: \.limits.payloadMaximum, in: 0...268_000_000,
            unit: "bytes",
            reload: .atOnce, "A payload on a plain topic; one byte more is refused with 0x95."),
        .integer(
            "limits.packetMaximum", at: \.limits.packetMaximum, in: 1_024...268_435_460,
            unit: "bytes",
            reload: .restart,
            "A whole packet from a client. At least 66000 more than `payloadMaximum`, which leaves "
                + "room for the longest topic."),
        .integer(
            "limits.outgoingBytes", at: \.limits.outgoingBytes, in: 1_048_576...1_099_511_627_776,
            unit: "bytes", reload: .restart,
            "Memory of bytes that wait for connections which do not keep up. Above it transient "
                + "messages to those that hold more than 16 KiB are dropped, and for a durable one "
                + "the connection is closed that holds the most: its messages wait until it "
                + "reconnects."),
    ]

    private static let queues: [Setting] = [
        .integer(
            "queues.messages", at: \.queues.messages, in: 1...100_000_000, unit: "messages",
            reload: .atOnce,
            "Messages that wait for one session: the price of a forgotten device."),
        .integer(
            "queues.bytes", at: \.queues.bytes, in: 1_024...1_099_511_627_776, unit: "bytes",
            reload: .atOnce, "Bytes that wait for one session."),
        .integer(
            "queues.ageSeconds", at: \.queues.ageSeconds, in: 1...4_294_967_295, unit: "seconds",
            reload: .atOnce, "Age at which a waiting message expires: 7 days."),
        .integer(
            "queues.bytesPerApp", at: \.queues.bytesPerApp, in: 0...35_184_372_088_832,
            unit: "bytes", reload: .atOnce,
            "Bytes that wait for all receivers of one app, 0 for any; above it sends of its users "
                + "are refused (0x97). Looked at every ten seconds. Not limited by default: it is "
                + "for apps that do not know each other and share a broker."),
        .integer(
            "queues.memoryBytes", at: \.queues.memoryBytes, in: 65_536...1_099_511_627_776,
            unit: "bytes", reload: .atOnce,
            "Memory of messages of QoS 1 and 2 that sessions hold which end with their connection, "
                + "each message once. Above it such a session holds `limits.inboxWindowBytes`, and "
                + "one message always fits; what is beyond that is refused (0x97)."),
        .integer(
            "queues.uncommittedBytes", at: \.queues.uncommittedBytes,
            in: 1_048_576...1_099_511_627_776, unit: "bytes", reload: .atOnce,
            "Memory of durable messages that wait for their commit to begin, 128 bytes for each "
                + "receiver included; above it sends are refused (0x97) until it begins. One send "
                + "to everybody always fits. A slow disk and large groups fill it."),
        .choice(
            "queues.policy", at: \.queues.policy, reload: .atOnce,
            "A message for a full queue: `refuse` tells the sender (0x97) and loses nothing; "
                + "`oldest` makes room by dropping the oldest; `newest` drops the new one. Each is "
                + "counted."),
    ]

    private static let mqtt: [Setting] = [
        .choice(
            "mqtt.refusedPublish", at: \.mqtt.refusedPublish, reload: .newConnections,
            "A publication that is refused and has no negative answer, which is any of MQTT 3.1 "
                + "and 3.1.1, and QoS 0 of 5.0: `close` ends the connection, `count` acknowledges "
                + "it as if it had been taken. Either is counted and logged."),
        .integer(
            "mqtt.receiveMaximum", at: \.mqtt.receiveMaximum, in: 1...65_535, unit: "messages",
            reload: .newConnections,
            "Publications of QoS 1 and 2 that a client may have unanswered; 5.0 clients are told. "
                + "A client with more is not read from until answers have left, so that nothing is "
                + "lost and TCP holds it back. 1024 are 10000 a second at a commit of 100 ms."),
        .boolean(
            "mqtt.enforcesReceiveMaximum", at: \.mqtt.enforcesReceiveMaximum, reload: .atOnce,
            "Whether a 5.0 client with more than `receiveMaximum` unanswered or not released is "
                + "closed with 0x93 instead, as the specification has it. Common clients exceed it "
                + "after an outage, come back, and exceed it again."),
        .boolean(
            "mqtt.joinsGroups", at: \.mqtt.joinsGroups, reload: .atOnce,
            "Whether a client joins a group by subscribing to `$g/GROUP`, where the group's owner "
                + "lets it in. Without it, only members may subscribe."),
        .integer(
            "mqtt.sysIntervalSeconds", at: \.mqtt.sysIntervalSeconds, in: 0...86_400,
            unit: "seconds",
            reload: .restart,
            "How often the statistics are published on `$SYS/broker/…`, 0 for never. A client "
                + "needs the right `subscribe:$SYS/#` to hear them; `subscribe:#` is not enough."),
    ]

    private static let web: [Setting] = [
        .texts(
            "web.allowedOrigins", at: \.web.allowedOrigins, domain: "list of origins",
            reload: .atOnce,
            "Origins whose pages may open a WebSocket, such as `https://app.example.com`, beside "
                + "the address that they connect to. A browser sends the origin of its page; "
                + "programs send none and are always let in. `*` allows every page."),
        .choice(
            "web.metrics", at: \.web.metrics, reload: .atOnce,
            "Who may read `GET /metrics`: clients on this machine, `anyone` who reaches the "
                + "listener, or `nobody`. What a reverse proxy on this machine passes on comes "
                + "from this machine."),
    ]

    private static let store: [Setting] = [
        .integer(
            "store.mapBytes", at: \.store.mapBytes, in: 16_777_216...70_368_744_177_664,
            unit: "bytes",
            reload: .restart,
            "Address space of the store. It costs neither memory nor disk, and LMDB cannot go "
                + "beyond it, so it is large from the start. At least twice `softLimitBytes`."),
        .integer(
            "store.softLimitBytes", at: \.store.softLimitBytes, in: 8_388_608...35_184_372_088_832,
            unit: "bytes", reload: .restart,
            "Bytes in use above which sends and requests that make the store grow are refused "
                + "(0x97), while acknowledgements and drains go on."),
        .boolean(
            "store.checksPages", at: \.store.checksPages, reload: .restart,
            "Whether every page is checked at start, which reads the whole file once."),
        .integer(
            "store.downtimeMaximumSeconds", at: \.store.downtimeMaximumSeconds, in: 0...315_360_000,
            unit: "seconds", reload: .restart,
            "The longest time that a stopped broker counts as passed, so that a clock which was "
                + "set wrong expires nothing beyond it."),
    ]

    private static let log: [Setting] = [
        .choice(
            "log.level", at: \.log.level, reload: .atOnce,
            "The least important event that is logged."),
        .choice(
            "log.format", at: \.log.format, reload: .atOnce,
            "`logfmt` for people and journald, `json` for collectors; one line per event."),
    ]
}
