// Converts the credentials that clients present into claims that the core can look up. Hashes and
// signatures are computed and checked here, outside the core's lock, so that the core handles no
// secrets and no cryptography.

import BrokerCore
import BrokerTerms
import Credentials
import Dialects
import NetTransport
import Primitives

/// Verifies credentials and generates random numbers for one event loop.
struct CredentialVerifier: Authenticator, ~Copyable {
    private let trust: ClientTrust
    private let clock: BrokerClock
    private var numbers: RandomNumbers
    private var passwords: PasswordLogins
    /// The identity that TLS has verified for a connection, until its CONNECT packet arrives.
    private var proofs: [ConnectionID: Result<VerifiedIdentity, TrustRefusal>] = [:]
    /// The identities that the verified claims of this turn's events refer to.
    private(set) var identities = TurnIdentities()
    /// Why credentials were refused in this turn.
    private(set) var refusals: [(ConnectionID, TrustRefusal)] = []

    init(
        trust: ClientTrust, clock: BrokerClock, numbers: RandomNumbers,
        passwords: PasswordVerifier? = nil
    ) {
        self.passwords = PasswordLogins(passwords, at: clock.moment().instant)
        self.trust = trust
        self.clock = clock
        self.numbers = numbers
    }

    // MARK: - Connections

    /// Records the identity in the TLS certificate or pre-shared key of a new connection.
    mutating func opened(_ connection: ConnectionID, in loop: borrowing some BrokerLoop & ~Copyable)
    {
        do throws(TrustRefusal) {
            if let certificate = loop.peerCertificate(of: connection) {
                proofs[connection] = .success(try trust.identity(certificate: certificate))
            } else if let identity = loop.preSharedIdentity(of: connection) {
                proofs[connection] = .success(try trust.identity(preShared: identity))
            } else if let name = loop.refusedPreSharedIdentity(of: connection) {
                throw TrustRefusal("no pre-shared key has the identity \"\(name)\"")
            }
        } catch {
            proofs[connection] = .failure(error)
        }
    }

    mutating func closed(_ connection: ConnectionID) {
        passwords.closed(connection)
        guard !proofs.isEmpty else { return }
        proofs[connection] = nil
    }

    /// Discards the identities of this turn, whose events have entered the core.
    mutating func endTurn() { identities.endTurn() }

    /// Discards the refusals of this turn, which have been logged.
    mutating func forgetRefusals() { refusals.removeAllKeepingCapacity() }

    // MARK: - Claims

    mutating func claim(
        token: ByteRange, in bytes: UnsafeRawBufferPointer, from connection: ConnectionID
    ) -> Claim? {
        let text = token.bytes(in: bytes).bytes
        guard OpaqueToken.isToken(text) else { return claim(webToken: text, from: connection) }
        guard let presented = OpaqueToken(presented: text) else {
            refusals.append((connection, TrustRefusal("not a token")))
            return nil
        }
        let identifier = ByteRange(
            offset: Int(token.offset) + OpaqueToken.prefix.utf8.count, count: TokenID.symbolCount)
        return .token(identifier: identifier, digest: Digest(presented.digest))
    }

    private mutating func claim(webToken: RawSpan, from connection: ConnectionID) -> Claim? {
        do throws(TrustRefusal) {
            let now = Int64(clock.moment().unixSeconds)
            return .verified(
                identities.append(try trust.identity(webToken: webToken, unixSeconds: now)))
        } catch {
            let isWebToken = JSONWebToken.hasForm(of: webToken)
            refusals.append(
                (
                    connection,
                    isWebToken
                        ? error
                        : TrustRefusal(
                            "neither a token nor a web token; passwords need ?passwords= of the "
                                + "listener")
                ))
            return nil
        }
    }

    mutating func claim(
        app: ByteRange, key: ByteRange, user: ByteRange, in bytes: UnsafeRawBufferPointer
    ) -> Claim? {
        guard let presented = AppKey(presented: key.bytes(in: bytes).bytes) else { return nil }
        return .appKey(app: app, digest: Digest(presented.digest), user: user)
    }

    mutating func claim(of connection: ConnectionID) -> Claim? {
        switch proofs.removeValue(forKey: connection) {
        case nil:
            return nil
        case .failure(let refusal)?:
            refusals.append((connection, refusal))
            return nil
        case .success(let identity)?:
            return .verified(identities.append(identity))
        }
    }

    // MARK: - Passwords

    /// When the next refusal of a password is due; nil if none is.
    var nextPasswordDeadline: Instant? { passwords.nextDeadline }

    /// Calls `body` with each connection whose password was verified, and with each whose refusal
    /// is due: its CONNECT is to be decoded again.
    ///
    /// - Parameter address: the address of a connection's client.
    mutating func continueLogins(
        loop: UInt8, at now: Instant, address: (ConnectionID) -> IPAddress?,
        _ body: (ConnectionID) -> Void
    ) {
        passwords.beginNew(at: now, address: address, body)
        passwords.takeResults(loop: loop, at: now, body)
        passwords.takeDueRefusals(at: now, body)
    }

    mutating func verify(
        _ login: PasswordLogin, from connection: ConnectionID
    ) -> PasswordVerdict {
        let password = login.password.span.bytes
        if OpaqueToken.isToken(password) || JSONWebToken.hasForm(of: password) { return .isToken }
        guard login.userName.count <= RegisteredPassword.nameByteCountMaximum,
            login.password.count <= PasswordHash.passwordByteCountMaximum
        else {
            refusals.append((connection, TrustRefusal("the name or the password is too long")))
            return .refused(.badUserNameOrPassword)
        }
        if passwords.isElsewhere(login.app) {
            refusals.append((connection, TrustRefusal("another node serves the app's shard")))
            return .refused(.useAnotherServer)
        }
        let outcome = passwords.verify(connection) {
            PasswordVerifier.Login(
                connection: connection, app: login.app, name: login.userName,
                password: login.password)
        }
        switch outcome {
        case nil: return .pending
        case .valid(let identity)?: return .valid(.verified(identities.append(identity)))
        case .refused?:
            refusals.append((connection, TrustRefusal("wrong user name or password")))
            return .refused(.badUserNameOrPassword)
        case .busy?:
            refusals.append((connection, TrustRefusal("too many passwords are being verified")))
            return .refused(.serverBusy)
        }
    }

    mutating func makeRandomNumber() -> UInt64 { numbers.next() }

    mutating func makeReference() -> UInt64 {
        MessageReferences.make(
            random: numbers.next(), unixMilliseconds: clock.moment().unixMilliseconds)
    }
}

/// The source of session epochs and resume cookies.
package enum RandomNumbers {
    /// The system's unpredictable generator.
    case system
    /// Consecutive numbers after this one, for tests that repeat a run exactly.
    case counted(after: UInt64)

    mutating func next() -> UInt64 {
        switch self {
        case .system: return SystemRandom.number()
        case .counted(let last):
            self = .counted(after: last &+ 1)
            return last &+ 1
        }
    }
}

extension Digest {
    /// The core's form of a digest.
    init(_ digest: SHA256Digest) {
        self = digest.bytes.withUnsafeBytes { Digest(bytes: $0) }
    }
}
