// Credentials and accesses. A valid credential becomes an access, which exists as long as its
// connection. `Broker+SendDecision.swift` checks what the access allows.

import BrokerTerms
import Primitives

/// An identity that the edge has verified: by the signature of a JSON Web Token, by a client
/// certificate, by a pre-shared key, or by a password.
public struct VerifiedIdentity: Hashable, Sendable {
    public enum Proof: UInt8, Hashable, Sendable {
        case webToken, certificate, preSharedKey, password
    }

    public var proof: Proof
    public var app: [UInt8]
    public var user: [UInt8]
    /// The only device that may use the identity; nil for any.
    public var device: [UInt8]?
    /// The rights of the principal; nil for those of the app's users.
    public var rights: Rights?
    /// Expiry in Unix seconds; the identity is invalid from then on. `UInt64.max` for none.
    public var expiresUnixSeconds: UInt64
    /// The object that proved the identity: the id of the key that signed a web token, the serial
    /// number of a certificate, the identity of a pre-shared key, or the name of a password.
    /// Withdrawing it ends the sessions.
    public var voucher: [UInt8]
    /// Distinguishes keys that had the same name at different times.
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

/// Distinguishes keys with the same name, so that replacing a key invalidates the identities that
/// the old key proved.
public enum VoucherKey: Hashable, Sendable {
    /// The mark that the edge gave the key.
    case mark(UInt64)
    /// The name alone decides: for certificates, which are revoked one by one, and for wills that
    /// an earlier version stored without a mark.
    case named
}

/// The keys and certificates that the configuration currently trusts. The core checks them at every
/// login, because an event may have been verified against an earlier configuration.
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

    /// Trusted keys by name, each with its mark.
    private var webTokenKeys: [WebTokenKey: UInt64] = [:]
    private var preSharedIdentities: [[UInt8]: UInt64] = [:]
    private var believesCertificates = false
    private var revokedCertificates: Set<[UInt8]> = []

    /// Trusts no key and no certificate.
    public static var nothing: VoucherTrust { VoucherTrust() }

    private init() {}

    /// - Parameters:
    ///   - webTokenKeys: the mark of each key.
    ///   - preSharedIdentities: the mark of each identity's key.
    ///   - revokedCertificates: the serial numbers of certificates that are not trusted.
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
        case .password:
            // The core has the passwords itself (`Registry.believes`).
            return false
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

/// The access of a live connection: 48 bytes, in an order without padding.
struct Access {
    enum Source {
        case token(Handle<Token>)
        case appKey(Handle<AppKeyTable.Entry>)
        case anonymous
        /// Indirect, so that an access of another source does not reserve space for it.
        indirect case verified(VerifiedIdentity)
        case gateway(ConnectionID)

        /// Whether the credential is the user's own. An app key and a gateway log in many users,
        /// and on an anonymous listener everybody chooses a name.
        var provesUser: Bool {
            switch self {
            case .token, .verified: true
            case .appKey, .anonymous, .gateway: false
            }
        }
    }

    let source: Source
    @Packed var session: Index<Session>? = nil
    /// Current rights. They are read again from the source when that changes.
    var rights: Rights
    let expiresUnixSeconds: UInt64
    /// Closes the connection when the credential expires.
    var timer = TimerWheel.Token.none
}

/// The result of authenticating a claim.
struct Identity {
    let app: Index<App>
    var user: [UInt8]
    let access: Access
}

extension Broker {
    // MARK: - Credentials

    /// Authenticates a claim against the current tables.
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
                throw ConnectRefusal(
                    reason: .clientIdentifierNotValid, boundDevice: bound, user: token.user)
            }
            noteUse(of: handle, now)
            return Identity(
                app: app, user: token.user,
                access: Access(
                    source: .token(handle), rights: token.rights ?? registry.apps[app].rights,
                    expiresUnixSeconds: token.expiresUnixSeconds))
        case .appKey(let name, let digest, let user):
            guard let app = registry.app(named: name.bytes(in: bytes)),
                let handle = registry.keys.find(digest), let entry = registry.keys[handle],
                entry.app == app, entry.key.expiresUnixSeconds > now
            else { throw ConnectRefusal(reason: .badUserNameOrPassword) }
            let user = Array(user.bytes(in: bytes))
            try checkAttaching(user, by: entry)
            noteUse(of: handle, now)
            return Identity(
                app: app, user: user,
                access: Access(
                    source: .appKey(handle),
                    rights: entry.key.rights ?? registry.apps[app].rights,
                    expiresUnixSeconds: entry.key.expiresUnixSeconds))
        case .anonymous(let user):
            guard let app = app(named: registry.anonymousApp) else {
                throw ConnectRefusal(reason: .notAuthorized)
            }
            // It does not expire and has the rights of the app.
            return Identity(
                app: app, user: Self.userName(user.bytes(in: bytes)),
                access: Access(
                    source: .anonymous, rights: registry.apps[app].rights,
                    expiresUnixSeconds: .max))
        case .verified(let reference):
            // The claim is refused if the reference is not of this turn. It must neither admit
            // another client's identity nor stop the broker.
            guard let identity = identities[reference] else {
                throw ConnectRefusal(reason: .unspecifiedError)
            }
            let known = try authenticate(identity, device: device, now)
            noteUse(of: identity, now)
            return known
        case .attached(let gateway, let user):
            return try authenticate(user.bytes(in: bytes), attachedBy: gateway)
        }
    }

    /// Throws, and counts the refusal, unless a key logs in as a user.
    private mutating func checkAttaching(
        _ user: [UInt8], by entry: AppKeyTable.Entry
    ) throws(ConnectRefusal) {
        var comparisons = 0
        let decision = decision(attaching: user, by: entry, comparisons: &comparisons)
        workload.charge(comparisons: comparisons)
        guard !decision.isAllowed else { return }
        counters.rightsRefusals += 1
        throw ConnectRefusal(reason: .notAuthorized)
    }

    private func authenticate(
        _ identity: VerifiedIdentity, device: [UInt8], _ now: UInt64
    ) throws(ConnectRefusal) -> Identity {
        // The edge may have verified the identity earlier; only the current trust and time count.
        guard let app = app(named: identity.app), identity.expiresUnixSeconds > now,
            registry.believes(identity)
        else { throw ConnectRefusal(reason: .badUserNameOrPassword) }
        if let bound = identity.device, bound != device {
            throw ConnectRefusal(reason: .clientIdentifierNotValid, boundDevice: bound)
        }
        return Identity(
            app: app, user: identity.user,
            access: Access(
                source: .verified(identity), rights: identity.rights ?? registry.apps[app].rights,
                expiresUnixSeconds: identity.expiresUnixSeconds))
    }

    /// Records the last use of a token, rounded to the hour. The row waits for the next commit.
    mutating func noteUse(of handle: Handle<Token>, _ now: UInt64) {
        guard let token = registry.noteUse(of: handle, unixSeconds: now) else { return }
        commits.renewLazily(Records.token(token))
    }

    /// The user name for the name that a client gives itself, which in MQTT may be any text.
    /// Characters that a user name must not contain become `_`, and the name is cut to its maximum
    /// length. Most names need no change.
    private static func userName(_ text: UnsafeRawBufferPointer) -> [UInt8] {
        var name: [UInt8] = []
        var offset = 0
        while offset < text.count {
            let first = text[offset]
            let length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4
            let character = text[offset..<min(offset + length, text.count)]
            // U+0080 to U+009F are encoded as C2 80 to C2 9F.
            let isControl =
                first < 0x20 || first == 0x7F || (first == 0xC2 && character.last! < 0xA0)
            let isSeparator = "/+#".utf8.contains(first)
            guard name.count + character.count <= CoreLimits.userNameBytesMaximum else { break }
            name += isControl || isSeparator ? Array("_".utf8) : Array(character)
            offset += length
        }
        return name
    }

    // MARK: - Accesses

    /// Gives a session's new connection its access.
    mutating func grant(_ access: Access, to session: Index<Session>, at moment: Moment) {
        let connected = connectedIndex(of: session)
        let index = live.grant(access, to: connected)
        countSensor(of: access.source, 1)
        renewAuthority(of: session)
        guard access.expiresUnixSeconds != .max else { return }
        // The monotonic clock measures the rest, so that setting the clock does not move the
        // expiry.
        let end = access.expiresUnixSeconds.multipliedReportingOverflow(by: 1000)
        let rest = end.overflow ? .max : end.partialValue - moment.unixMilliseconds
        let timer = deadlines.insert(
            .access(index), at: moment.instant.advanced(byMilliseconds: rest))
        live.note(timer: timer, of: index)
    }

    /// Removes a session's access together with its connection.
    mutating func withdrawAccess(of session: Index<Session>) {
        let access = live.withdrawAccess(of: connectedIndex(of: session))
        deadlines.cancel(access.timer)
        countSensor(of: access.source, -1)
    }

    /// Replaces the credential of a connected client. The new one must prove the same user and
    /// device; otherwise the old one remains valid. The session continues unchanged.
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
            if limits.hasModeration { try checkModerator(identity) }
            let oldRights = live.accesses[access(of: session)].rights
            withdrawAccess(of: session)
            grant(identity.access, to: session, at: step.moment)
            // The subscriptions were admitted by the earlier rights.
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

    /// Replaces the trusted keys and certificates. Closes connections that were admitted by others,
    /// without sending their wills; logins that are being verified are checked against the new
    /// trust. Returns the number of closed connections.
    public mutating func replaceTrust(
        _ new: VoucherTrust, at moment: Moment, effects: inout Effects
    ) -> Int {
        var step = Step(at: moment, effects: effects)
        registry.replaceTrust(new)
        var count = 0
        for access in live.accesses.places where live.accesses.contains(access) {
            guard case .verified(let identity) = live.accesses[access].source,
                !registry.believes(identity)
            else { continue }
            close(session(of: access), .notAuthorized, willFate: .removed, in: &step)
            count += 1
        }
        return count
    }

    /// Closes a connection whose credential has expired. The reason 0xA0 tells the device that its
    /// time is over, and not that it did something forbidden.
    mutating func expireAccess(_ index: Index<Access>, in step: inout Step) {
        close(session(of: index), .maximumConnectTime, in: &step)
    }

    // MARK: - Rights

    /// The access of a connected session.
    @inline(__always)
    func access(of session: Index<Session>) -> Index<Access> {
        guard let access = live.connectedSessions[connectedIndex(of: session)].access else {
            preconditionFailure("session \(session.place) is connected without an access")
        }
        return access
    }

    /// The session of an access.
    func session(of access: Index<Access>) -> Index<Session> {
        guard let session = live.accesses[access].session else {
            preconditionFailure("access \(access.place) was granted to no session")
        }
        return session
    }

    func principalNames(_ session: Index<Session>) -> PrincipalNames {
        PrincipalNames(
            user: registry.users[sessions[session].user].name, device: sessions[session].device)
    }

    /// Logs the receivers of a list that the sender may not send to, which other sends pay for with
    /// one comparison. The sender is told with the result.
    @inline(__always)
    func noteForbidden(
        _ target: AuthorizedTarget, from session: Index<Session>, in step: inout Step
    ) {
        if target.hasRefusals { noteRefusedNames(of: target, from: session, in: &step) }
    }

    @inline(never)
    private func noteRefusedNames(
        of target: AuthorizedTarget, from session: Index<Session>, in step: inout Step
    ) {
        target.refusedNames.withUnsafeBytes {
            note(.sendRefused, session: session, reason: .notAuthorized, subject: $0, in: &step)
        }
    }

    /// Removes the subscriptions of a connected session that its rights do not allow any more. All
    /// are checked at once: 1,000 filters of 60 levels against as many rights take 1.1
    /// milliseconds.
    mutating func dropForbiddenSubscriptions(_ session: Index<Session>, in step: inout Step) {
        // Filters that begin with `$SYS` need a right by name.
        let rights = live.accesses[access(of: session)].rights
        let app = registry.users[sessions[session].user].app
        let receivesAllPresence =
            rights.allowsAll(.presence) || registry.apps[app].presenceFilterCount == 0
        if rights.allowsAll(.subscribe) && receivesAllPresence
            && registry.apps[app].systemCount == 0
        {
            return
        }
        workload.charge(Int(sessions[session].filterCount) / CoreLimits.authorizedFiltersPerWork)
        let principal = principal(session)
        var next = sessions[session].firstSubscription
        while let index = next {
            next = routing.subscriptions[index].next
            // The audiences that every session joins by itself have no filter.
            let filter = routing.audiences[routing.subscriptions[index].audience].filter
            if filter.isEmpty { continue }
            filter.withUnsafeBytes { bytes in
                if authorize(.subscribe(filter: bytes), by: principal).isAllowed { return }
                counters.rightsRefusals += 1
                note(
                    .subscribeRefused, session: session, reason: .notAuthorized, subject: bytes,
                    in: &step)
                forgetSubscription(index)
            }
        }
    }
}

/// Reads the ids of a list: each is one byte with its length, then its bytes.
struct ListReader {
    private let list: UnsafeRawBufferPointer
    private var offset = 0

    init(_ list: UnsafeRawBufferPointer) { self.list = list }

    var isAtEnd: Bool { offset == list.count }

    /// Returns the next id. Precondition: there is one.
    mutating func next() -> UnsafeRawBufferPointer {
        let end = offset + 1 + Int(list[offset])
        defer { offset = end }
        return UnsafeRawBufferPointer(rebasing: list[offset + 1..<end])
    }
}
