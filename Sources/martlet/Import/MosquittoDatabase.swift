// Reads the database of Mosquitto's plugin persist-sqlite (Mosquitto 2.1), of the schemas 1.0 and
// 1.1. The columns that are read:
//
//     version_info    component 'database_schema', major, minor
//     base_msgs       a message, once for all who get it
//     retains         topic, store_id of its message
//     clients         a session
//     subscriptions   of a session; the options are those of SUBSCRIBE in MQTT 5
//     client_msgs     a message that a session has not completed, in the order of rowid
//     wills           since 1.1: those of connected clients, and of others until their delay ends

import FoundationEssentials

/// The database while it is read.
struct MosquittoDatabase {
    private(set) var messages: [UInt64: StoredMessage] = [:]
    private(set) var sessions: [[UInt8]: StoredSession] = [:]
    /// Topics with the ids of their messages.
    private(set) var retained: [(topic: [UInt8], isNumber: Bool, message: UInt64)] = []
    /// Of rows that are not as Mosquitto writes them: the table and how many there are.
    private(set) var brokenRows: [(table: String, count: Int)] = []
    private(set) var clientsWithWills: [[UInt8]] = []
    /// Columns of other versions.
    private(set) var unknownColumns: [String] = []

    private struct Table {
        let name: String
        let columns: Set<String>
        /// Columns that are not read.
        let others: Set<String>
    }

    private static let tables = [
        Table(
            name: "base_msgs",
            columns: ["store_id", "expiry_time", "topic", "payload", "payloadlen", "properties"],
            others: [
                "source_id", "source_username", "source_mid", "source_port", "qos", "retain",
            ]),
        Table(name: "retains", columns: ["topic", "store_id"], others: []),
        Table(
            name: "clients",
            columns: ["client_id", "username", "session_expiry_time", "session_expiry_interval"],
            others: [
                "connection_time", "will_delay_time", "listener_port", "max_packet_size", "max_qos",
                "retain_available", "will_delay_interval",
            ]),
        Table(
            name: "subscriptions",
            columns: ["client_id", "topic", "subscription_options", "subscription_identifier"],
            others: []),
        Table(
            name: "client_msgs",
            columns: ["client_id", "store_id", "direction", "qos", "state"],
            others: ["cmsg_id", "dup", "mid", "retain", "subscription_identifier"]),
    ]
    private static let wills = Table(
        name: "wills", columns: ["client_id"],
        others: ["payload", "topic", "payloadlen", "qos", "retain", "properties"])

    init(_ file: borrowing SQLiteFile) throws(SQLiteFailure) {
        try file.check()
        try checkSchema(file)
        try readMessages(file)
        try readSessions(file)
        try readQueues(file)
        try file.checkUnchanged()
    }

    // MARK: - Schema

    private mutating func checkSchema(_ file: borrowing SQLiteFile) throws(SQLiteFailure) {
        guard try !columns(of: "version_info", file).isEmpty else {
            throw SQLiteFailure(
                text: "is no store of Mosquitto: it has no table version_info")
        }
        var version: (major: Int64, minor: Int64)?
        try file.rows(
            "SELECT major, minor FROM version_info WHERE component = 'database_schema'"
        ) { row in
            if let major = row.integer(0), let minor = row.integer(1) { version = (major, minor) }
        }
        guard let version else {
            throw SQLiteFailure(text: "tells no version of its schema")
        }
        guard version.major == 1, version.minor <= 1 else {
            throw SQLiteFailure(
                text: "has the schema \(version.major).\(version.minor); 1.0 and 1.1 are read, as "
                    + "Mosquitto 2.1 writes them")
        }
        for table in Self.tables + (version.minor == 1 ? [Self.wills] : []) {
            let found = try columns(of: table.name, file)
            let missing = table.columns.subtracting(found).sorted()
            guard missing.isEmpty else {
                throw SQLiteFailure(
                    text: "lacks columns of the table \(table.name): "
                        + missing.joined(separator: ", "))
            }
            unknownColumns += found.subtracting(table.columns).subtracting(table.others).sorted()
                .map { "\(table.name).\($0)" }
        }
        guard version.minor == 1 else { return }
        try file.rows("SELECT client_id FROM wills ORDER BY client_id") { row in
            clientsWithWills.append(row.text(0) ?? [])
        }
    }

    private func columns(
        of table: String, _ file: borrowing SQLiteFile
    ) throws(SQLiteFailure) -> Set<String> {
        var names: Set<String> = []
        try file.rows("SELECT name FROM pragma_table_info('\(table)')") { row in
            names.insert(String(decoding: row.text(0) ?? [], as: UTF8.self))
        }
        return names
    }

    /// Notes the rows of a table that were not taken.
    private mutating func note(_ count: Int, in table: String) {
        if count > 0 { brokenRows.append((table, count)) }
    }

    // MARK: - Rows

    private mutating func readMessages(_ file: borrowing SQLiteFile) throws(SQLiteFailure) {
        var brokenCount = 0
        try file.rows(
            "SELECT store_id, expiry_time, topic, payload, payloadlen, properties FROM base_msgs"
        ) { row in
            guard let identifier = row.integer(0), let expires = row.integer(1),
                let topic = row.text(2), let payload = row.bytes(3),
                row.integer(4) == Int64(payload.count)
            else {
                brokenCount += 1
                return
            }
            let properties =
                row.isNull(5)
                ? (contentType: nil, hasOthers: false) : Self.properties(row.text(5) ?? [])
            messages[UInt64(bitPattern: identifier)] = StoredMessage(
                topic: topic[...], hasNumberAsTopic: row.isNumber(2), payload: payload[...],
                contentType: properties.contentType, hasOtherProperties: properties.hasOthers,
                expiresUnixSeconds: expires)
        }
        note(brokenCount, in: "base_msgs")
        brokenCount = 0
        try file.rows("SELECT topic, store_id FROM retains ORDER BY topic") { row in
            guard let topic = row.text(0), let identifier = row.integer(1) else {
                brokenCount += 1
                return
            }
            retained.append((topic, row.isNumber(0), UInt64(bitPattern: identifier)))
        }
        note(brokenCount, in: "retains")
    }

    private mutating func readSessions(_ file: borrowing SQLiteFile) throws(SQLiteFailure) {
        var brokenCount = 0
        try file.rows(
            "SELECT client_id, username, session_expiry_time, session_expiry_interval FROM clients"
        ) { row in
            guard let client = Self.name(row, 0), let expires = row.integer(2),
                let interval = row.integer(3),
                let user = row.isNull(1)
                    ? "" : row.text(1).flatMap({ String(validating: $0, as: UTF8.self) })
            else {
                brokenCount += 1
                return
            }
            var session = StoredSession()
            session.userName = user
            // The largest number, which is none, is written as -1.
            let seconds = UInt32(truncatingIfNeeded: interval)
            session.expirySeconds = seconds == .max ? nil : seconds
            session.expiresUnixSeconds = expires
            sessions[client] = session
        }
        note(brokenCount, in: "clients")
        brokenCount = 0
        try file.rows(
            "SELECT client_id, topic, subscription_options, subscription_identifier "
                + "FROM subscriptions ORDER BY rowid"
        ) { row in
            guard let client = Self.name(row, 0),
                let filter = row.text(1).flatMap({ String(validating: $0, as: UTF8.self) }),
                let options = row.integer(2).flatMap(UInt8.init(exactly:)),
                let identifier = row.isNull(3)
                    ? 0 : row.integer(3).flatMap(UInt32.init(exactly:))
            else {
                brokenCount += 1
                return
            }
            sessions[client, default: StoredSession()].filters.append(
                "\(options & 0x3F)\n\(identifier)\n\(filter)")
        }
        note(brokenCount, in: "subscriptions")
    }

    private mutating func readQueues(_ file: borrowing SQLiteFile) throws(SQLiteFailure) {
        var brokenCount = 0
        try file.rows(
            "SELECT client_id, store_id, direction, qos, state FROM client_msgs ORDER BY rowid"
        ) { row in
            guard let client = Self.name(row, 0), let message = row.integer(1),
                let direction = row.integer(2), (0...1).contains(direction),
                let qos = row.integer(3), (0...2).contains(qos),
                let state = row.integer(4).flatMap(UInt8.init(exactly:))
            else {
                brokenCount += 1
                return
            }
            sessions[client, default: StoredSession()].add(
                UInt64(bitPattern: message), isOutgoing: direction == 1, qos: UInt8(qos),
                state: state)
        }
        note(brokenCount, in: "client_msgs")
    }

    /// A client id; nil if it is no text.
    private static func name(_ row: borrowing SQLiteFile.Row, _ column: Int32) -> [UInt8]? {
        guard let bytes = row.text(column), String(validating: bytes, as: UTF8.self) != nil else {
            return nil
        }
        return bytes
    }

    // MARK: - Properties

    /// A property of MQTT 5 as the plugin writes it:
    /// `{"identifier":"content-type","value":"text/plain"}`.
    private struct Property: Decodable {
        let identifier: String
        let text: String?

        private enum Key: CodingKey { case identifier, value }

        init(from decoder: any Decoder) throws {
            let members = try decoder.container(keyedBy: Key.self)
            identifier = try members.decode(String.self, forKey: .identifier)
            text = try? members.decode(String.self, forKey: .value)
        }
    }

    /// The content type among properties, and whether there are others that are not taken.
    private static func properties(_ json: [UInt8]) -> (contentType: String?, hasOthers: Bool) {
        guard let properties = try? JSONDecoder().decode([Property].self, from: Data(json)) else {
            return (nil, true)
        }
        let type = properties.first { $0.identifier == "content-type" }?.text
        let hasOthers = properties.contains {
            !["content-type", "payload-format-indicator"].contains($0.identifier)
        }
        return (type, hasOthers)
    }
}

extension MosquittoStore {
    /// Clients that a line of the report names.
    private static let clientsInLine = 10

    /// Reads a database as a whole, or nothing of it.
    init?(database path: String, byteCountMaximum: Int, report: inout ImportReport) {
        let database: MosquittoDatabase
        do throws(SQLiteFailure) {
            database = try MosquittoDatabase(
                SQLiteFile(path, byteCountMaximum: byteCountMaximum))
        } catch {
            report.add(.refused, at: path, "the store \(error.text); nothing of it is taken")
            return nil
        }
        self.init(messages: database.messages, sessions: database.sessions)
        if !database.unknownColumns.isEmpty {
            report.add(
                .refused, at: path,
                "the store has columns of another version, which are not read: "
                    + database.unknownColumns.joined(separator: ", "))
        }
        for (table, count) in database.brokenRows {
            report.add(
                .refused, at: path,
                "\(counted(count, "row")) of the table \(table): not as Mosquitto writes them")
        }
        let clients = database.clientsWithWills
        if !clients.isEmpty {
            let names = clients.prefix(Self.clientsInLine).map {
                String(decoding: $0, as: UTF8.self)
            }
            let rest = clients.count - names.count
            report.add(
                .refused, at: path,
                "\(counted(clients.count, "will")) not sent yet, of client "
                    + names.joined(separator: ", ") + (rest > 0 ? " and \(rest) more" : "")
                    + "; a client brings its will again when it connects")
        }
        for (topic, isNumber, identifier) in database.retained {
            guard let message = database.messages[identifier] else {
                report.add(
                    .refused, at: path,
                    "retained \(String(decoding: topic, as: UTF8.self)): the store lacks its "
                        + "message")
                continue
            }
            retain(
                message.on(topic: topic, isNumber: isNumber), path: path, report: &report)
        }
    }
}

extension StoredMessage {
    /// The same with the topic that it is retained on.
    fileprivate func on(topic: [UInt8], isNumber: Bool) -> StoredMessage {
        StoredMessage(
            topic: topic[...], hasNumberAsTopic: isNumber, payload: payload,
            contentType: contentType, hasOtherProperties: hasOtherProperties,
            expiresUnixSeconds: expiresUnixSeconds)
    }
}
