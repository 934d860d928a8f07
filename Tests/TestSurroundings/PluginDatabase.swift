// A database as Mosquitto's plugin persist-sqlite writes it, made by Python's sqlite3. The names
// and the types of the columns are those of Mosquitto 2.1.2.

import Foundation

/// A database of the plugin in the making.
public struct PluginDatabase {
    private var statements: [String]

    public init(schema: String = "1, 1, 0") {
        statements = [
            """
            CREATE TABLE base_msgs (store_id INT64 PRIMARY KEY, expiry_time INT64,
              topic STRING NOT NULL, payload BLOB, source_id STRING, source_username STRING,
              payloadlen INTEGER, source_mid INTEGER, source_port INTEGER, qos INTEGER,
              retain INTEGER, properties STRING);
            CREATE TABLE retains (topic STRING PRIMARY KEY, store_id INT64);
            CREATE TABLE clients (client_id TEXT PRIMARY KEY, username TEXT, connection_time INT64,
              will_delay_time INT64, session_expiry_time INT64, listener_port INT,
              max_packet_size INT, max_qos INT, retain_available INT, session_expiry_interval INT,
              will_delay_interval INT);
            CREATE TABLE subscriptions (client_id TEXT NOT NULL, topic TEXT NOT NULL,
              subscription_options INTEGER, subscription_identifier INTEGER,
              PRIMARY KEY (client_id, topic));
            CREATE TABLE client_msgs (client_id TEXT NOT NULL, cmsg_id INT64, store_id INT64,
              dup INTEGER, direction INTEGER, mid INTEGER, qos INTEGER, retain INTEGER,
              state INTEGER, subscription_identifier INTEGER);
            CREATE INDEX client_msgs_client_id ON client_msgs(client_id);
            CREATE INDEX client_msgs_store_id ON client_msgs(store_id, client_id);
            CREATE INDEX retains_storeid ON retains(store_id);
            CREATE TABLE wills (client_id TEXT PRIMARY KEY, payload BLOB, topic STRING NOT NULL,
              payloadlen INTEGER, qos INTEGER, retain INTEGER, properties STRING);
            CREATE TABLE version_info (component TEXT NOT NULL, major INTEGER NOT NULL,
              minor INTEGER NOT NULL, patch INTEGER NOT NULL);
            """, "INSERT INTO version_info VALUES ('database_schema', \(schema));",
        ]
    }

    public mutating func run(_ statement: String) { statements.append(statement) }

    private static func quoted(_ text: String) -> String {
        "'\(text.replacing("'", with: "''"))'"
    }

    /// - Parameters:
    ///   - expires: Unix seconds; 0 for none.
    ///   - properties: as the plugin writes them, in JSON; nil for none.
    public mutating func addMessage(
        _ identifier: Int, topic: String, payload: String = "x", expires: Int = 0,
        properties: String? = nil
    ) {
        let digits = payload.utf8.map { String(format: "%02X", $0) }.joined()
        run(
            "INSERT INTO base_msgs VALUES (\(identifier), \(expires), \(Self.quoted(topic)), "
                + "\(payload.isEmpty ? "NULL" : "X'\(digits)'"), 'sender', 'ann', "
                + "\(payload.utf8.count), 1, 1883, 1, 0, "
                + "\(properties.map(Self.quoted) ?? "NULL"));")
    }

    public mutating func retain(_ message: Int, on topic: String) {
        run("INSERT INTO retains VALUES (\(Self.quoted(topic)), \(message));")
    }

    /// - Parameters:
    ///   - user: nil for a client without a user name.
    ///   - interval: seconds; -1 for a session that does not expire.
    ///   - expires: Unix seconds; 0 for none.
    public mutating func addClient(
        _ client: String, user: String?, interval: Int = 3_600, expires: Int = 0
    ) {
        run(
            "INSERT INTO clients VALUES (\(Self.quoted(client)), "
                + "\(user.map(Self.quoted) ?? "NULL"), 1, 0, \(expires), 1883, 0, 2, 1, "
                + "\(interval), 0);")
    }

    public mutating func addSubscription(
        _ filter: String, client: String, options: Int = 1, identifier: Int = 0
    ) {
        run(
            "INSERT INTO subscriptions VALUES (\(Self.quoted(client)), \(Self.quoted(filter)), "
                + "\(options), \(identifier));")
    }

    /// A message that waits for a client, or that a client has not completed.
    public mutating func addWaiting(
        _ message: Int, client: String, qos: Int = 1, state: Int = 11, isIncoming: Bool = false
    ) {
        run(
            "INSERT INTO client_msgs VALUES (\(Self.quoted(client)), 1, \(message), 0, "
                + "\(isIncoming ? 0 : 1), 1, \(qos), 0, \(state), 0);")
    }

    // MARK: - Files

    /// How the process ends that writes the database.
    public enum End: String {
        /// The log of the database is a part of it then.
        case clean = "connection.close()"
        /// The log stays beside it.
        case kill = "os.kill(os.getpid(), 9)"
        /// It does not end before ``Writer/end()``.
        case none = "print('ready', flush=True); sys.stdin.read()"
    }

    /// The process that has written a database.
    public final class Writer {
        fileprivate let process = Process()
        fileprivate let input = Pipe()
        fileprivate let output = Pipe()

        public var identifier: Int32 { process.processIdentifier }

        public func end() {
            try? input.fileHandleForWriting.close()
            process.waitUntilExit()
        }

        deinit { if process.isRunning { process.terminate() } }
    }

    /// Writes the database with a write-ahead log, as the plugin does.
    @discardableResult
    public func write(to path: String, end: End = .clean) throws -> Writer {
        let script = path + ".sql"
        try Data(statements.joined(separator: "\n").utf8).write(to: URL(filePath: script))
        let writer = Writer()
        writer.process.executableURL = URL(filePath: "/usr/bin/python3")
        writer.process.arguments = [
            "-c",
            """
            import os, sqlite3, sys
            connection = sqlite3.connect(sys.argv[1])
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript("BEGIN;" + open(sys.argv[2]).read() + "COMMIT;")
            \(end.rawValue)
            """, path, script,
        ]
        writer.process.standardInput = writer.input
        writer.process.standardOutput = writer.output
        try writer.process.run()
        if end == .none {
            _ = writer.output.fileHandleForReading.availableData
        } else {
            writer.process.waitUntilExit()
        }
        try FileManager.default.removeItem(atPath: script)
        guard FileManager.default.fileExists(atPath: path) else {
            throw Failure(description: "python3 has written no database at \(path)")
        }
        return writer
    }

    private struct Failure: Error, CustomStringConvertible {
        let description: String
    }
}
