// The store of a Mosquitto from the database of its plugin persist-sqlite.

extension MosquittoStore {
    /// Clients that a line of the report names.
    private static let clientsInLine = 10

    /// Reads a database as a whole, or nothing of it.
    init?(database path: String, report: inout ImportReport) {
        let database: MosquittoDatabase
        do throws(SQLiteFailure) {
            database = try MosquittoDatabase(
                SQLiteFile(path, byteCountMaximum: Self.byteCountMaximum))
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
            lacksContentType: lacksContentType, expiresUnixSeconds: expiresUnixSeconds)
    }
}
