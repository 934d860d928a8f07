// What clients present, turned into claims that the core can look up: hashes and signatures are
// made and checked here, outside the core's lock, so that no secret and no cryptography enters it.

import BrokerCore
import Credentials
import Dialects
import NetTransport
import Primitives

/// Reads credentials and draws random numbers for one lane.
struct CredentialVerifier: Doorkeeper, ~Copyable {
    private let trust: ClientTrust
    private let clock: BrokerClock
    private var numbers: RandomNumbers
    /// Whom TLS has proved the peer of a connection to be, until it says CONNECT.
    private var proofs: [ConnectionID: Result<VerifiedIdentity, TrustRefusal>] = [:]
    /// What the verified claims of this turn's events refer to.
    private(set) var identities = TurnIdentities()
    /// Why credentials of this turn were refused here.
    private(set) var refusals: [(ConnectionID, TrustRefusal)] = []

    init(trust: ClientTrust, clock: BrokerClock, numbers: RandomNumbers) {
        self.trust = trust
        self.clock = clock
        self.numbers = numbers
    }

    // MARK: - Connections

    /// Notes who the TLS peer of a new connection is, if its certificate or key says so.
    mutating func opened(_ connection: ConnectionID, in loop: borrowing some BrokerLoop & ~Copyable)
    {
        do throws(TrustRefusal) {
            if let certificate = loop.peerCertificate(of: connection) {
                proofs[connection] = .success(try trust.identity(certificate: certificate))
            } else if let identity = loop.preSharedIdentity(of: connection) {
                proofs[connection] = .success(try trust.identity(preShared: identity))
            }
        } catch {
            proofs[connection] = .failure(error)
        }
    }

    mutating func closed(_ connection: ConnectionID) {
        guard !proofs.isEmpty else { return }
        proofs[connection] = nil
    }

    /// The core has taken this turn's events.
    mutating func endTurn() { identities.endTurn() }

    /// The log knows what was refused.
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
            let now = Int64(clock.moment().unixMilliseconds / 1000)
            return .verified(
                identities.append(try trust.identity(webToken: webToken, unixSeconds: now)))
        } catch {
            refusals.append((connection, error))
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

    mutating func makeRandomNumber() -> UInt64 { numbers.next() }
}

/// Where session epochs and resume cookies come from.
package enum RandomNumbers {
    /// The system's generator, which nobody can predict.
    case system
    /// 1, 2, 3 and so on after this number: for tests that repeat a run exactly.
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
