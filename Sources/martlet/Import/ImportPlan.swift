// What an import does: passwords to set, messages to retain, sessions with their queues, and a
// configuration to write. It is made from the files alone, so that a dry run tells the same as the
// import.

import Administration
import Credentials

/// The import of a Mosquitto into an app.
struct ImportPlan {
    let app: String
    private(set) var passwords: [SetPassword] = []
    private(set) var retained: [RetainedImport] = []
    private(set) var sessions: [SessionImport] = []
    /// The messages that wait for sessions.
    private(set) var messages: [UInt64: StoredMessage] = [:]
    private(set) var configuration = ""
    private(set) var report = ImportReport()
    /// The line of the report on each password and each retained message.
    private var passwordLines: [Int] = []
    private var retainedLines: [Int] = []
    private var sessionLines: [Int] = []
    /// The users of the user names that are taken, by the bytes of the name: texts that only look
    /// the same are equal in Swift.
    private var users: [[UInt8]: String] = [:]
    /// The users themselves.
    private var takenUsers: Set<[UInt8]> = []

    /// Bytes of a retained message: as base64 it fits into a request.
    private static let payloadByteCountMaximum = 1 << 20
    /// Topics that a line of the report names.
    private static let topicsInLine = 10
    private static let withoutContentType =
        "without the content type: more than \(SendMessage.contentTypeByteCountMaximum) bytes, or "
        + "control characters"
    /// Bytes of a user's id.
    private static let userByteCountMaximum = 64

    /// - Parameters:
    ///   - path: `mosquitto.conf`.
    ///   - store: the file of the store, in place of the one that the configuration names.
    init(configuration path: String, store: String?, app: String, unixSeconds now: Int64) {
        self.app = app
        let settings = MosquittoConfiguration(path, report: &report)
        let access = settings.accessFile.flatMap { MosquittoAccess($0.text, report: &report) }
        if let file = settings.passwordFile {
            if let reason = Self.reasonToTakeNoUser(settings, access) {
                report.add(.refused, at: file.place, "no user is taken: \(reason)")
            } else {
                takePasswords(file, access: access, of: settings)
            }
        }
        if let access { tellUnused(access) }
        let written = ImportedConfiguration(settings, of: path, app: app, report: &report)
        configuration = written.text
        if written.takesPreSharedKeys, let file = settings.preSharedKeyFile {
            takePreSharedKeys(file)
        }
        if let file = store ?? settings.storeFile?.text {
            if let store = MosquittoStore(file, report: &report) {
                take(store, of: file, unixSeconds: now)
            }
        } else if !settings.hasSQLitePlugin {
            report.add(.ignored, at: path, "there is no store: persistence is off")
        }
    }

    /// Why users would have more rights than Mosquitto gives them.
    private static func reasonToTakeNoUser(
        _ settings: MosquittoConfiguration, _ access: MosquittoAccess?
    ) -> String? {
        if settings.hasSeveralLists {
            return "each listener has users and rights of its own; import one listener's "
                + "configuration at a time, without per_listener_settings"
        }
        if let restriction = settings.restriction {
            return "\(restriction.text) at \(restriction.place) may restrict users, and is not "
                + "taken; import a copy of the configuration without it if it does not"
        }
        return settings.accessFile != nil && access == nil
            ? "the access list cannot be read, and each would have the rights of the app" : nil
    }

    /// Notes that the broker has refused a password.
    mutating func refuse(password index: Int, _ reason: String) {
        report.refuse(at: passwordLines[index], reason)
    }

    /// Notes that the broker has refused a session.
    mutating func refuse(session index: Int, _ reason: String) {
        report.refuse(at: sessionLines[index], reason)
    }

    /// Notes what the broker has taken of a session.
    mutating func settle(session index: Int, _ result: SessionImport.Result) {
        if let refusal = result.refusal {
            let session = sessions[index]
            let words =
                "\(result.reachedCount) of \(session.items.count) messages and no subscriptions "
                + "are taken; the session is incomplete, and its client logs in with a clean "
                + "start only, until martlet session delete \(session.user) --device "
                + "\(session.device) removes it"
            refuse(
                session: index,
                result.reachedCount > 0 ? "\(refusal); \(words)" : refusal)
            return
        }
        if result.exists, result.reachedCount > 0 {
            let count = sessions[index].items.count
            refuse(
                session: index,
                "\(result.reachedCount) of \(count) messages and no subscriptions are taken: the "
                    + "client has begun another session since, or somebody has deleted this one; "
                    + "let the client subscribe again")
            return
        }
        if result.exists {
            refuse(
                session: index,
                "the broker has a session of this client that this import has not begun, or has "
                    + "completed before")
            return
        }
        var words: [String] = []
        if result.refusedCount > 0 {
            words.append(
                "\(result.refusedCount) messages not taken: too long, on no topic name, or the "
                    + "queue is full")
        }
        for filter in result.refusedFilters { words.append("\(filter) not subscribed") }
        if !words.isEmpty {
            report.change(at: sessionLines[index], words.joined(separator: ", "))
        }
    }

    /// Notes that the broker has refused a retained message.
    mutating func refuse(retained index: Int, _ reason: String) {
        report.refuse(at: retainedLines[index], reason)
    }

    // MARK: - Users

    private mutating func takePasswords(
        _ path: MosquittoConfiguration.Value, access: MosquittoAccess?,
        of settings: MosquittoConfiguration
    ) {
        guard let file = ImportFile(path.text, "the password file", report: &report) else { return }
        var names: Set<[UInt8]> = []
        var users: [[UInt8]: String] = [:]
        for line in file.lines where !line.text.hasPrefix("#") {
            guard let colon = line.text.firstIndex(of: ":"), colon > line.text.startIndex else {
                report.add(.refused, at: line.place, "the line is not NAME:HASH")
                continue
            }
            let name = String(line.text[..<colon])
            let hash = line.text[line.text.index(after: colon)...].trimmed
            if let fault = Self.fault(of: hash) ?? Self.fault(ofName: name) {
                report.add(.refused, at: line.place, "user \(name): \(fault)")
                continue
            }
            guard names.insert(Array(name.utf8)).inserted else {
                report.add(
                    .refused, at: line.place, "user \(name) is there twice; the first is taken")
                continue
            }
            let user = Self.userName(name)
            if let other = users.updateValue(name, forKey: Array(user.utf8)) {
                report.add(
                    .refused, at: line.place,
                    "user \(name) would be the user \(user), as \(other) is")
                continue
            }
            var rights = access?.rights(
                of: name, user: user, isDevice: settings.usesUserAsDevice,
                countMaximum: SetPassword.rightCountMaximum, report: &report)
            // Without one, the list would be that of the app.
            if rights == [] { rights = ["!subscribe:#", "!publish:#"] }
            if let fault = rights.flatMap(RightsCheck.fault) {
                report.add(.refused, at: line.place, "user \(name): its rights: \(fault)")
                continue
            }
            passwords.append(
                SetPassword(
                    app: app, name: name, hash: hash, user: user == name ? nil : user,
                    rights: rights))
            self.users[Array(name.utf8)] = user
            takenUsers.insert(Array(user.utf8))
            passwordLines.append(report.lines.count)
            let text = "user \(name), \(rights.map { "\($0.count) rights" } ?? "the app's rights")"
            if user == name {
                report.add(.taken, at: line.place, text)
            } else {
                report.add(.changed, at: line.place, "\(text); messages know it as \(user)")
            }
        }
    }

    /// What the broker would say of a hash.
    private static func fault(of hash: String) -> String? {
        do throws(PasswordHashError) {
            _ = try PasswordHash(Array(hash.utf8))
            return nil
        } catch .unknownKind {
            return
                "the hash is of no known kind: $7$, $6$ or $argon2id$; for a plain password, run "
                + "mosquitto_passwd -U"
        } catch {
            return "\(error)"
        }
    }

    private static func fault(ofName name: String) -> String? {
        guard name.utf8.count <= SetPassword.nameByteCountMaximum,
            !name.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }), name != ".", name != ".."
        else {
            return "the name must have at most \(SetPassword.nameByteCountMaximum) bytes, "
                + "without control characters"
        }
        return nil
    }

    /// The id of a user: the name, with `_` for characters that separate topics.
    private static func userName(_ name: String) -> String {
        // Not by character: `/` and a combining mark are one.
        var user = String.UnicodeScalarView()
        var byteCount = 0
        for scalar in name.unicodeScalars {
            byteCount += UTF8.width(scalar)
            guard byteCount <= userByteCountMaximum else { break }
            user.append(["/", "+", "#"].contains(scalar) ? "_" : scalar)
        }
        return String(user)
    }

    private mutating func tellUnused(_ access: MosquittoAccess) {
        let names = Set(passwords.map { Array($0.name.utf8) })
        for user in access.users where !names.contains(Array(user.utf8)) {
            guard let entry = access.entries(of: user).first else { continue }
            report.add(
                .refused, at: entry.place,
                "user \(user) has topics and no password; give them to its token with --right")
        }
    }

    private mutating func takePreSharedKeys(_ path: MosquittoConfiguration.Value) {
        guard
            let file = ImportFile(path.text, "the file of pre-shared keys", report: &report)
        else { return }
        for line in file.lines where !line.text.hasPrefix("#") {
            // The key is no part of the report.
            guard let colon = line.text.lastIndex(of: ":"), colon > line.text.startIndex else {
                report.add(.refused, at: line.place, "the line is not IDENTITY:HEXKEY")
                continue
            }
            let identity = String(line.text[..<colon])
            let digits = line.text[line.text.index(after: colon)...]
            guard digits.utf8.count >= 32, digits.utf8.count.isMultiple(of: 2),
                digits.allSatisfy({ $0.isASCII && $0.isHexDigit })
            else {
                report.add(
                    .refused, at: line.place,
                    "the key of \(identity) must have at least 16 bytes in hexadecimal; take the "
                        + "line out of tls.pskFile, or martletd does not start")
                continue
            }
            if Self.userName(identity) != identity {
                report.add(
                    .refused, at: line.place,
                    "the identity \(identity) is no user: it must have at most 64 bytes, without "
                        + "/, + and #")
            } else {
                report.add(.taken, at: line.place, "identity \(identity)")
            }
        }
    }

    // MARK: - Store

    private mutating func take(_ store: MosquittoStore, of path: String, unixSeconds now: Int64) {
        for message in store.retained {
            guard message.payload.count <= Self.payloadByteCountMaximum else {
                report.add(
                    .refused, at: path,
                    "retained \(message.topic): \(message.payload.count) bytes, more than "
                        + "\(Self.payloadByteCountMaximum)")
                continue
            }
            if let expiry = message.expiresUnixSeconds, expiry <= now {
                report.add(.ignored, at: path, "retained \(message.topic): it has expired")
                continue
            }
            retained.append(message)
            retainedLines.append(report.lines.count)
            let differences = [
                (message.hasOtherProperties, "taken without its properties of MQTT 5"),
                (message.lacksContentType, Self.withoutContentType),
                (message.hasNumberAsTopic, "its topic is a number in the store, where 007 is 7"),
            ].filter(\.0).map(\.1)
            report.add(
                differences.isEmpty ? .taken : .changed, at: path,
                (["retained \(message.topic)"] + differences).joined(separator: ": "))
        }
        messages = store.messages
        let order = store.sessions.sorted { $0.key.lexicographicallyPrecedes($1.key) }
        for (client, session) in order {
            take(session, of: String(decoding: client, as: UTF8.self), path, unixSeconds: now)
        }
    }

    /// Mosquitto has answered these with PUBREC, and passes them on after PUBREL.
    private mutating func tellUnreleased(
        of session: StoredSession, _ client: String, _ path: String
    ) {
        guard !session.unreleased.isEmpty else { return }
        report.add(
            .refused, at: path,
            "\(session.unreleased.count) publications of client \(client) with QoS 2 that it has "
                + "not released (PUBREL), on \(topics(of: session.unreleased)); let it publish "
                + "them again")
    }

    /// The client has answered these with PUBREC. Clients that hand a message over at PUBREL, as
    /// Paho does, wait for one that no other broker sends [MQTT 5.0, 4.3.3].
    private mutating func tellUnfinished(
        of session: StoredSession, _ client: String, _ path: String
    ) {
        let unfinished = session.waiting.filter(\.isReceived)
        guard !unfinished.isEmpty else { return }
        report.add(
            .refused, at: path,
            "\(unfinished.count) messages of client \(client) with QoS 2 that it has received and "
                + "not completed (PUBREC without PUBCOMP), on "
                + "\(topics(of: unfinished.map(\.message)))"
                + "; let it connect to Mosquitto before, or publish them again")
    }

    /// Some topics of messages, and how many more there are.
    private func topics(of identifiers: [UInt64]) -> String {
        let topics = identifiers.prefix(Self.topicsInLine).map { identifier in
            messages[identifier].map { String(decoding: $0.topic, as: UTF8.self) } ?? "?"
        }
        let rest = identifiers.count - topics.count
        return topics.joined(separator: ", ") + (rest > 0 ? " and \(rest) more" : "")
    }

    /// Who has the sessions of a user name; nil if the name is not taken, and that of its user is
    /// or may be somebody else's.
    private func user(of name: String) -> String? {
        let bytes = Array(name.utf8)
        if let user = users[bytes] { return user }
        let isOwn = Self.userName(name).utf8.elementsEqual(bytes) && !takenUsers.contains(bytes)
        return isOwn ? name : nil
    }

    private mutating func take(
        _ session: StoredSession, of client: String, _ path: String, unixSeconds now: Int64
    ) {
        let text =
            "the session of client \(client) with \(session.filters.count) subscriptions and "
            + "\(session.waiting.count) queued messages"
        if session.expiresUnixSeconds > 0, session.expiresUnixSeconds <= now {
            report.add(.ignored, at: path, "\(text): it has expired")
            return
        }
        tellUnreleased(of: session, client, path)
        guard !session.userName.isEmpty else {
            report.add(
                .refused, at: path,
                "\(text): the store tells no user name; let it connect to Mosquitto before, and "
                    + "subscribe again after the move")
            return
        }
        guard session.filters.count <= ImportSession.filterCountMaximum else {
            report.add(
                .refused, at: path,
                "\(text): more than \(ImportSession.filterCountMaximum) subscriptions")
            return
        }
        guard let user = user(of: session.userName) else {
            report.add(
                .refused, at: path,
                "\(text): it is of user \(session.userName), who is not taken")
            return
        }
        tellUnfinished(of: session, client, path)
        var items: [SessionImport.Item] = []
        var (unsafe, late, strange, other, untyped, number) = (0, 0, 0, 0, 0, 0)
        for one in session.waiting where !one.isReceived {
            guard let message = messages[one.message], one.qos > 0 else {
                unsafe += 1
                continue
            }
            if message.payload.count > Self.payloadByteCountMaximum
                || message.topic.first == UInt8(ascii: "$") || !message.hasTopicName
            {
                strange += 1
            } else {
                // An expired one keeps its place: an interrupted import goes on at a place of the
                // list, whatever has expired meanwhile.
                if message.hasExpired(unixSeconds: now) {
                    late += 1
                } else {
                    if message.hasOtherProperties { other += 1 }
                    if message.lacksContentType { untyped += 1 }
                }
                if message.hasNumberAsTopic { number += 1 }
                items.append(SessionImport.Item(message: one.message, qos: one.qos))
            }
        }
        let filters = session.filters.filter(StoredSession.isSubscribable)
        let strangeFilters = session.filters.filter { !StoredSession.isSubscribable($0) }
            .map(StoredSession.filter)
        var differences = [
            (unsafe, "of QoS 0 or without a message"), (late, "expired"),
            (strange, "too large or on a topic that clients may not use"),
            (other, "without properties of MQTT 5"), (untyped, Self.withoutContentType),
            (number, "on a topic that is a number in the store, where 007 is 7"),
            (
                session.waiting.count { $0.mayBeReceived },
                "of QoS 2 without PUBREC, which come again"
            ),
        ].filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
        if !strangeFilters.isEmpty {
            let rest = strangeFilters.count - Self.topicsInLine
            differences.append(
                strangeFilters.prefix(Self.topicsInLine).joined(separator: ", ")
                    + (rest > 0 ? " and \(rest) more" : "") + " not subscribed")
        }
        sessionLines.append(report.lines.count)
        sessions.append(
            SessionImport(
                user: user, device: client, expirySeconds: session.expirySeconds.map { max(1, $0) },
                filters: filters, items: items))
        report.add(
            differences.isEmpty ? .taken : .changed, at: path,
            ([text] + differences).joined(separator: ", "))
    }
}
