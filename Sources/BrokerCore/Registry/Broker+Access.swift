// What clients are let in with: credentials become an access that lives as long as its connection.
// What it allows is judged in `Broker+Judgement.swift`.

import BrokerTerms
import Primitives

/// Who somebody is, as the edge has verified it: by the signature of a JSON Web Token, a client
/// certificate, or a pre-shared key.
public struct VerifiedIdentity: Hashable, Sendable {
    public enum Proof: UInt8, Hashable, Sendable {
        case webToken, certificate, preSharedKey
    }

    public var proof: Proof
    public var app: [UInt8]
    public var user: [UInt8]
    /// The only device it speaks for; nil for any.
    public var device: [UInt8]?
    /// What the bearer may do; nil for whatever the app's users may.
    public var rights: Rights?
    /// Unix seconds from which on it is worth nothing; `UInt64.max` for never.
    public var expiresUnixSeconds: UInt64
    /// What vouched for it: the id of the key that signed a web token, a certificate's serial
    /// number, a pre-shared key's identity. Withdrawing that ends the sessions.
    public var voucher: [UInt8]
    /// Which key of that name it was.
    public var key: VoucherKey

    public init(
        proof: Proof, app: [UInt8], user: [UInt8], device: [UInt8]? = nil, rights: Rights? = nil,
        expiresUnixSeconds: UInt64 = .max, voucher: [UInt8], key: VoucherKey
    ) {
        self.proof = proof
        self.app = app
        self.user = user
        self.device = device
        self.rights = rights
        self.expiresUnixSeconds = expiresUnixSeconds
        self.voucher = voucher
        self.key = key
    }
}

/// Tells keys apart that have borne one name, so that replacing a key withdraws what the old one
/// vouched for.
public enum VoucherKey: Hashable, Sendable {
    /// The edge's mark of a key.
    case mark(UInt64)
    /// Certificates are withdrawn one by one, and a will that an earlier version has stored has no
    /// mark: the name alone decides.
    case named
}

/// What vouches for identities that the edge verifies, as the configuration has it now. The core
/// asks it at every login, so that nobody is let in by what was believed a moment ago.
public struct VoucherTrust: Sendable {
    /// A key of an account server.
    public struct WebTokenKey: Hashable, Sendable {
        public var app: [UInt8]
        public var voucher: [UInt8]

        public init(app: [UInt8], voucher: [UInt8]) {
            self.app = app
            self.voucher = voucher
        }
    }

    /// Keys that vouch now, by name, each with its mark.
    private var webTokenKeys: [WebTokenKey: UInt64] = [:]
    private var preSharedIdentities: [[UInt8]: UInt64] = [:]
    private var believesCertificates = false
    private var revokedCertificates: Set<[UInt8]> = []

    /// For whoever verifies nobody: no identity is believed.
    public static var nothing: VoucherTrust { VoucherTrust() }

    private init() {}

    /// - Parameters:
    ///   - webTokenKeys: the marks of the keys.
    ///   - preSharedIdentities: those that have a key, and its mark.
    ///   - revokedCertificates: the vouchers of those that nobody believes.
    public init(
        webTokenKeys: [WebTokenKey: UInt64], preSharedIdentities: [[UInt8]: UInt64],
        revokedCertificates: Set<[UInt8]>
    ) {
        self.webTokenKeys = webTokenKeys
        self.preSharedIdentities = preSharedIdentities
        self.revokedCertificates = revokedCertificates
        believesCertificates = true
    }

    public func believes(_ identity: VerifiedIdentity) -> Bool {
        switch identity.proof {
        case .webToken:
            return Self.isKey(
                identity.key,
                webTokenKeys[WebTokenKey(app: identity.app, voucher: identity.voucher)])
        case .preSharedKey:
            return Self.isKey(identity.key, preSharedIdentities[identity.voucher])
        case .certificate:
            return believesCertificates && !revokedCertificates.contains(identity.voucher)
        }
    }

    private static func isKey(_ key: VoucherKey, _ mark: UInt64?) -> Bool {
        guard let mark else { return false }
        switch key {
        case .mark(let own): return own == mark
        case .named: return true
        }
    }
}

/// What a live connection was let in with: 48 bytes, in an order that leaves no gaps.
struct Access {
    enum Source {
        case token(Handle<Token>)
        case appKey
        case anonymous
        /// By itself, so that those without one do not have room for one.
        indirect case verified(VerifiedIdentity)
        case gateway(ConnectionID)
    }

    let source: Source
    @Packed var session: Index<Session>? = nil
    /// What is allowed now; taken again from the source when that changes.
    var rights: Rights
    let expiresUnixSeconds: UInt64
    /// Ends the connection when the credential does.
    var timer = TimerWheel.Token.none
}

/// Who a claim turned out to be.
struct Identity {
    let app: Index<App>
    var user: [UInt8]
    let access: Access
}

extension Broker {
    // MARK: - Credentials

    /// Judges a claim by the tables as they are now.
    mutating func authenticate(
        _ claim: Claim, device: [UInt8], bytes: UnsafeRawBufferPointer, identities: TurnIdentities,
        at moment: Moment
    ) throws(ConnectRefusal) -> Identity {
        let now = moment.unixMilliseconds / 1000
        switch claim {
        case .token(let identifier, let digest):
            guard let handle = registry.tokens.find(identifier.bytes(in: bytes), digest: digest),
                let token = registry.tokens[handle], let app = app(named: token.app),
                token.expiresUnixSeconds > now
            else { throw ConnectRefusal(reason: .badUserNameOrPassword) }
            if let bound = token.device, bound != device {
                throw ConnectRefusal(reason: .clientIdentifierNotValid)
            }
            noteUse(of: handle, now)
            return Identity(
                app: app, user: token.user,
                access: Access(
                    source: .token(handle), rights: token.rights ?? registry.apps[app].rights,
                    expiresUnixSeconds: token.expiresUnixSeconds))
        case .appKey(let name, let digest, let user):
            guard let app = registry.app(named: name.bytes(in: bytes)),
                let key = registry.apps[app].keyDigest, key == digest
            else { throw ConnectRefusal(reason: .badUserNameOrPassword) }
            return unlimitedIdentity(app: app, user: Array(user.bytes(in: bytes)), source: .appKey)
        case .anonymous(let user):
            guard let app = app(named: registry.anonymousApp) else {
                throw ConnectRefusal(reason: .notAuthorized)
            }
            return unlimitedIdentity(
                app: app, user: Self.userName(user.bytes(in: bytes)), source: .anonymous)
        case .verified(let reference):
            // Nobody is let in as somebody of another turn, and nobody ends the broker with it.
            guard let identity = identities[reference] else {
                throw ConnectRefusal(reason: .unspecifiedError)
            }
            return try authenticate(identity, device: device, now)
        case .attached(let gateway, let user):
            return try authenticate(user.bytes(in: bytes), attachedBy: gateway)
        }
    }

    private func authenticate(
        _ identity: VerifiedIdentity, device: [UInt8], _ now: UInt64
    ) throws(ConnectRefusal) -> Identity {
        // Whatever was verified, and whenever that was, is believed now or not at all.
        guard let app = app(named: identity.app), identity.expiresUnixSeconds > now,
            registry.trust.believes(identity)
        else { throw ConnectRefusal(reason: .badUserNameOrPassword) }
        if let bound = identity.device, bound != device {
            throw ConnectRefusal(reason: .clientIdentifierNotValid)
        }
        return Identity(
            app: app, user: identity.user,
            access: Access(
                source: .verified(identity), rights: identity.rights ?? registry.apps[app].rights,
                expiresUnixSeconds: identity.expiresUnixSeconds))
    }

    /// Keeps the time of a token's last use, to the hour, and without a commit of its own.
    private mutating func noteUse(of handle: Handle<Token>, _ now: UInt64) {
        guard let token = registry.noteUse(of: handle, unixSeconds: now) else { return }
        commits.renewLazily(Records.token(token))
    }

    /// A claim without an end and without rights of its own.
    private func unlimitedIdentity(app: Index<App>, user: [UInt8], source: Access.Source)
        -> Identity
    {
        Identity(
            app: app, user: user,
            access: Access(
                source: source, rights: registry.apps[app].rights, expiresUnixSeconds: .max))
    }

    /// A user's name for what a client calls itself, which in MQTT may be any text: `_` in place of
    /// what no name may hold, and as much of it as a name may have. Most are that already.
    private static func userName(_ text: UnsafeRawBufferPointer) -> [UInt8] {
        var name: [UInt8] = []
        var offset = 0
        while offset < text.count {
            let first = text[offset]
            let length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4
            let character = text[offset..<min(offset + length, text.count)]
            // U+0080 to U+009F are C2 80 to C2 9F.
            let isControl =
                first < 0x20 || first == 0x7F || (first == 0xC2 && character.last! < 0xA0)
            let isSeparator = "/+#".utf8.contains(first)
            guard name.count + character.count <= CoreLimits.userNameBytesMaximum else { break }
            name += isControl || isSeparator ? Array("_".utf8) : Array(character)
            offset += length
        }
        return name
    }

    // MARK: - The life of an access

    /// Gives a session's new connection its access.
    mutating func grant(_ access: Access, to session: Index<Session>, at moment: Moment) {
        let connected = connectedIndex(of: session)
        let index = live.grant(access, to: connected)
        countSensor(of: access.source, 1)
        renewAuthority(of: session)
        guard access.expiresUnixSeconds != .max else { return }
        // Counted from here by the monotonic clock: a clock that is set moves nobody's end.
        let end = access.expiresUnixSeconds.multipliedReportingOverflow(by: 1000)
        let rest = end.overflow ? .max : end.partialValue - moment.unixMilliseconds
        let timer = deadlines.insert(
            .access(index), at: moment.instant.advanced(byMilliseconds: rest))
        live.note(timer: timer, of: index)
    }

    /// Takes a session's access back, with its connection.
    mutating func withdrawAccess(of session: Index<Session>) {
        let access = live.withdrawAccess(of: connectedIndex(of: session))
        deadlines.cancel(access.timer)
        countSensor(of: access.source, -1)
    }

    /// A connected client presents a new credential. It must prove the same user for the same
    /// device; otherwise the old one stays in force. Everything else about the session goes on.
    mutating func exchangeCredential(
        _ connection: ConnectionID, _ claim: Claim, identities: TurnIdentities,
        in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        do throws(ConnectRefusal) {
            let identity = try authenticate(
                claim, device: Array(sessions[session].device), bytes: step.bytes,
                identities: identities, at: step.moment)
            let user = sessions[session].user
            guard identity.app == registry.users[user].app,
                registry.users[user].name == identity.user
            else {
                throw ConnectRefusal(reason: .notAuthorized)
            }
            let oldRights = live.accesses[access(of: session)].rights
            withdrawAccess(of: session)
            grant(identity.access, to: session, at: step.moment)
            // Each subscription was judged by the rights of its time.
            if identity.access.rights != oldRights {
                dropForbiddenSubscriptions(session, in: &step)
            }
            refreshSensors(of: connection, in: &step)
            step.effects[connection.loop].effects.append(.answerCredential(connection, .success))
        } catch {
            refuseCredential(connection, error.reason, in: &step)
        }
    }

    mutating func refuseCredential(
        _ connection: ConnectionID, _ reason: ReasonCode, in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        counters.credentialsRefused += 1
        note(.connectRefused, session: session, reason: reason, in: &step)
        step.effects[connection.loop].effects.append(.answerCredential(connection, reason))
    }

    /// From now on what these vouch for is believed and nothing else. Connections that were let in
    /// by others end, and their wills are not sent; logins on their way are judged when they are
    /// heard. The number of connections.
    public mutating func replaceTrust(
        _ new: VoucherTrust, at moment: Moment, effects: inout Effects
    ) -> Int {
        var step = Step(at: moment, effects: effects)
        registry.replaceTrust(new)
        var count = 0
        for access in live.accesses.places where live.accesses.contains(access) {
            guard case .verified(let identity) = live.accesses[access].source,
                !registry.trust.believes(identity)
            else { continue }
            close(session(of: access), .notAuthorized, willFate: .removed, in: &step)
            count += 1
        }
        return count
    }

    /// A credential has come to its end while its connection lives. 0xA0 tells the device that its
    /// time is up, and not that it did something it may not.
    mutating func expireAccess(_ index: Index<Access>, in step: inout Step) {
        close(session(of: index), .maximumConnectTime, in: &step)
    }

    // MARK: - Rights

    /// What a connected session was let in with.
    @inline(__always)
    func access(of session: Index<Session>) -> Index<Access> {
        guard let access = live.connectedSessions[connectedIndex(of: session)].access else {
            preconditionFailure("session \(session.place) is connected without an access")
        }
        return access
    }

    /// Whose access it is.
    func session(of access: Index<Access>) -> Index<Session> {
        guard let session = live.accesses[access].session else {
            preconditionFailure("access \(access.place) was granted to no session")
        }
        return session
    }

    func bearer(_ session: Index<Session>) -> RightsBearer {
        RightsBearer(
            user: registry.users[sessions[session].user].name, device: sessions[session].device)
    }

    /// Tells the log which receivers of a list the sender was not allowed; the sender itself is
    /// told with the result.
    func noteForbidden(_ target: JudgedTarget, from session: Index<Session>, in step: inout Step) {
        guard target.hasRefusals else { return }
        target.refusedNames.withUnsafeBytes {
            note(.sendRefused, session: session, reason: .notAuthorized, subject: $0, in: &step)
        }
    }

    /// Ends the subscriptions of a connected session that its rights do not allow any more. In one
    /// piece, which takes 1.1 milliseconds for 1,000 filters of 60 levels and as many rights.
    mutating func dropForbiddenSubscriptions(_ session: Index<Session>, in step: inout Step) {
        // What begins with `$SYS` needs a right by name.
        let rights = live.accesses[access(of: session)].rights
        let app = registry.users[sessions[session].user].app
        let hearsAllPresence =
            rights.allowsAll(.presence) || registry.apps[app].presenceFilterCount == 0
        if rights.allowsAll(.subscribe) && hearsAllPresence && registry.apps[app].systemCount == 0 {
            return
        }
        workload.charge(Int(sessions[session].filterCount) / CoreLimits.judgedFiltersPerWork)
        let asker = asker(session)
        var next = sessions[session].firstSubscription
        while let index = next {
            next = routing.subscriptions[index].next
            // What every session receives by itself has no filter.
            let filter = routing.audiences[routing.subscriptions[index].audience].filter
            if filter.isEmpty { continue }
            filter.withUnsafeBytes { bytes in
                guard case .refused = judge(.subscribe(filter: bytes), by: asker) else { return }
                counters.rightsRefusals += 1
                note(
                    .subscribeRefused, session: session, reason: .notAuthorized, subject: bytes,
                    in: &step)
                forgetSubscription(index)
            }
        }
    }
}

/// Walks over the ids of a list: each one length byte and its bytes.
struct ListReader {
    private let list: UnsafeRawBufferPointer
    private var offset = 0

    init(_ list: UnsafeRawBufferPointer) { self.list = list }

    /// The next id; there must be one.
    mutating func next() -> UnsafeRawBufferPointer {
        let end = offset + 1 + Int(list[offset])
        defer { offset = end }
        return UnsafeRawBufferPointer(rebasing: list[offset + 1..<end])
    }
}
