// A will: the client's request, the value in memory, and the row in the store.

import Primitives

/// A client's request to store a will.
public struct WillRequest: Sendable {
    // In the order that needs the least memory.

    /// Target, payload, expiry, grade and fault, as in a send. The number has no meaning.
    public var message: SendRequest
    /// Seconds between the loss of the connection and the sending of the will.
    public var delaySeconds: UInt32

    public init(delaySeconds: UInt32, message: SendRequest) {
        self.delaySeconds = delaySeconds
        self.message = message
    }
}

/// A will in memory. It owns copies of the bytes of its request.
struct Will: Sendable {
    /// Durable identifier, unique in the store.
    let identifier: UInt64
    let user: Index<User>
    let device: Name
    let delaySeconds: UInt32
    /// Keep-alive of the connection that set the will. A restart gives the device 1.5 times as long
    /// to return.
    let keepAliveSeconds: UInt32
    let kind: WillKind
    /// Depends on `kind`: the user, the ids of a list after one byte with their number less one,
    /// the group, or the topic.
    let address: [UInt8]
    let isRaw: Bool
    let payload: [UInt8]
    let expirySeconds: UInt64?
    /// *Once* in MRT; the QoS of the request in MQTT.
    let grade: Grade
    let isRetained: Bool
    /// MQTT 5 properties that are sent with the message.
    let properties: [UInt8]
    /// The latest credential of the device. Its rights are checked again when the will is due.
    var authority: WillAuthority
    /// Timer of the delay, or of the next attempt if the store had no room.
    var token = TimerWheel.Token.none
}

/// The kind of receivers. Raw values are on disk.
enum WillKind: UInt8 {
    case user = 0
    case users = 1
    case group = 2
    case everybody = 3
    case topic = 4
}

/// The credential that a will depends on. When the will is sent, the rights are those that the
/// credential has at that time; a withdrawn credential has none.
struct WillAuthority: Hashable {
    enum Credential: Hashable {
        /// The will was stored by an earlier version that did not record the credential.
        case unknown
        /// A listener without authentication, or a key of the app in a will that an earlier version
        /// stored: the rights of the app.
        case app
        /// A key of the app, by the digest of its secret.
        case appKey(Digest)
        /// An opaque token, by its public part.
        case token([UInt8])
        indirect case verified(VerifiedIdentity)
    }

    var credential: Credential
    /// The device is attached by a gateway, and the credential is the gateway's.
    var isAttached = false
}

/// The user and device of a will without a session.
struct WillOwner: Hashable {
    let user: Index<User>
    let device: Name
}

extension Will {
    init(
        identifier: UInt64, owner: WillOwner, keepAliveSeconds: UInt32,
        authority: WillAuthority, _ request: WillRequest, _ bytes: UnsafeRawBufferPointer
    ) {
        let message = request.message
        switch message.target {
        case .user(let name): (kind, address) = (.user, Array(name.bytes(in: bytes)))
        case .users(let ids, let count):
            // A list has at most 256 receivers, so one byte holds their number less one.
            (kind, address) = (.users, [UInt8(count - 1)] + ids.bytes(in: bytes))
        case .group(let name): (kind, address) = (.group, Array(name.bytes(in: bytes)))
        case .everybody: (kind, address) = (.everybody, [])
        case .topic(let name): (kind, address) = (.topic, Array(name.bytes(in: bytes)))
        }
        self.identifier = identifier
        self.authority = authority
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

    /// The send that the will becomes. Its ranges refer to ``address``.
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
        // Version 2 appends the credential. Version 3 appends the mark of the key that verified it,
        // if there is one.
        var mark: UInt64?
        if case .verified(let identity) = authority.credential, case .mark(let own) = identity.key {
            mark = own
        }
        var row = RecordWriter(version: mark == nil ? 2 : 3)
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
        row.write(authority)
        if let mark { row.write(mark) }
        return RecordChange(table: .wills, key: key, value: row.bytes)
    }

    /// Reads a row; `row` is positioned after the user's name.
    init(
        identifier: UInt64, user: Index<User>, app: [UInt8], version: UInt8,
        _ row: inout RecordReader, else failure: RestoreError
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
        authority =
            version == 1
            ? WillAuthority(credential: .unknown)
            : try row.readAuthority(app: app, version: version, else: failure)
        guard kind != .users || Self.isList(address) else { throw failure }
    }

    /// Whether the bytes are a number less one, followed by that many ids.
    private static func isList(_ bytes: [UInt8]) -> Bool {
        guard let first = bytes.first else { return false }
        var offset = 1
        for _ in 0...first {
            guard offset < bytes.count else { return false }
            offset += 1 + Int(bytes[offset])
        }
        return offset == bytes.count
    }
}

extension RecordWriter {
    fileprivate mutating func write(_ authority: WillAuthority) {
        write(UInt8(authority.isAttached ? 1 : 0))
        switch authority.credential {
        case .unknown: write(UInt8(0))
        case .app: write(UInt8(1))
        case .token(let identifier):
            write(UInt8(2))
            write(identifier)
        case .verified(let identity):
            write(UInt8(3))
            write(identity.proof.rawValue)
            write(identity.voucher)
            write(UInt8(identity.rights == nil ? 0 : 1))
            write(identity.rights ?? Rights())
        case .appKey(let digest):
            write(UInt8(4))
            write(digest)
        }
    }
}

extension RecordReader {
    fileprivate mutating func readAuthority(
        app: [UInt8], version: UInt8, else failure: RestoreError
    ) throws(RestoreError) -> WillAuthority {
        let isAttached = try read(UInt8.self) == 1
        let credential: WillAuthority.Credential
        switch try read(UInt8.self) {
        case 0: credential = .unknown
        case 1: credential = .app
        case 2: credential = .token(try readString())
        case 3:
            guard let proof = VerifiedIdentity.Proof(rawValue: try read(UInt8.self)) else {
                throw failure
            }
            let voucher = try readString()
            let hasRights = try read(UInt8.self) == 1
            let rights = try readRights()
            // Rows of version 2 do not contain the mark of the key.
            let key: VoucherKey = version > 2 ? .mark(try read(UInt64.self)) : .named
            // The user is the will's user, so the row does not repeat the name.
            credential = .verified(
                VerifiedIdentity(
                    proof: proof, app: app, user: [], rights: hasRights ? rights : nil,
                    voucher: voucher, key: key))
        case 4: credential = .appKey(try readDigest())
        default: throw failure
        }
        return WillAuthority(credential: credential, isAttached: isAttached)
    }
}
