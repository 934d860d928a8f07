// Every key of the configuration: range, unit, reason, and what a reload does. The defaults are
// in `BrokerSettings`. docs/operating/configuration.md is rendered from this table.
import BrokerTerms
import CommandLineOptions

/// The keys of the configuration in the order in which they are documented.
public enum SettingTable {
    public static let all: [Setting] =
        general + apps + tls + jwt + limits + queues + history + files + mqtt + web + store
        + cluster + log

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
            "The directory of the store. The broker creates it with mode 0700 if it does "
                + "not exist. Only one broker at a time can use it."),
        .listeners(
            "listeners", at: \.listeners, reload: .restart,
            "Where the broker listens, as `tls://HOST:PORT`, `tcp://HOST:PORT`, or for "
                + "WebSocket ([web.md](web.md)) `wss://HOST:PORT` or `ws://HOST:PORT`, or with "
                + "the HTTP API ([api.md](api.md)) `https://HOST:PORT` or "
                + "`http://HOST:PORT`. HOST is "
                + "`*` (every address), `localhost`, or a numeric address. Options follow a `?` "
                + "and are joined by `&`: `anonymous` accepts clients without credentials, as "
                + "users of the app `demo`; "
                + "`certificateFile=FILE` and `keyFile=FILE` replace those under `tls`; "
                + "`clientCertificates=optional` or `required` asks clients for a certificate; "
                + "`serve=` chooses the parts of a web listener, by default `mqtt,mrt,json,health,"
                + "metrics`, and for `https` and `http` also `api,dashboard`; `insecure` lets "
                + "`ws` and `http` leave the loopback address, where tokens cross the network "
                + "without TLS; `passwords=APP` accepts the user names of an app with their "
                + "passwords, for MQTT ([tokens.md](tokens.md#user-names-and-passwords)); "
                + "`proxy=NETWORK,…` names load balancers, "
                + "which send PROXY headers, and `forwarded=NETWORK,…` reverse proxies, whose "
                + "`X-Forwarded-For` counts ([proxies.md](proxies.md)). "
                + "By default, connections without TLS are accepted on the loopback address "
                + "only. 8883 and 1883 are the registered ports of MQTT; each accepts MQTT and "
                + "MRT. 8084 and 8083 are usual for WebSocket, 8443 for HTTPS. PORT 0 lets "
                + "the system choose a port; the log reports it."),
        .integer(
            "loops", at: \.loops, in: 0...LoopLimits.countMaximum, unit: "threads",
            reload: .restart,
            "Event loops. With 0 the broker uses one, because the store and the kernel "
                + "need the other cores."),
    ]

    private static let apps: [Setting] = [
        .objects(
            "apps", at: \.apps, reload: .newConnections,
            "Settings of single apps, as `{app, refusedPublish, joinsGroups, takeoversPerMinute, "
                + "keepsHistory, historyTopics, recall, addsMembers, interfaces, wake, events, "
                + "moderation}`. They override "
                + "the keys of the same names below, and keepsHistory overrides "
                + "`history.byDefault`; a member that is left out has the value of its key. "
                + "`historyTopics` lists up to 64 topic filters, such as `[\"plant/+/alarm\"]`: "
                + "publications of QoS 1 and 2 on topics that match are kept, and whoever may "
                + "subscribe reads them. With `recall: false` users may not recall or replace "
                + "their messages. With `addsMembers: false` users add nobody else to groups over "
                + "the interfaces of other systems; operators and app keys do. `interfaces` lists "
                + "the interfaces of other systems that are open "
                + "([source-systems.md](source-systems.md)); none by default. `wake` says how "
                + "users are woken, as `{relay, intervalSeconds, contents, transient, wills}` "
                + "([wake-ups.md](wake-ups.md)); they are not by default. `events` says what a "
                + "relay is told, as `{relay, kinds}` "
                + "([webhooks.md](webhooks.md#events-of-the-broker)); nothing by default. "
                + "`moderation` says on which messages a moderator decides, as `{moderator, "
                + "milliseconds, silent, users, groups, everybody, topics}` "
                + "([moderation.md](moderation.md)); on none by default."),
        .objects(
            "shards", at: \.shards, reload: .restart,
            "Sets of apps with a core and a store of their own, as `{name, apps}` "
                + "([shards.md](shards.md)). All apps that no shard names are in the shard "
                + "`default`, whose store is that of `dataDirectory`; the store of another shard "
                + "is in `shards/NAME` there. None by default, at most "
                + "\(ShardSettings.countMaximum)."),
    ]

    private static let tls: [Setting] = [
        .optionalText(
            "tls.certificateFile", at: \.tls.certificateFile, reload: .newConnections,
            "The server's certificate, followed by the intermediate certificates, as PEM."),
        .optionalText(
            "tls.keyFile", at: \.tls.keyFile, reload: .newConnections,
            "The private key of the certificate, as PEM. A key that does not match the "
                + "certificate is refused; a reload then keeps the old pair."),
        .choice(
            "tls.minimumVersion", at: \.tls.minimumVersion, reload: .newConnections,
            "The oldest version of TLS that is accepted. 1.2, because many modem chips "
                + "have nothing newer; older versions are insecure (RFC 8996)."),
        .optionalText(
            "tls.clientAuthorityFile", at: \.tls.clientAuthorityFile, reload: .newConnections,
            "The authorities that sign client certificates, intermediate ones included, "
                + "as PEM. A change ends the resumption of earlier TLS sessions, so that every "
                + "client presents its certificate again."),
        .optionalText(
            "tls.crlFile", at: \.tls.crlFile, reload: .newConnections,
            "Revoked client certificates: one list (CRL) of each authority above, as PEM. "
                + "When a list has expired, all clients with a certificate are refused."),
        .choice(
            "tls.clientName", at: \.tls.clientName, reload: .newConnections,
            "The name in a client certificate that identifies the user: the subject's "
                + "common name, or the first alternative name of a kind. `APP/USER` also names "
                + "the app."),
        .optionalText(
            "tls.clientApp", at: \.tls.clientApp, domain: "app id or null", reload: .newConnections,
            "The app of clients with a certificate or pre-shared key whose name contains no app."),
        .optionalText(
            "tls.pskFile", at: \.tls.pskFile, reload: .newConnections,
            "Pre-shared TLS keys for devices too small for certificates, one "
                + "`IDENTITY:HEXKEY` per line, at least 16 bytes each. The identity is "
                + "`APP/USER`, or a user of `clientApp`. For TLS 1.2 and 1.3. Only the broker's "
                + "user may be able to read the file."),
    ]

    private static let jwt: [Setting] = [
        .objects(
            "jwt.keys", at: \.jwt.keys, reload: .atOnce,
            "Keys of the account servers whose JSON Web Tokens are accepted, as `{app, "
                + "kid, algorithm, file}`. The algorithm is RS256, ES256, EdDSA or HS256; the "
                + "file holds the public key as PEM. When a key is removed or replaced, the "
                + "connections that it admitted are closed."),
        .objects(
            "jwt.issuers", at: \.jwt.issuers, reload: .atOnce,
            "Identity providers whose JSON Web Tokens are accepted, as `{issuer, audience, app, "
                + "file, user, device, rights}`: the tokens' `iss`, what their `aud` must contain, "
                + "the app of their users, and the provider's key set (JWKS). `user` (`${sub}` if "
                + "left out), `device` and each of the list `rights` are texts in which "
                + "`${claim}` stands for a claim. When a key leaves the file, the connections "
                + "that it admitted are closed."),
        .boolean(
            "jwt.allowHS256", at: \.jwt.allowHS256, reload: .atOnce,
            "Whether keys may be shared secrets (HS256). A server that can verify such a "
                + "token can also create one, so anyone who steals the key from the broker can log "
                + "in as any user."),
    ]

    private static let limits: [Setting] = [
        .integer(
            "limits.connections", at: \.limits.connections, in: 1...1_000_000, unit: "connections",
            reload: .restart,
            "Simultaneous connections. Each needs a file descriptor: see LimitNOFILE."),
        .integer(
            "limits.connectionsPerAddress", at: \.limits.connectionsPerAddress, in: 0...1_000_000,
            unit: "connections", reload: .newConnections,
            "Simultaneous connections from one address; 0 is unlimited. Unlimited by "
                + "default, because a whole site may share one address."),
        .integer(
            "limits.pendingLogins", at: \.limits.pendingLogins, in: 1...1_000_000,
            unit: "connections", reload: .restart,
            "Connections that have not logged in, including TLS handshakes in progress. "
                + "At this number, further connections wait in the kernel's queue, and "
                + "connections that have been silent for 3 s are closed. Each holds up to 16 "
                + "KiB of a first packet and about 40 KiB of TLS state: 4096 use at most 230 "
                + "MB."),
        .integer(
            "limits.handshakes", at: \.limits.handshakes, in: 1...1_000_000,
            unit: "connections", reload: .restart,
            "TLS handshakes in progress. At this number, the TLS listeners stop "
                + "accepting, as for `pendingLogins`; listeners without TLS continue. With 1024 "
                + "on a machine that does 100 handshakes a second, each ends before its "
                + "deadline; devices that need 2 s for a handshake are still served at 500 a "
                + "second."),
        .integer(
            "limits.messagesPerSecond", at: \.limits.messagesPerSecond, in: 0...1_000_000,
            unit: "messages a second", reload: .atOnce,
            "Messages and requests that one client may send; 0 is unlimited. One second's "
                + "worth may arrive at once. The broker reads the rest later and loses nothing; "
                + "over HTTP, where it is the limit of a user or key, the rest is 429. "
                + "Unlimited by default, because the send window bounds what is acknowledged, "
                + "and connections take turns. Set it if clients are not trusted."),
        .integer(
            "limits.bytesPerSecond", at: \.limits.bytesPerSecond, in: 0...1_073_741_824,
            unit: "bytes a second", reload: .atOnce,
            "The same in bytes, including acknowledgements."),
        .integer(
            "limits.rateToleranceSeconds", at: \.limits.rateToleranceSeconds, in: 1...86_400,
            unit: "seconds", reload: .atOnce,
            "A client that exceeds its rates for this long without a break is "
                + "disconnected with 0x96. A minute is enough to send a backlog, and too short "
                + "for a flood."),
        .integer(
            "limits.sessions", at: \.limits.sessions, in: 1...100_000_000, unit: "sessions",
            reload: .newConnections,
            "Sessions of all apps, connected or not. [sizing.md](sizing.md) has the memory of each."
        ),
        .integer(
            "limits.sessionsPerApp", at: \.limits.sessionsPerApp, in: 1...100_000_000,
            unit: "sessions", reload: .newConnections,
            "Sessions of one app, so that one app cannot use up `limits.sessions`."),
        .integer(
            "limits.users", at: \.limits.users, in: 1...100_000_000, unit: "users",
            reload: .newConnections,
            "Users of all apps who are known from a token, a registration or a login. The "
                + "limit stops a client that invents names."),
        .integer(
            "limits.usersPerApp", at: \.limits.usersPerApp, in: 1...100_000_000, unit: "users",
            reload: .newConnections,
            "Users of one app, so that one app cannot use up `limits.users`."),
        .integer(
            "limits.authenticationSeconds", at: \.limits.authenticationSeconds, in: 1...600,
            unit: "seconds", reload: .restart,
            "A connection that has not logged in after this time is closed. The time "
                + "starts at accept and includes the TLS handshake."),
        .integer(
            "limits.keepAliveMaximumSeconds", at: \.limits.keepAliveMaximumSeconds, in: 10...65_535,
            unit: "seconds", reload: .newConnections,
            "The longest keep-alive that is granted. A dead connection is detected within "
                + "1.5 times this time. An hour and a half suits devices behind NATs with long "
                + "timeouts. The broker cannot announce the limit in MQTT 3.1.1: there the "
                + "client's own keep-alive applies, and the kernel probes the connection of a "
                + "client that has none."),
        .integer(
            "limits.sessionExpirySeconds", at: \.limits.sessionExpirySeconds, in: 1...4_294_967_295,
            unit: "seconds", reload: .newConnections,
            "How long a session outlives its connection if the client does not say: 7 "
                + "days. 4294967295 means that it never expires."),
        .integer(
            "limits.sessionExpiryMaximumSeconds", at: \.limits.sessionExpiryMaximumSeconds,
            in: 1...4_294_967_295, unit: "seconds", reload: .newConnections,
            "The longest session expiry that a client may request. 4294967295 allows "
                + "sessions that never expire, because pre-generated tokens are valid for "
                + "years."),
        .integer(
            "limits.sessionsPerUser", at: \.limits.sessionsPerUser, in: 1...10_000,
            unit: "sessions",
            reload: .newConnections,
            "Devices of one user. Each receives its own copy of every message to that "
                + "user."),
        .integer(
            "limits.takeoversPerMinute", at: \.limits.takeoversPerMinute,
            in: Setting.takeoversPerMinute, unit: "takeovers", reload: .atOnce,
            "How often within a minute a login may end another connection of its device. "
                + "A person who changes devices does not reach 5; two devices with one name do. "
                + "Each login beyond it waits two seconds or longer (MQTT) or is refused with "
                + "0x9F (MRT)."),
        .integer(
            "limits.groupsPerApp", at: \.limits.groupsPerApp, in: 0...10_000_000, unit: "groups",
            reload: .atOnce,
            "Groups of one app. All groups are in memory: about 300 bytes each, in "
                + "addition to what `limits.groupBytesPerApp` counts."),
        .integer(
            "limits.groupsPerUser", at: \.limits.groupsPerUser, in: 0...100_000, unit: "groups",
            reload: .atOnce,
            "Groups that a user is a member of, each of which a login looks at; and groups that a "
                + "user owns, including those that the user has left."),
        .integer(
            "limits.trackedSendsPerApp", at: \.limits.trackedSendsPerApp, in: 0...10_000_000,
            unit: "messages", reload: .atOnce,
            "Messages of an app that have a reference, because their senders asked for one or for "
                + "receipts, until they expire (with receipts an hour longer), or a collapse key. "
                + "At the limit the oldest one of which everything is told makes room; without "
                + "one, sends that ask are refused (0x97). The last tenth is for users who have "
                + "few: less than a thousandth. Each takes about 600 bytes of memory."),
        .integer(
            "limits.trackedSendsPerUser", at: \.limits.trackedSendsPerUser, in: 0...10_000_000,
            unit: "messages", reload: .atOnce, "The same for one user."),
        .integer(
            "limits.trackedMembersPerApp", at: \.limits.trackedMembersPerApp,
            in: 0...100_000_000, unit: "members", reload: .atOnce,
            "Members of groups of which the broker remembers one by one what they did with the "
                + "messages of an app: those who told it, and those with several devices. Above, "
                + "they cannot tell it (0x97), or are not counted. The last tenth is for the "
                + "messages of users who have few. Each takes about 40 bytes of memory."),
        .integer(
            "limits.trackedMembersPerUser", at: \.limits.trackedMembersPerUser,
            in: 0...100_000_000, unit: "members", reload: .atOnce,
            "The same for the messages of one user."),
        .integer(
            "limits.groupBytesPerApp", at: \.limits.groupBytesPerApp, in: 0...1_099_511_627_776,
            unit: "bytes", reload: .atOnce,
            "Memory of the allow lists, titles and metas of an app's groups, with 48 "
                + "bytes for each name. A change that makes a list or text shorter is always "
                + "accepted."),
        .integer(
            "limits.groupBytesPerUser", at: \.limits.groupBytesPerUser, in: 0...1_099_511_627_776,
            unit: "bytes", reload: .atOnce,
            "The same for the groups that a user owns, including those that the user has left: 36 "
                + "lists of 1000 names of 64 bytes."),
        .integer(
            "limits.membersPerGroup", at: \.limits.membersPerGroup, in: 1...10_000_000,
            unit: "users", reload: .atOnce,
            "Members of one group. Each receives its own copy of every message to the "
                + "group."),
        .integer(
            "limits.subscriptionsPerSession", at: \.limits.subscriptionsPerSession,
            in: 1...1_000_000,
            unit: "subscriptions", reload: .atOnce,
            "Subscriptions of one session, so that one client cannot fill the topic tree."),
        .integer(
            "limits.topicLevels", at: \.limits.topicLevels, in: 1...256, unit: "levels",
            reload: .atOnce,
            "Levels of a topic or filter. They bound the cost of matching one."),
        .integer(
            "limits.filterBytes", at: \.limits.filterBytes, in: 16...65_535, unit: "bytes",
            reload: .atOnce,
            "Bytes of a filter, which stays in memory as long as its subscription. "
                + "Filters in use are usually shorter than 200 bytes."),
        .integer(
            "limits.retainedPerApp", at: \.limits.retainedPerApp, in: 0...100_000_000,
            unit: "messages", reload: .atOnce,
            "Retained messages of one app. All are in memory; a further one is refused "
                + "with 0x97."),
        .integer(
            "limits.retainedBytesPerApp", at: \.limits.retainedBytesPerApp,
            in: 0...1_099_511_627_776,
            unit: "bytes", reload: .atOnce,
            "The same in bytes, including topics."),
        .integer(
            "limits.inboxWindow", at: \.limits.inboxWindow, in: 1...65_535, unit: "messages",
            reload: .newConnections,
            "Deliveries to one session that it has not acknowledged. 64 allow 600 "
                + "messages a second over a link with a round trip of 100 ms. A client may ask "
                + "for fewer."),
        .integer(
            "limits.inboxWindowBytes", at: \.limits.inboxWindowBytes, in: 1_024...1_073_741_824,
            unit: "bytes", reload: .newConnections,
            "The same in bytes: the memory that a slow reader can hold. One message "
                + "always fits."),
        .integer(
            "limits.sendWindow", at: \.limits.sendWindow, in: 1...65_535, unit: "messages",
            reload: .newConnections,
            "Sends of one session whose result the client has not confirmed. The broker "
                + "remembers them to recognise resends."),
        .integer(
            "limits.messageMaximum", at: \.limits.messageMaximum, in: 64...65_535, unit: "bytes",
            reload: .atOnce,
            "Bytes of the shortest JSON form of a `t`/`b` message. A longer message is "
                + "refused: with 0x95 in MRT, with 0x97 in MQTT 5."),
        .integer(
            "limits.payloadMaximum", at: \.limits.payloadMaximum,
            in: 0...PacketSizes.payloadMaximum, unit: "bytes",
            reload: .atOnce,
            "Bytes of a payload on a plain topic. A longer payload is refused: with 0x95 in "
                + "MRT, with 0x97 in MQTT 5."),
        .integer(
            "limits.packetMaximum", at: \.limits.packetMaximum,
            in: 1_024...PacketSizes.packetMaximum, unit: "bytes",
            reload: .restart,
            "Bytes of a whole packet from a client. At least \(PacketSizes.overhead) more than "
                + "`payloadMaximum`, which leaves room for the longest topic; at most 4000000 "
                + "in a cluster."),
        .integer(
            "limits.outgoingBytes", at: \.limits.outgoingBytes, in: 1_048_576...1_099_511_627_776,
            unit: "bytes", reload: .restart,
            "Memory of bytes that wait for connections whose clients read too slowly. "
                + "Above it, transient messages for connections that hold more than 16 KiB are "
                + "dropped. For a durable message the connection that holds the most is closed: "
                + "its messages wait until it reconnects."),
    ]

    private static let queues: [Setting] = [
        .integer(
            "queues.messages", at: \.queues.messages, in: 1...100_000_000, unit: "messages",
            reload: .atOnce,
            "Messages that wait for one session. A device that never returns costs this "
                + "much."),
        .integer(
            "queues.bytes", at: \.queues.bytes, in: 1_024...1_099_511_627_776, unit: "bytes",
            reload: .atOnce, "Bytes that wait for one session."),
        .integer(
            "queues.ageSeconds", at: \.queues.ageSeconds, in: 1...4_294_967_295, unit: "seconds",
            reload: .atOnce,
            "Age at which a waiting message expires: 7 days."),
        .integer(
            "queues.bytesPerApp", at: \.queues.bytesPerApp, in: 0...35_184_372_088_832,
            unit: "bytes", reload: .atOnce,
            "Bytes that wait for all receivers of one app; 0 is unlimited. Above it, "
                + "sends of its users are refused (0x97). The broker checks it every ten "
                + "seconds. Unlimited by default; set it if independent apps share a broker."),
        .integer(
            "queues.memoryBytes", at: \.queues.memoryBytes, in: 65_536...1_099_511_627_776,
            unit: "bytes", reload: .atOnce,
            "Memory of QoS 1 and 2 messages for sessions that end with their connection; "
                + "each message counts once. Above it, such a session may hold "
                + "`limits.inboxWindowBytes`, or one message; further messages are refused "
                + "(0x97)."),
        .integer(
            "queues.uncommittedBytes", at: \.queues.uncommittedBytes,
            in: 1_048_576...1_099_511_627_776, unit: "bytes", reload: .atOnce,
            "Memory of durable messages that wait for their commit to begin, with 128 "
                + "bytes for each receiver. Above it, sends are refused (0x97) until the commit "
                + "begins. One send to everybody always fits. A slow disk and large groups can "
                + "fill it."),
        .choice(
            "queues.policy", at: \.queues.policy, reload: .atOnce,
            "What happens to a message for a full queue: `refuse` refuses it (0x97) and "
                + "loses nothing; `oldest` drops the oldest message of the queue; `newest` "
                + "drops the new one. Each case is counted."),
    ]

    private static let history: [Setting] = [
        .boolean(
            "history.byDefault", at: \.history.byDefault, reload: .atOnce,
            "Whether messages to users and groups with a number (durable, once) are kept unless "
                + "their senders say no. A group's owner may say so for the group; `keepsHistory` "
                + "of `apps` for an app. Past the limits of history such a message is delivered "
                + "and not kept (`history/messages/refused`)."),
        .integer(
            "history.messages", at: \.history.messages, in: 1...100_000_000, unit: "messages",
            reload: .atOnce,
            "Messages that are kept in one conversation, of two users or a group. The oldest ones "
                + "make room for new ones. Only messages that their senders want kept are kept."),
        .integer(
            "history.bytes", at: \.history.bytes, in: 1_048_576...1_099_511_627_776, unit: "bytes",
            reload: .atOnce, "Bytes that are kept in one conversation."),
        .integer(
            "history.ageSeconds", at: \.history.ageSeconds, in: 1...4_294_967_295, unit: "seconds",
            reload: .atOnce,
            "Age at which a kept message is removed: 30 days. It counts from the time at which the "
                + "message was kept, so a change is for messages to come."),
        .integer(
            "history.conversationsPerApp", at: \.history.conversationsPerApp, in: 0...100_000_000,
            unit: "conversations", reload: .atOnce,
            "Conversations of one app, each of which takes about 250 bytes of memory. Messages "
                + "that would begin another one are refused (0x97); 0 keeps no messages."),
        .integer(
            "history.topicsPerApp", at: \.history.topicsPerApp, in: 0...1_000_000, unit: "topics",
            reload: .atOnce,
            "Topics of one app that have kept messages (`historyTopics` of `apps`); they count as "
                + "conversations too. A publication that would begin another one is delivered and "
                + "not kept (`history/messages/refused`), or refused (0x97) if its sender asked "
                + "for history."),
        .integer(
            "history.bytesPerApp", at: \.history.bytesPerApp, in: 0...35_184_372_088_832,
            unit: "bytes", reload: .atOnce,
            "Bytes that are kept in all conversations of one app. Above it, the largest "
                + "conversations give up their oldest messages; 0 keeps no messages."),
    ]

    private static let files: [Setting] = [
        .optionalText(
            "files.directory", at: \.files.directory, reload: .restart,
            "The directory of files that clients of Diuit send in messages "
                + "([source-systems.md](source-systems.md#files)), outside the store. Null keeps "
                + "none. `limits.packetMaximum` bounds a file too: base64 makes it a third "
                + "longer. Not in a cluster, whose log has no files."),
        .integer(
            "files.bytesPerApp", at: \.files.bytesPerApp,
            in: 0...35_184_372_088_832, unit: "bytes", reload: .restart,
            "Bytes of the files of one app. Above it new ones are refused (507); 0 keeps none."),
        .integer(
            "files.userPercent", at: \.files.userPercent, in: 1...100, unit: "percent",
            reload: .restart,
            "Share of one user in `files.bytesPerApp` and in the 100,000 files of an app, so that "
                + "nobody fills the directory alone. A file is in the share of the user who sent "
                + "it last. Above it new ones are refused (507)."),
        .integer(
            "files.ageSeconds", at: \.files.ageSeconds, in: 1...4_294_967_295,
            unit: "seconds", reload: .restart,
            "Age at which a file is removed: 7 days. A file that is sent again begins anew."),
        .optionalText(
            "files.address", at: \.files.address, domain: "URL or null",
            reload: .restart,
            "What the addresses of files begin with, such as `https://broker.example:8443`: a "
                + "listener that serves the API, as clients reach it."),
    ]

    private static let mqtt: [Setting] = [
        .choice(
            "mqtt.refusedPublish", at: \.mqtt.refusedPublish, reload: .newConnections,
            "A refused publication that has no negative acknowledgement (any in MQTT 3.1 "
                + "and 3.1.1, and QoS 0 in 5.0): `close` closes the connection, `count` "
                + "acknowledges the publication as if it had been accepted. Both are counted "
                + "and logged."),
        .integer(
            "mqtt.receiveMaximum", at: \.mqtt.receiveMaximum, in: 1...65_535, unit: "messages",
            reload: .newConnections,
            "Unanswered publications of QoS 1 and 2 of one client; 5.0 clients are told. "
                + "The broker does not read from a client that has more until answers have been "
                + "sent; TCP holds the client back, and nothing is lost. 1024 allow 10000 a "
                + "second if a commit takes 100 ms."),
        .boolean(
            "mqtt.enforcesReceiveMaximum", at: \.mqtt.enforcesReceiveMaximum, reload: .atOnce,
            "Whether a 5.0 client with more than `receiveMaximum` unanswered or "
                + "unreleased publications is disconnected with 0x93 instead, as the "
                + "specification requires. Common clients exceed the limit after an outage, "
                + "reconnect, and exceed it again."),
        .boolean(
            "mqtt.joinsGroups", at: \.mqtt.joinsGroups, reload: .atOnce,
            "Whether a subscription to `$g/GROUP` joins the group, if the group's owner "
                + "permits it. If not, only members may subscribe."),
        .integer(
            "mqtt.sysIntervalSeconds", at: \.mqtt.sysIntervalSeconds, in: 0...86_400,
            unit: "seconds",
            reload: .restart,
            "How often the statistics are published on `$SYS/broker/…`; 0 is never. A "
                + "client needs the right `subscribe:$SYS/#` to receive them; `subscribe:#` is "
                + "not enough."),
    ]

    private static let web: [Setting] = [
        .texts(
            "web.allowedOrigins", at: \.web.allowedOrigins, domain: "list of origins",
            check: OriginForm.check, reload: .atOnce,
            "Origins whose pages may open a WebSocket and use the HTTP API, such as "
                + "`https://app.example.com`, beside the address that they connect to. A browser "
                + "sends the origin of its page; programs send none and are always let in. `*` "
                + "lets every page open a WebSocket, and none use the HTTP API."),
        .choice(
            "web.metrics", at: \.web.metrics, reload: .atOnce,
            "Who may read `GET /metrics`: clients on this machine, `anyone` who reaches the "
                + "listener, or `nobody`. What a reverse proxy on this machine passes on without "
                + "`X-Forwarded-For` comes from this machine."),
    ]

    private static let store: [Setting] = [
        .integer(
            "store.mapBytes", at: \.store.mapBytes, in: 16_777_216...70_368_744_177_664,
            unit: "bytes",
            reload: .restart,
            "Address space of the store. It uses neither memory nor disk, but LMDB cannot "
                + "grow beyond it, so the default is large. At least twice `softLimitBytes`."),
        .integer(
            "store.softLimitBytes", at: \.store.softLimitBytes, in: 8_388_608...35_184_372_088_832,
            unit: "bytes", reload: .restart,
            "Bytes in use above which the broker refuses sends and requests that make the "
                + "store grow (0x97). It continues to accept acknowledgements and to deliver."),
        .boolean(
            "store.checksPages", at: \.store.checksPages, reload: .restart,
            "Whether the broker checks every page at its start, which reads the whole "
                + "file once."),
        .integer(
            "store.downtimeMaximumSeconds", at: \.store.downtimeMaximumSeconds, in: 0...315_360_000,
            unit: "seconds", reload: .restart,
            "The longest downtime of the broker that counts as passed time, so that a "
                + "wrong clock cannot expire more than that."),
    ]

    private static let log: [Setting] = [
        .choice(
            "log.level", at: \.log.level, reload: .atOnce,
            "The least important level that is logged."),
        .choice(
            "log.format", at: \.log.format, reload: .atOnce,
            "`logfmt` for people and journald, `json` for log collectors; one line per "
                + "event."),
    ]
}
