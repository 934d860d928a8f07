// The database of Mosquitto's plugin persist-sqlite: what is taken, and what is refused.

import Foundation
import TestSurroundings
import Testing

@testable import martlet

@Suite("The import of a database of Mosquitto")
struct ImportDatabaseTests {
    private let files: TemporaryDirectory
    private var path: String { files.file("mosquitto.sqlite3") }

    init() throws { files = try TemporaryDirectory() }

    private func plan(
        store: String? = nil, settings: [String] = [], unixSeconds: Int64 = 1_000
    ) throws -> ImportPlan {
        let lines = ["listener 1883", "allow_anonymous true"] + settings
        try Data(lines.joined(separator: "\n").utf8)
            .write(to: URL(filePath: files.file("mosquitto.conf")))
        return ImportPlan(
            configuration: files.file("mosquitto.conf"),
            store: settings.isEmpty ? store ?? path : nil, app: "demo", unixSeconds: unixSeconds)
    }

    /// The lines of the report on the store, without its path.
    private func lines(_ plan: ImportPlan) -> [String] {
        plan.report.lines.filter { $0.place == path }.map { "\($0.verdict) \($0.text)" }
    }

    /// The names and contents of the files, except the configuration.
    private func contents() throws -> [String: Data] {
        let names = try FileManager.default.contentsOfDirectory(atPath: files.path)
        return try names.filter { $0 != "mosquitto.conf" }.reduce(into: [:]) {
            $0[$1] = try Data(contentsOf: URL(filePath: files.file($1)))
        }
    }

    private static func sample() -> PluginDatabase {
        var database = PluginDatabase()
        database.addMessage(1, topic: "site/a", payload: "one")
        database.addMessage(
            2, topic: "site/b", payload: "two", expires: 1_600,
            properties: """
                [{"identifier":"content-type","value":"text/plain"},\
                {"identifier":"payload-format-indicator","value":1}]
                """)
        database.addMessage(
            3, topic: "site/c", payload: "three",
            properties: #"[{"identifier":"user-property","name":"k","value":"v"}]"#)
        for (number, name) in ["a", "b", "c"].enumerated() {
            database.retain(number + 1, on: "site/\(name)")
        }
        database.addClient("sleeper", user: "ann", interval: 3_600, expires: 4_600)
        database.addClient("endless", user: "bob", interval: -1)
        database.addClient("nameless", user: nil)
        database.addSubscription("site/#", client: "sleeper", options: 0x2D, identifier: 7)
        database.addSubscription("$share/g/site/+", client: "sleeper")
        for (message, qos) in [(2, 1), (1, 2), (3, 1)] {
            database.addWaiting(message, client: "sleeper", qos: qos)
        }
        database.addWaiting(1, client: "endless", qos: 2, state: 7, isIncoming: true)
        database.addWaiting(2, client: "endless", qos: 2, state: 9)
        return database
    }

    @Test func `takes retained messages, sessions, subscriptions and queues`() throws {
        try Self.sample().write(to: path)
        let before = try contents()
        let plan = try plan()
        #expect(plan.retained.map(\.topic) == ["site/a", "site/b", "site/c"])
        #expect(
            plan.retained.map { String(decoding: $0.payload, as: UTF8.self) } == [
                "one", "two", "three",
            ])
        #expect(plan.retained.map(\.contentType) == [nil, "text/plain", nil])
        #expect(plan.retained.map(\.expiresUnixSeconds) == [nil, 1_600, nil])
        #expect(plan.sessions.map(\.device) == ["endless", "sleeper"])
        #expect(plan.sessions.map(\.user) == ["bob", "ann"])
        #expect(plan.sessions.map(\.expirySeconds) == [nil, 3_600])
        #expect(plan.sessions[1].filters == ["45\n7\nsite/#", "1\n0\n$share/g/site/+"])
        #expect(plan.sessions[1].items.map(\.message) == [2, 1, 3])
        #expect(plan.sessions[1].items.map(\.qos) == [1, 2, 1])
        #expect(plan.sessions[0].items.isEmpty)
        let message = try #require(plan.messages[2])
        #expect(message.item(qos: 1, unixSeconds: 1_000) == "1\n600\ntext/plain\ndHdv\nsite/b")
        #expect(
            lines(plan) == [
                "taken retained site/a", "taken retained site/b",
                "changed retained site/c: taken without its properties of MQTT 5",
                "refused 1 publications of client endless with QoS 2 that it has not released "
                    + "(PUBREL), on site/a; let it publish them again",
                "refused 1 messages of client endless with QoS 2 that it has received and not "
                    + "completed (PUBREC without PUBCOMP), on site/b; let it connect to Mosquitto "
                    + "before, or publish them again",
                "taken the session of client endless with 0 subscriptions and 1 queued messages",
                "refused the session of client nameless with 0 subscriptions and 0 queued "
                    + "messages: the store tells no user name; let it connect to Mosquitto before, "
                    + "and subscribe again after the move",
                "changed the session of client sleeper with 2 subscriptions and 3 queued messages, "
                    + "1 without properties of MQTT 5",
            ])
        #expect(try contents() == before)
    }

    @Test func `tells topics that the database has as numbers, and wills`() throws {
        var database = PluginDatabase()
        database.addMessage(1, topic: "007")
        database.retain(1, on: "007")
        database.addClient("c", user: "ann")
        database.addWaiting(1, client: "c")
        for number in 1...11 {
            database.run(
                "INSERT INTO wills VALUES ('w\(number + 10)', X'00', 't', 1, 1, 0, NULL);")
        }
        try database.write(to: path)
        #expect(
            lines(try plan()) == [
                "refused 11 wills not sent yet, of client w11, w12, w13, w14, w15, w16, w17, w18, "
                    + "w19, w20 and 1 more; a client brings its will again when it connects",
                "changed retained 7: its topic is a number in the store, where 007 is 7",
                "changed the session of client c with 0 subscriptions and 1 queued messages, 1 on "
                    + "a topic that is a number in the store, where 007 is 7",
            ])
    }

    @Test func `reads what a killed Mosquitto has left in the log, and leaves it there`() throws {
        try Self.sample().write(to: path, end: .kill)
        // As after a copy: SQLite makes this file again from the log.
        try FileManager.default.removeItem(atPath: path + "-shm")
        let before = try contents()
        #expect(before.keys.sorted() == ["mosquitto.sqlite3", "mosquitto.sqlite3-wal"])
        let plan = try plan()
        #expect(plan.retained.count == 3)
        #expect(plan.sessions.count == 2)
        #expect(try contents() == before)
    }

    @Test func `is refused while a process has it open`() throws {
        let writer = try Self.sample().write(to: path, end: .none)
        let plan = try plan()
        #expect(
            lines(plan) == [
                "refused the store is in use by process \(writer.identifier): stop it first; to "
                    + "try the import before, give --store a copy, which sqlite3 FILE '.backup "
                    + "COPY' makes; nothing of it is taken"
            ])
        #expect(plan.retained.isEmpty && plan.sessions.isEmpty)
        writer.end()
        #expect(try self.plan().retained.count == 3)
    }

    @Test(arguments: ["%20 ?#'\"", "\u{E9}\u{10348}"])
    func `is found by any path`(name: String) throws {
        let path = files.file(name)
        try Self.sample().write(to: path)
        let link = files.file("link")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
        #expect(try plan(store: path).retained.count == 3)
        #expect(try plan(store: link).retained.count == 3)
    }

    // MARK: - Damage

    @Test func `is taken as a whole, or not at all`() throws {
        var database = Self.sample()
        for number in 10...500 {
            database.addMessage(
                number, topic: "t/\(number)", payload: String(repeating: "x", count: 400))
        }
        try database.write(to: path)
        let whole = try Data(contentsOf: URL(filePath: path))
        for byteCount in [whole.count - 4_096, whole.count / 2, 8_192, 512, 100] {
            try whole.prefix(byteCount).write(to: URL(filePath: path))
            let plan = try plan()
            #expect(lines(plan).count == 1, "\(byteCount): \(lines(plan))")
            #expect(
                lines(plan).first?.hasPrefix("refused the store ") == true
                    && lines(plan).first?.hasSuffix("; nothing of it is taken") == true,
                "\(byteCount): \(lines(plan))")
            #expect(plan.retained.isEmpty && plan.sessions.isEmpty, "\(byteCount)")
        }
        // Every page in turn is garbage.
        for page in stride(from: 4_096, to: whole.count, by: 4_096) {
            var damaged = whole
            damaged.replaceSubrange(page..<page + 4_096, with: Data(repeating: 0xA5, count: 4_096))
            try damaged.write(to: URL(filePath: path))
            let plan = try plan()
            #expect(lines(plan).first?.hasPrefix("refused the store is damaged") == true, "\(page)")
            #expect(plan.retained.isEmpty && plan.sessions.isEmpty, "\(page)")
        }
    }

    @Test func `other databases and schemas are refused with a reason`() throws {
        func expect(
            _ words: String, schema: String = "1, 1, 0", _ statements: String...
        ) throws {
            var database = PluginDatabase(schema: schema)
            database.addMessage(1, topic: "t")
            database.retain(1, on: "t")
            statements.forEach { database.run($0) }
            try? FileManager.default.removeItem(atPath: path)
            try database.write(to: path)
            let plan = try plan()
            #expect(lines(plan) == ["refused the store \(words); nothing of it is taken"])
            #expect(plan.retained.isEmpty)
        }
        try expect(
            "has the schema 2.0; 1.0 and 1.1 are read, as Mosquitto 2.1 writes them",
            schema: "2, 0, 0")
        try expect(
            "has the schema 1.2; 1.0 and 1.1 are read, as Mosquitto 2.1 writes them",
            schema: "1, 2, 0")
        try expect("tells no version of its schema", "DELETE FROM version_info;")
        try expect(
            "is no store of Mosquitto: it has no table version_info", "DROP TABLE version_info;")
        try expect(
            "lacks columns of the table retains: store_id, topic", "DROP TABLE retains;")
        try expect(
            "lacks columns of the table clients: session_expiry_time",
            "ALTER TABLE clients RENAME COLUMN session_expiry_time TO other;")
    }

    /// A view is read like a table, and may have rows without an end.
    @Test func `what a query would compute is refused before it is read`() throws {
        func expect(_ words: String, _ statements: String...) throws {
            var database = Self.sample()
            statements.forEach { database.run($0) }
            try? FileManager.default.removeItem(atPath: path)
            try database.write(to: path)
            let plan = try plan()
            #expect(lines(plan) == ["refused the store \(words); nothing of it is taken"])
            #expect(plan.retained.isEmpty && plan.sessions.isEmpty)
        }
        let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
        let isOther = "has a view, a trigger or a virtual table, as Mosquitto has none: "
        try expect(
            isOther + "base_msgs", "DROP TABLE base_msgs;",
            "CREATE VIEW base_msgs AS \(endless) SELECT x AS store_id, 0 AS expiry_time, "
                + "'t' AS topic, zeroblob(400000000) AS payload, 400000000 AS payloadlen, "
                + "NULL AS properties FROM c;")
        try expect(
            isOther + "version_info", "DROP TABLE version_info;",
            "CREATE VIEW version_info AS \(endless) SELECT 'database_schema' AS component, "
                + "1 AS major, 1 AS minor FROM c WHERE x < 0;")
        // SQLite compares the type beside the text.
        try expect(
            "is damaged: malformed database schema (other)", "CREATE TABLE other (x);",
            "PRAGMA writable_schema=ON;",
            "UPDATE sqlite_schema SET sql = 'CREATE VIEW other AS SELECT 1', rootpage = 0 "
                + "WHERE name = 'other';")
        try expect(
            isOther + "wake",
            "CREATE TRIGGER wake AFTER INSERT ON retains BEGIN DELETE FROM clients; END;")
        let isComputed = "has a computed column, as Mosquitto has none: "
        try expect(
            isComputed + "clients.large",
            "ALTER TABLE clients ADD COLUMN large AS (zeroblob(400000000));")
        try expect(
            isComputed + "other.large",
            "CREATE TABLE other (x, large AS (zeroblob(9)) STORED);")
    }

    @Test func `the check of the pages evaluates nothing`() throws {
        var database = Self.sample()
        database.run("CREATE TABLE other (x CHECK (length(zeroblob(9)) > x));")
        database.run("PRAGMA ignore_check_constraints=ON;")
        database.run("INSERT INTO other VALUES (10);")
        try database.write(to: path)
        #expect(try plan().retained.count == 3)
    }

    /// What a query has thrown that reads bytes.
    private func failure(of query: String) throws -> String? {
        let file = try SQLiteFile(path, byteCountMaximum: 400_000)
        do throws(SQLiteFailure) {
            try file.rows(query) { row in _ = row.bytes(0) }
            return nil
        } catch {
            return error.text
        }
    }

    @Test func `values, their sum and the steps of a query are bounded`() throws {
        try Self.sample().write(to: path)
        let rows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 5) "
        #expect(try failure(of: rows + "SELECT zeroblob(80000) FROM c") == nil)
        #expect(
            try failure(of: rows + "SELECT zeroblob(80001) FROM c")
                == "has values of more than 400000 bytes")
        #expect(
            try failure(of: "SELECT zeroblob(268435457)")
                == "has a value of more than 268435456 bytes")
        let endless = rows.replacing(" LIMIT 5", with: "")
        let words = try failure(of: endless + "SELECT NULL FROM c WHERE x < 0")
        #expect(words?.hasPrefix("needs more than ") == true, "\(words ?? "nil")")
    }

    @Test func `a content type that is too long or has several lines is left out`() throws {
        var database = PluginDatabase()
        database.addClient("c", user: "ann")
        let types = [
            String(repeating: "c", count: 255), String(repeating: "c", count: 256), "a\\nb", "",
        ]
        for (number, type) in types.enumerated() {
            database.addMessage(
                number, topic: "t/\(number)",
                properties: #"[{"identifier":"content-type","value":"\#(type)"}]"#)
            database.retain(number, on: "t/\(number)")
            database.addWaiting(number, client: "c")
        }
        try database.write(to: path)
        let plan = try plan()
        #expect(plan.retained.map(\.contentType) == [types[0], nil, nil, nil])
        let words = "without the content type: more than 255 bytes, or control characters"
        #expect(
            lines(plan) == [
                "taken retained t/0", "changed retained t/1: \(words)",
                "changed retained t/2: \(words)", "taken retained t/3",
                "changed the session of client c with 0 subscriptions and 4 queued messages, "
                    + "2 \(words)",
            ])
        let message = try #require(plan.messages[1])
        #expect(message.item(qos: 1, unixSeconds: 0) == "1\n\n\neA==\nt/1")
    }

    @Test func `retained topics that are no topic names are refused`() throws {
        var database = PluginDatabase()
        database.addMessage(1, topic: "t")
        for topic in ["a/+", "", "good"] { database.retain(1, on: topic) }
        try database.write(to: path)
        #expect(
            lines(try plan()) == [
                "refused retained : it is no topic name",
                "refused retained a/+: it is no topic name", "taken retained good",
            ])
    }

    @Test func `the first schema has no wills`() throws {
        var database = PluginDatabase(schema: "1, 0, 0")
        database.run("DROP TABLE wills;")
        database.addMessage(1, topic: "t")
        database.retain(1, on: "t")
        try database.write(to: path)
        #expect(lines(try plan()) == ["taken retained t"])
    }

    @Test func `rows and columns that Mosquitto does not write are named`() throws {
        var database = Self.sample()
        for statement in [
            "ALTER TABLE clients ADD COLUMN colour TEXT;",
            "INSERT INTO base_msgs VALUES (9, 0, 't', 'text', 's', 'u', 4, 1, 1, 1, 0, NULL);",
            "INSERT INTO base_msgs VALUES (10, 0, 't', X'00', 's', 'u', 4, 1, 1, 1, 0, NULL);",
            "INSERT INTO base_msgs VALUES (11, 0, X'FF', X'00', 's', 'u', 1, 1, 1, 1, 0, NULL);",
            "INSERT INTO base_msgs VALUES "
                + "(12, 0, CAST(X'FF' AS TEXT), X'00', 's', 'u', 1, 1, 1, 1, 0, NULL);",
            "INSERT INTO base_msgs VALUES (13, 0, 'p', X'00', 's', 'u', 1, 1, 1, 1, 0, '{[');",
            "INSERT INTO retains VALUES ('lost', 99);", "INSERT INTO retains VALUES ('p', 13);",
            "INSERT INTO retains VALUES ('q', NULL);",
            "INSERT INTO subscriptions VALUES ('sleeper', CAST(X'FF' AS TEXT), 1, 0);",
            "INSERT INTO subscriptions VALUES ('sleeper', 'x', 'y', 0);",
            "INSERT INTO client_msgs VALUES ('sleeper', 1, 1, 0, 2, 1, 1, 0, 11, 0);",
            "INSERT INTO client_msgs VALUES ('sleeper', 1, 12, 0, 1, 1, 1, 0, 11, 0);",
            "INSERT INTO client_msgs VALUES ('sleeper', 1, 77, 0, 1, 1, 1, 0, 11, 0);",
        ] { database.run(statement) }
        try database.write(to: path)
        let plan = try plan()
        for line in [
            "refused the store has columns of another version, which are not read: clients.colour",
            "refused 3 rows of the table base_msgs: not as Mosquitto writes them",
            "refused 1 row of the table retains: not as Mosquitto writes them",
            "refused 2 rows of the table subscriptions: not as Mosquitto writes them",
            "refused 1 row of the table client_msgs: not as Mosquitto writes them",
            "refused retained lost: the store lacks its message",
            "changed retained p: taken without its properties of MQTT 5",
            "changed the session of client sleeper with 2 subscriptions and 5 queued messages, 1 "
                + "of QoS 0 or without a message, 1 too large or on a topic that clients may not "
                + "use, 1 without properties of MQTT 5",
        ] {
            #expect(lines(plan).contains(line), "\(line)\n\(lines(plan).joined(separator: "\n"))")
        }
        #expect(plan.sessions.last?.items.map(\.message) == [2, 1, 3])
    }

    // MARK: - Configuration

    private static let plugin = "plugin /usr/lib/mosquitto_persist_sqlite.so"

    @Test func `is where the configuration of the plugin says`() throws {
        try Self.sample().write(to: path)
        for settings in [
            [Self.plugin, "persistence_location \(files.path)"],
            [Self.plugin, "plugin_opt_flush_period 1", "plugin_opt_db_file \(path)"],
            ["plugin_load keep \(Self.plugin.dropFirst(7))", "plugin_opt_db_file \(path)"],
        ] {
            let plan = try plan(settings: settings)
            #expect(plan.retained.count == 3, "\(settings)\n\(plan.report.lines)")
            #expect(!plan.report.lines.contains { $0.text.contains("has no counterpart") })
            #expect(!plan.report.lines.contains { $0.text.contains("persistence is off") })
        }
        let without = try plan(settings: [Self.plugin])
        #expect(without.report.lines.contains { $0.text.contains("plugin: it keeps nothing") })
        // Options of other plugins are not its options.
        let other = try plan(
            settings: [Self.plugin, "plugin /usr/lib/other.so", "plugin_opt_db_file \(path)"])
        #expect(other.retained.isEmpty)
        #expect(other.report.lines.contains { $0.text.contains("plugin_opt_db_file has no") })
    }

    @Test func `is read in place of the other store, which is named`() throws {
        try Self.sample().write(to: path)
        let settings = [Self.plugin, "persistence true", "persistence_location \(files.path)/"]
        let alone = try self.plan(settings: settings)
        #expect(!alone.report.lines.contains { $0.place == files.file("mosquitto.db") })
        try Data().write(to: URL(filePath: files.file("mosquitto.db")))
        let plan = try plan(settings: settings)
        #expect(plan.retained.count == 3)
        let line = try #require(
            plan.report.lines.first { $0.place == files.file("mosquitto.db") })
        #expect(line.verdict == .refused && line.text.contains("another import with --store"))
    }
}
