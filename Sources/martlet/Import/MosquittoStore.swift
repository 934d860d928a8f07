// Reads the store of a Mosquitto: what is retained, and what waits for whom. It is a database of
// the plugin persist-sqlite (MosquittoDatabase.swift), or mosquitto.db of Mosquitto 1.6 to 2.1
// (format 5 and 6). There, numbers are in network order, except identifiers and times:
//
//     00 B5 00 "mosquitto db"   crc:4   version:4   then chunks: kind:4 length:4 bytes:length

/// A retained message.
struct RetainedImport {
    let topic: String
    let payload: [UInt8]
    /// Unix seconds; nil for none.
    let expiresUnixSeconds: Int64?
    let contentType: String?
    /// Whether it has properties of MQTT 5 that are not taken.
    let hasOtherProperties: Bool
    /// As ``StoredMessage/lacksContentType``.
    let lacksContentType: Bool
    /// As ``StoredMessage/hasNumberAsTopic``.
    let hasNumberAsTopic: Bool
}

/// The contents of a store.
struct MosquittoStore {
    private(set) var retained: [RetainedImport] = []
    /// By the bytes of the client id: texts that only look the same are equal in Swift.
    private(set) var sessions: [[UInt8]: StoredSession] = [:]
    private(set) var messages: [UInt64: StoredMessage] = [:]

    private static let magic = [0x00, 0xB5, 0x00] + Array("mosquitto db".utf8)
    /// Bytes of a store: a million messages of a kilobyte.
    static let byteCountMaximum = 2 << 30

    /// The kinds of chunks, DB_CHUNK_CFG to DB_CHUNK_CLIENT in src/persist.h of Mosquitto 2.0.
    private enum ChunkKind: UInt64 {
        case configuration = 1
        case message = 2
        case clientMessage = 3
        case retained = 4
        case subscription = 5
        case client = 6
    }

    /// What ends the reading of a file.
    private struct Damage: Error {
        let text: String
    }

    init(messages: [UInt64: StoredMessage], sessions: [[UInt8]: StoredSession]) {
        self.messages = messages
        self.sessions = sessions
    }

    init?(_ path: String, report: inout ImportReport) {
        if ImportFile.begins(path, with: SQLiteFile.magic) {
            self.init(database: path, report: &report)
            return
        }
        self.init(messages: [:], sessions: [:])
        guard
            let bytes = ImportFile.read(
                path, "the store", report: &report, byteCountMaximum: Self.byteCountMaximum)
        else { return nil }
        do throws(Damage) {
            try read(bytes, path, report: &report)
        } catch {
            report.add(
                .refused, at: path, "\(error.text); what stands before it is taken, the rest is not"
            )
        }
    }

    private mutating func read(
        _ bytes: [UInt8], _ path: String, report: inout ImportReport
    ) throws(Damage) {
        guard bytes.starts(with: Self.magic), bytes.count >= 23 else {
            throw Damage(text: "the file is no store of Mosquitto")
        }
        let version = Self.number(bytes[19..<23])
        guard version == 5 || version == 6 else {
            throw Damage(
                text: "the store has format \(version); 5 and 6 are read, as Mosquitto 1.6 and "
                    + "later write it")
        }
        var offset = 23
        while offset < bytes.count {
            guard bytes.count - offset >= 8 else {
                throw Damage(text: "the store ends within a chunk at byte \(offset)")
            }
            let kind = Self.number(bytes[offset..<offset + 4])
            let length = Int(Self.number(bytes[offset + 4..<offset + 8]))
            guard bytes.count - offset - 8 >= length else {
                throw Damage(text: "the store ends within a chunk at byte \(offset)")
            }
            let chunk = bytes[(offset + 8)..<(offset + 8 + length)]
            guard let kind = ChunkKind(rawValue: kind),
                take(kind, chunk, version: version, path: path, report: &report)
            else {
                throw Damage(text: "the store has a broken chunk at byte \(offset)")
            }
            offset += 8 + length
        }
    }

    /// Takes a chunk. Returns false if it is broken.
    private mutating func take(
        _ kind: ChunkKind, _ chunk: ArraySlice<UInt8>, version: UInt64, path: String,
        report: inout ImportReport
    ) -> Bool {
        switch kind {
        case .configuration: return true
        case .message:
            guard let (identifier, message) = Self.message(chunk) else { return false }
            messages[identifier] = message
        case .clientMessage:
            guard chunk.count >= 16 else { return false }
            let count = Int(Self.number(chunk.at(10, 2)))
            guard let name = chunk.name(16, count) else { return false }
            sessions[name, default: StoredSession()].add(
                Self.native(chunk.at(0, 8)), isOutgoing: chunk[chunk.startIndex + 15] == 1,
                qos: chunk[chunk.startIndex + 12], state: chunk[chunk.startIndex + 13])
        case .retained:
            guard chunk.count >= 8 else { return false }
            if let message = messages[Self.native(chunk.at(0, 8))] {
                retain(message, path: path, report: &report)
            }
        case .subscription:
            guard chunk.count >= 12 else { return false }
            let count = Int(Self.number(chunk.at(4, 2)))
            guard let name = chunk.name(12, count),
                let filter = chunk.text(12 + count, Int(Self.number(chunk.at(6, 2))))
            else { return false }
            // Options as in a SUBSCRIBE of MQTT 5: no-local, retain-as-published, retain handling.
            let options = chunk[chunk.startIndex + 8] & 0x03 | chunk[chunk.startIndex + 9] & 0x3C
            sessions[name, default: StoredSession()].filters.append(
                "\(options)\n\(Self.number(chunk.at(0, 4)))\n\(filter)")
        case .client:
            let start = version == 6 ? 24 : 16
            guard chunk.count >= start else { return false }
            let count = Int(Self.number(chunk.at(version == 6 ? 14 : 10, 2)))
            guard let name = chunk.name(start, count) else { return false }
            guard version == 6 else {
                sessions[name] = sessions[name] ?? StoredSession()
                return true
            }
            let userCount = Int(Self.number(chunk.at(18, 2)))
            guard let user = chunk.text(start + count, userCount) else { return false }
            let interval = UInt32(truncatingIfNeeded: Self.number(chunk.at(8, 4)))
            sessions[name, default: StoredSession()].userName = user
            sessions[name]?.expirySeconds = interval == .max ? nil : interval
            sessions[name]?.expiresUnixSeconds = Int64(bitPattern: Self.native(chunk.at(0, 8)))
        }
        return true
    }

    private static func message(_ chunk: ArraySlice<UInt8>) -> (UInt64, StoredMessage)? {
        guard chunk.count >= 32 else { return nil }
        let payloadCount = Int(number(chunk.at(16, 4)))
        let start = 32 + Int(number(chunk.at(22, 2))) + Int(number(chunk.at(24, 2)))
        let topicCount = Int(number(chunk.at(26, 2)))
        guard chunk.count >= start + topicCount + payloadCount else { return nil }
        let (type, hasOthers) = contentType(chunk.dropFirst(start + topicCount + payloadCount))
        return (
            native(chunk.at(0, 8)),
            StoredMessage(
                topic: chunk.at(start, topicCount), hasNumberAsTopic: false,
                payload: chunk.at(start + topicCount, payloadCount), contentType: type,
                hasOtherProperties: hasOthers,
                expiresUnixSeconds: Int64(bitPattern: native(chunk.at(8, 8))))
        )
    }

    /// Takes a message that is retained on its topic, or reports why not.
    mutating func retain(
        _ message: StoredMessage, path: String, report: inout ImportReport
    ) {
        guard let topic = String(validating: message.topic, as: UTF8.self) else {
            report.add(.refused, at: path, "a retained message: its topic is no UTF-8")
            return
        }
        if topic.utf8.first == UInt8(ascii: "$") {
            report.add(.ignored, at: path, "retained \(topic): topics with $ are the broker's own")
            return
        }
        guard message.hasTopicName else {
            report.add(.refused, at: path, "retained \(topic): it is no topic name")
            return
        }
        if message.payload.isEmpty { return }
        retained.append(
            RetainedImport(
                topic: topic, payload: Array(message.payload),
                expiresUnixSeconds: message.expiresUnixSeconds > 0
                    ? message.expiresUnixSeconds : nil,
                contentType: message.contentType, hasOtherProperties: message.hasOtherProperties,
                lacksContentType: message.lacksContentType,
                hasNumberAsTopic: message.hasNumberAsTopic))
    }

    /// The content type among properties of MQTT 5, if it comes before one that is not taken, and
    /// whether there is such a one.
    private static func contentType(
        _ properties: ArraySlice<UInt8>
    ) -> (text: String?, hasOthers: Bool) {
        // The length comes first, as a variable byte integer of one to four bytes.
        var rest = properties.drop { $0 & 0x80 != 0 }.dropFirst()
        var text: String?
        while let identifier = rest.popFirst() {
            switch identifier {
            case 0x01: rest = rest.dropFirst()
            case 0x03:
                let count = Int(number(rest.prefix(2)))
                text = String(validating: rest.dropFirst(2).prefix(count), as: UTF8.self)
                rest = rest.dropFirst(2 + count)
            default: return (text, true)
            }
        }
        return (text, false)
    }

    /// A number in network order.
    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// A number in the order of the machine that wrote it, taken for one like this.
    private static func native(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
}

extension ArraySlice<UInt8> {
    /// The bytes at an offset from the start; there are as many.
    fileprivate func at(_ offset: Int, _ count: Int) -> ArraySlice {
        self[(startIndex + offset)..<(startIndex + offset + count)]
    }

    /// A text at an offset; nil if there are fewer bytes, or no UTF-8.
    fileprivate func text(_ offset: Int, _ count: Int) -> String? {
        guard self.count >= offset + count else { return nil }
        return String(validating: at(offset, count), as: UTF8.self)
    }

    /// The bytes of such a text.
    fileprivate func name(_ offset: Int, _ count: Int) -> [UInt8]? {
        text(offset, count).map { Array($0.utf8) }
    }
}
