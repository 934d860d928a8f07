// The keys and lists by which the broker verifies identities: keys of account servers, names in
// client certificates, pre-shared keys. A reload replaces all of them at once while the event loops
// use them.

import BrokerCore
import Configuration
import Credentials
import NetTransport
import SourceInterfaces
import Synchronization
import Threads
import WireFormat

/// The checked contents of the files that a configuration names for client authentication.
package struct TrustMaterial: Sendable {
    package var webTokenKeys = VerificationKeys()
    package var preSharedKeys: [String: [UInt8]] = [:]
    package var revoked: RevokedCertificates?
    package var clientApp: String?
    package var clientName = CertificateName.commonName

    package init() {}

    /// Reads all files that the settings name.
    init(_ settings: BrokerSettings) throws(StartError) {
        do throws(CredentialError) {
            for key in settings.jwt.keys {
                let algorithm = SignatureAlgorithm(key.algorithm)
                webTokenKeys.set(
                    try VerificationKey(path: key.file, algorithm: algorithm), id: key.kid,
                    app: key.app)
            }
            for issuer in settings.jwt.issuers {
                webTokenKeys.set(try TokenIssuer(issuer))
            }
            if let file = settings.tls.pskFile {
                preSharedKeys = try PreSharedKeyFile.read(
                    file,
                    keyByteCounts: PreSharedKeys
                        .keyByteCountMinimum...PreSharedKeys.keyByteCountMaximum,
                    identityByteCountMaximum: PreSharedKeys.identityByteCountMaximum)
            }
            if let file = settings.tls.crlFile { revoked = try RevokedCertificates(path: file) }
        } catch {
            throw .keyFile(error)
        }
        clientApp = settings.tls.clientApp
        clientName = settings.tls.clientName
    }

    /// The keys and lists that vouch for identities, in the core's form.
    package var vouchers: VoucherTrust {
        var webTokenMarks: [VoucherTrust.WebTokenKey: UInt64] = [:]
        webTokenKeys.forEachMark { app, id, mark in
            let key = VoucherTrust.WebTokenKey(app: Array(app.utf8), voucher: Array(id.utf8))
            webTokenMarks[key] = mark
        }
        var preSharedMarks: [[UInt8]: UInt64] = [:]
        for (identity, key) in preSharedKeys {
            preSharedMarks[Array(identity.utf8)] = PreSharedKeys.mark(of: key)
        }
        return VoucherTrust(
            webTokenKeys: webTokenMarks, preSharedIdentities: preSharedMarks,
            revokedCertificates: revoked?.descriptions ?? [])
    }
}

/// Why a credential was refused, for the log.
struct TrustRefusal: Error {
    let detail: String

    init(_ detail: String) { self.detail = detail }
}

/// The trust material, shared by all event loops.
package final class ClientTrust: Sendable {
    /// Used by OpenSSL during handshakes.
    let preSharedKeys = PreSharedKeys()
    private let material: Locked<TrustMaterial>
    /// How often the material was replaced.
    private let replacements = Atomic<UInt64>(0)

    package init(_ material: TrustMaterial) {
        self.material = Locked(material)
        preSharedKeys.replace(with: material.preSharedKeys)
    }

    /// Replaces all trust material.
    package func replace(with new: TrustMaterial) {
        material.withLock { $0 = new }
        replacements.add(1, ordering: .sequentiallyConsistent)
        preSharedKeys.replace(with: new.preSharedKeys)
    }

    /// Increases when the material is replaced: what earlier keys have verified counts no more.
    var generation: UInt64 { replacements.load(ordering: .sequentiallyConsistent) }

    /// The keys and lists that vouch for identities now.
    package var vouchers: VoucherTrust { material.withLock { $0.vouchers } }

    /// When the first of the revocation lists expires; nil without one.
    var revocationListExpiryUnixSeconds: Int64? {
        material.withLock { $0.revoked?.expiryUnixSeconds }
    }

    // MARK: - Verifying

    /// The identity of a JSON Web Token's bearer.
    func identity(
        webToken bytes: RawSpan, unixSeconds: Int64
    ) throws(TrustRefusal) -> VerifiedIdentity {
        let token = try token(verifying: bytes, unixSeconds: unixSeconds)
        // It is good for one login with its nonce: whoever reads it in a log has no credential.
        guard token.contentType != DiuitLogin.contentType else {
            throw TrustRefusal("web token: its cty is that of a login of Diuit")
        }
        guard Self.isIdentifier(token.app), Self.isIdentifier(token.user),
            token.device.map(Self.isDevice) ?? true
        else { throw TrustRefusal("web token: the app, the user or the device is not a valid id") }
        var rights: Rights?
        if let texts = token.rights {
            // A denial that cannot be read must not be left out.
            let claimed = token.claimedRights.filter { $0.hasPrefix("!") || Self.isRight($0) }
            do throws(RightsError) {
                rights = try Rights((texts + claimed).map { Array($0.utf8) })
            } catch {
                throw TrustRefusal("web token: \(error)")
            }
        }
        return VerifiedIdentity(
            proof: .webToken, app: Array(token.app.utf8), user: Array(token.user.utf8),
            device: token.device.map { Array($0.utf8) }, rights: rights,
            expiresUnixSeconds: UInt64(token.expiryUnixSeconds), voucher: Array(token.voucher.utf8),
            key: .mark(token.keyMark))
    }

    /// A JSON Web Token whose signature and times are right. Its names may be none.
    func token(
        verifying bytes: RawSpan, unixSeconds: Int64
    ) throws(TrustRefusal) -> JSONWebToken {
        let keys = material.withLock { $0.webTokenKeys }
        do throws(JSONWebTokenError) {
            return try JSONWebToken(verifying: bytes, keys: keys, unixSeconds: unixSeconds)
        } catch {
            throw TrustRefusal("web token: \(error)")
        }
    }

    /// The identity that a verified client certificate names.
    func identity(certificate der: [UInt8]) throws(TrustRefusal) -> VerifiedIdentity {
        guard let certificate = ClientCertificate(der: der) else {
            throw TrustRefusal("the certificate cannot be read")
        }
        let name: String? =
            switch material.withLock({ $0.clientName }) {
            case .commonName: certificate.commonName
            case .dnsName: certificate.dnsName
            case .uri: certificate.uri
            case .email: certificate.email
            }
        guard let name else { throw TrustRefusal("the certificate has no name of this kind") }
        return try identity(
            name, .certificate, voucher: certificate.serial.description, key: .named,
            expiresUnixSeconds: certificate.expiryUnixSeconds)
    }

    /// The identity that a pre-shared key belongs to.
    func identity(
        preShared identity: PreSharedIdentity
    ) throws(TrustRefusal) -> VerifiedIdentity {
        try self.identity(
            identity.name, .preSharedKey, voucher: identity.name, key: .mark(identity.keyMark),
            expiresUnixSeconds: .max)
    }

    /// Reads `APP/USER`, or a user of the app that the settings name.
    private func identity(
        _ name: String, _ proof: VerifiedIdentity.Proof, voucher: String, key: VoucherKey,
        expiresUnixSeconds: UInt64
    ) throws(TrustRefusal) -> VerifiedIdentity {
        let parts = name.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        let named: String? = parts.count == 2 ? parts[0] : material.withLock { $0.clientApp }
        guard let app = named else {
            throw TrustRefusal("\"\(name)\" names no app, and tls.clientApp is not set")
        }
        guard parts.count <= 2, Self.isIdentifier(app), Self.isIdentifier(parts[parts.count - 1])
        else { throw TrustRefusal("\"\(name)\" is neither USER nor APP/USER") }
        return VerifiedIdentity(
            proof: proof, app: Array(app.utf8), user: Array(parts[parts.count - 1].utf8),
            expiresUnixSeconds: expiresUnixSeconds, voucher: Array(voucher.utf8), key: key)
    }

    private static func isIdentifier(_ text: String) -> Bool {
        TextRules.isIdentifier(Array(text.utf8).span.bytes)
    }

    fileprivate static func isRight(_ text: String) -> Bool {
        (try? Rights([Array(text.utf8)])) != nil
    }

    private static func isDevice(_ text: String) -> Bool {
        TextRules.isDevice(Array(text.utf8).span.bytes)
    }
}

extension TokenIssuer {
    /// Reads the keys and the templates of an identity provider.
    fileprivate init(_ settings: TokenIssuerSettings) throws(CredentialError) {
        func unusable(_ reason: String) -> CredentialError {
            .unusable(path: "jwt.issuers, \(settings.issuer)", reason: reason)
        }
        func template(_ text: String) throws(CredentialError) -> ClaimTemplate {
            do throws(ClaimTemplateError) {
                return try ClaimTemplate(text)
            } catch {
                throw unusable("a template \(error)")
            }
        }
        self.init(
            name: settings.issuer, audience: settings.audience, app: settings.app,
            keys: try JSONWebKeySet(path: settings.file), user: try template(settings.user),
            device: try settings.device.map(template),
            rights: try settings.rights.map { (texts) throws(CredentialError) in
                var templates: [ClaimTemplate] = []
                for text in texts {
                    let right = try template(text)
                    if let literal = right.literal, !ClientTrust.isRight(literal) {
                        throw unusable("\"\(literal)\" is not a right")
                    }
                    templates.append(right)
                }
                return templates
            })
    }
}

extension SignatureAlgorithm {
    fileprivate init(_ algorithm: WebTokenAlgorithm) {
        switch algorithm {
        case .rs256: self = .rs256
        case .es256: self = .es256
        case .edDSA: self = .edDSA
        case .hs256: self = .hs256
        }
    }
}
