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
        /// In the order of a query.
        let columns: [String]
        /// Columns that are not read.
        let others: Set<String>

        static let messages = Table(
            name: "base_msgs",
            columns: ["store_id", "expiry_time", "topic", "payload", "payloadlen", "properties"],
            others: [
                "source_id", "source_username", "source_mid", "source_port", "qos", "retain",
            ])
        static let retained = Table(name: "retains", columns: ["topic", "store_id"], others: [])
        static let clients = Table(
            name: "clients",
            columns: ["client_id", "username", "session_expiry_time", "session_expiry_interval"],
            others: [
                "connection_time", "will_delay_time", "listener_port", "max_packet_size", "max_qos",
                "retain_available", "will_delay_interval",
            ])
        static let subscriptions = Table(
            name: "subscriptions",
            columns: ["client_id", "topic", "subscription_options", "subscription_identifier"],
            others: [])
        static let waiting = Table(
            name: "client_msgs",
            columns: ["client_id", "store_id", "direction", "qos", "state"],
            others: ["cmsg_id", "dup", "mid", "retain", "subscription_identifier"])
        /// Of the schema 1.1.
        static let wills = Table(
            name: "wills", columns: ["client_id"],
            others: ["payload", "topic", "payloadlen", "qos", "retain", "properties"])
    }

    init(_ file: borrowing SQLiteFile) throws(SQLiteFailure) {
        let tables = try file.tables()
        try file.check()
        try checkSchema(tables, file)
        try readMessages(file)
        try readSessions(file)
        try readQueues(file)
        try file.checkUnchanged()
    }

    // MARK: - Schema

    /// - Parameter found: as ``SQLiteFile/tables()``.
    private mutating func checkSchema(
        _ found: [String: Set<String>], _ file: borrowing SQLiteFile
    ) throws(SQLiteFailure) {
        guard found["version_info"] != nil else {
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
        let hasWills = version.minor == 1
        let tables: [Table] = [.messages, .retained, .clients, .subscriptions, .waiting]
        for table in tables + (hasWills ? [Table.wills] : []) {
            let columns = found[table.name] ?? []
            let missing = Set(table.columns).subtracting(columns).sorted()
            guard missing.isEmpty else {
                throw SQLiteFailure(
                    text: "lacks columns of the table \(table.name): "
                        + missing.joined(separator: ", "))
            }
            // It would hide the number by which the rows lie in their order.
            guard !columns.contains(where: { $0.lowercased() == "rowid" }) else {
                throw SQLiteFailure(text: "has a column rowid in the table \(table.name)")
            }
            unknownColumns += columns.subtracting(table.columns).subtracting(table.others).sorted()
                .map { "\(table.name).\($0)" }
        }
        guard hasWills else { return }
        try read(.wills, file) { database, row in
            database.clientsWithWills.append(row.text(0) ?? [])
            return true
        }
        clientsWithWills.sort { $0.lexicographicallyPrecedes($1) }
    }

    // MARK: - Rows

    /// Calls a function with each row of a table, and notes how many it does not take: for these
    /// it returns false.
    ///
    /// - Parameter isInOrder: whether the order is that of their insertion. No other is asked for:
    ///   SQLite would sort all rows, with the defaults that are in no row, before it returns the
    ///   first one.
    private mutating func read(
        _ table: Table, _ file: borrowing SQLiteFile, isInOrder: Bool = false,
        _ body: (inout MosquittoDatabase, borrowing SQLiteFile.Row) -> Bool
    ) throws(SQLiteFailure) {
        var brokenCount = 0
        try file.rows(
            "SELECT \(table.columns.joined(separator: ", ")) FROM \(table.name)"
                + (isInOrder ? " ORDER BY rowid" : "")
        ) { row in
            if !body(&self, row) { brokenCount += 1 }
        }
        if brokenCount > 0 { brokenRows.append((table.name, brokenCount)) }
    }

    private mutating func readMessages(_ file: borrowing SQLiteFile) throws(SQLiteFailure) {
        try read(.messages, file) { database, row in
            guard let identifier = row.integer(0), let expires = row.integer(1),
                let topic = row.text(2), let payload = row.bytes(3),
                row.integer(4) == Int64(payload.count)
            else { return false }
            let properties =
                row.isNull(5)
                ? (contentType: nil, hasOthers: false) : Self.properties(row.text(5) ?? [])
            database.messages[UInt64(bitPattern: identifier)] = StoredMessage(
                topic: topic[...], hasNumberAsTopic: row.isNumber(2), payload: payload[...],
                contentType: properties.contentType, hasOtherProperties: properties.hasOthers,
                expiresUnixSeconds: expires)
            return true
        }
        try read(.retained, file) { database, row in
            guard let topic = row.text(0), let identifier = row.integer(1) else { return false }
            database.retained.append((topic, row.isNumber(0), UInt64(bitPattern: identifier)))
            return true
        }
        retained.sort { $0.0.lexicographicallyPrecedes($1.0) }
    }

    private mutating func readSessions(_ file: borrowing SQLiteFile) throws(SQLiteFailure) {
        try read(.clients, file) { database, row in
            guard let client = row.string(0), let expires = row.integer(2),
                let interval = row.integer(3), let user = row.isNull(1) ? "" : row.string(1)
            else { return false }
            var session = StoredSession()
            session.userName = user
            // The largest number, which is none, is written as -1.
            let seconds = UInt32(truncatingIfNeeded: interval)
            session.expirySeconds = seconds == .max ? nil : seconds
            session.expiresUnixSeconds = expires
            database.sessions[Array(client.utf8)] = session
            return true
        }
        try read(.subscriptions, file, isInOrder: true) { database, row in
            guard let client = row.string(0), let filter = row.string(1),
                let options = row.integer(2).flatMap(UInt8.init(exactly:)),
                let identifier = row.isNull(3)
                    ? 0 : row.integer(3).flatMap(UInt32.init(exactly:))
            else { return false }
            database.sessions[Array(client.utf8), default: StoredSession()].filters.append(
                "\(options & 0x3F)\n\(identifier)\n\(filter)")
            return true
        }
    }

    private mutating func readQueues(_ file: borrowing SQLiteFile) throws(SQLiteFailure) {
        try read(.waiting, file, isInOrder: true) { database, row in
            guard let client = row.string(0), let message = row.integer(1),
                let direction = row.integer(2), (0...1).contains(direction),
                let qos = row.integer(3), (0...2).contains(qos),
                let state = row.integer(4).flatMap(UInt8.init(exactly:))
            else { return false }
            database.sessions[Array(client.utf8), default: StoredSession()].add(
                UInt64(bitPattern: message), isOutgoing: direction == 1, qos: UInt8(qos),
                state: state)
            return true
        }
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
