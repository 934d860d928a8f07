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
    let user: Index<User>
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
    /// What its device was let in with last, by which it is judged again when it is due.
    var authority: WillAuthority
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

/// What a will was set with. It is judged by that when it is set, and by the rights that the same
/// credential has then, if it has not been withdrawn, when it is sent.
struct WillAuthority: Hashable {
    enum Credential: Hashable {
        /// A broker that did not write it down has set it.
        case unknown
        /// The app's key, or the word of a listener: the app's rights.
        case app
        /// An opaque token, by its public part.
        case token([UInt8])
        indirect case verified(VerifiedIdentity)
    }

    var credential: Credential
    /// A gateway vouched for the device: the credential is the gateway's.
    var isAttached = false
}

/// Whose will it is, for a device that has no session.
struct WillOwner: Hashable {
    let user: Index<User>
    let device: Name
}

extension Will {
    /// Copies a request.
    init(
        identifier: UInt64, owner: WillOwner, keepAliveSeconds: UInt32,
        authority: WillAuthority, _ request: WillRequest, _ bytes: UnsafeRawBufferPointer
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
        // Version 2 ends with what the will was set with. Version 3 also tells which key vouched
        // for it, where a key did.
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

    /// Reads a row back; `row` stands behind the user's name.
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

    /// Whether bytes are a number less one and as many ids.
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
            // Rows of version 2 do not say which of the keys of that name it was.
            let key: VoucherKey = version > 2 ? .mark(try read(UInt64.self)) : .named
            // Whom it proved is the will's own user.
            credential = .verified(
                VerifiedIdentity(
                    proof: proof, app: app, user: [], rights: hasRights ? rights : nil,
                    voucher: voucher, key: key))
        default: throw failure
        }
        return WillAuthority(credential: credential, isAttached: isAttached)
    }
}
