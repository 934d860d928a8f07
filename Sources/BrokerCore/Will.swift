// A will as it is asked for, as it is kept, and as it is stored.

import Primitives

/// A will that a client wants kept.
public struct WillRequest: Sendable {
    /// Seconds between the loss and the sending.
    public var delaySeconds: UInt32
    /// Target, payload, expiry, grade and fault, as in a send; the number is of no meaning.
    public var message: SendRequest

    public init(delaySeconds: UInt32, message: SendRequest) {
        self.delaySeconds = delaySeconds
        self.message = message
    }
}

/// A will as it is kept: everything copied out of the packet it came in.
struct Will: Sendable {
    /// Durable name.
    let identifier: UInt64
    let user: UInt32
    let device: Name
    let delaySeconds: UInt32
    /// Of the connection that set it: how long its silence may last.
    let keepAliveSeconds: UInt32
    let kind: WillKind
    /// User, ids in a row behind their number less one, group or topic, by kind.
    let address: [UInt8]
    let isRaw: Bool
    let payload: [UInt8]
    let expirySeconds: UInt64?
    /// *Once* in MRT; in MQTT as the client wants it.
    let grade: Grade
    let isRetained: Bool
    /// MQTT 5 properties that travel with the message.
    let properties: [UInt8]
    /// Set while the delay runs, or until the store has room.
    var token = TimerWheel.Token.none
}

/// Whom a will is for. Raw values are on disk.
enum WillKind: UInt8 {
    case user = 0
    case users = 1
    case group = 2
    case everybody = 3
    case topic = 4
}

/// Whose will it is, for a device that has no session.
struct WillOwner: Hashable {
    let user: UInt32
    let device: Name
}

extension Will {
    /// Copies a request.
    init(
        identifier: UInt64, owner: WillOwner, keepAliveSeconds: UInt32, _ request: WillRequest,
        _ bytes: UnsafeRawBufferPointer
    ) {
        let message = request.message
        switch message.target {
        case .user(let name): (kind, address) = (.user, Array(name.bytes(in: bytes)))
        case .users(let ids, let count):
            // At most 256 receivers, so that one byte holds their number less one.
            (kind, address) = (.users, [UInt8(count - 1)] + ids.bytes(in: bytes))
        case .group(let name): (kind, address) = (.group, Array(name.bytes(in: bytes)))
        case .everybody: (kind, address) = (.everybody, [])
        case .topic(let name): (kind, address) = (.topic, Array(name.bytes(in: bytes)))
        }
        self.identifier = identifier
        user = owner.user
        device = owner.device
        delaySeconds = request.delaySeconds
        self.keepAliveSeconds = keepAliveSeconds
        isRaw = message.isRaw
        payload = Array(message.payload.bytes(in: bytes))
        expirySeconds = message.expirySeconds
        grade = message.grade
        isRetained = message.isRetained
        properties = Array(message.properties.bytes(in: bytes))
    }

    var marks: MessageMarks {
        var marks: MessageMarks = isRaw ? .raw : []
        if isRetained { marks.insert(.retain) }
        if expirySeconds != nil { marks.insert(.expires) }
        return marks
    }

    /// The send that the will turns into, with ranges in ``address``.
    var request: SendRequest {
        let whole = ByteRange(offset: 0, count: address.count)
        let target: SendTarget =
            switch kind {
            case .user: .user(whole)
            case .users:
                .users(
                    ids: ByteRange(offset: 1, count: address.count - 1),
                    count: Int(address[0]) + 1)
            case .group: .group(whole)
            case .everybody: .everybody
            case .topic: .topic(whole)
            }
        var request = SendRequest(
            number: 0, grade: grade, target: target, expirySeconds: expirySeconds, isRaw: isRaw,
            payload: .empty, messageByteCount: 0)
        request.isRetained = isRetained
        return request
    }

    // MARK: - Rows

    var key: [UInt8] { RecordKey.number(identifier) }

    func row(app: [UInt8], user: [UInt8]) -> RecordChange {
        var row = RecordWriter(version: 1)
        row.write(app)
        row.write(user)
        row.write(Array(device))
        row.write(delaySeconds)
        row.write(keepAliveSeconds)
        row.write(kind.rawValue)
        row.write(UInt32(address.count))
        row.append(address)
        row.write(UInt8(isRaw ? 1 : 0))
        row.write(expirySeconds ?? .max)
        row.write(UInt32(payload.count))
        row.append(payload)
        row.write(grade.rawValue)
        row.write(UInt8(isRetained ? 1 : 0))
        row.write(UInt32(properties.count))
        row.append(properties)
        return RecordChange(table: .wills, key: key, value: row.bytes)
    }

    /// Reads a row back; `row` stands behind the user's name.
    init(
        identifier: UInt64, user: UInt32, _ row: inout RecordReader, else failure: RestoreError
    ) throws(RestoreError) {
        self.identifier = identifier
        self.user = user
        device = Name(try row.readString())
        delaySeconds = try row.read(UInt32.self)
        keepAliveSeconds = try row.read(UInt32.self)
        guard let kind = WillKind(rawValue: try row.read(UInt8.self)) else { throw failure }
        self.kind = kind
        address = try row.readBytes(count: Int(try row.read(UInt32.self)))
        isRaw = try row.read(UInt8.self) == 1
        let expiry = try row.read(UInt64.self)
        expirySeconds = expiry == .max ? nil : expiry
        payload = try row.readBytes(count: Int(try row.read(UInt32.self)))
        guard let grade = Grade(rawValue: try row.read(UInt8.self)) else { throw failure }
        self.grade = grade
        isRetained = try row.read(UInt8.self) == 1
        properties = try row.readBytes(count: Int(try row.read(UInt32.self)))
    }
}
