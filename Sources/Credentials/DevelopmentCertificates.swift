// Certificates for `martletd --dev`: a private authority and a server certificate that it signs,
// made on the spot, so that the first message already runs over TLS. They are for development: the
// authority's key lies beside them, and whoever has it can pose as this broker.
import COpenSSL
import Glibc

/// A development authority and server certificate in a directory.
public struct DevelopmentCertificates: Sendable {
    /// What ``ensure(directory:hostName:addresses:unixSeconds:)`` found and did.
    public enum Outcome: Hashable, Sendable {
        /// Both were there and stay good for a while.
        case kept
        /// The authority stays, so clients need nothing new; the server certificate is new.
        case renewed
        /// Both are new: clients need the new authority certificate.
        case created
    }

    /// What clients trust: `ca.pem`.
    public let authorityCertificateFile: String
    /// What the broker shows: `server.pem`.
    public let serverCertificateFile: String
    /// Its private key: `server-key.pem`.
    public let serverKeyFile: String
    public let outcome: Outcome

    /// A certificate with less time than this is replaced at the next start: 30 days, the warning
    /// time that operators know from public authorities.
    public static let remainingSecondsMinimum: Int64 = 30 * 86_400
    /// One year: within the 398 days that strict clients accept of a server certificate.
    static let serverLifetimeSeconds: Int64 = 365 * 86_400
    /// Ten years: an authority compiled into firmware under test should not run out.
    static let authorityLifetimeSeconds: Int64 = 10 * 365 * 86_400

    /// Makes what is missing, ends soon, or does not fit, and keeps the rest.
    ///
    /// The server certificate names `localhost`, `127.0.0.1`, `::1`, the host's name and its
    /// addresses. Keys are readable by their owner only (0600), certificates by all (0644): they
    /// are public.
    ///
    /// - Parameters:
    ///   - directory: is made with 0700 if it is not there; its parent must be. It is refused
    ///     where another user owns it or may write in it.
    ///   - hostName: the name other machines know this one by.
    ///   - addresses: where they reach it, for who has no name for it.
    ///   - unixSeconds: the time now.
    public static func ensure(
        directory: String, hostName: String = localHostName(),
        addresses: [String] = localAddresses(), unixSeconds: Int64
    ) throws(CredentialError) -> DevelopmentCertificates {
        try PrivateDirectory.ensure(directory)
        let authorityFiles = CertificateFiles(directory: directory, name: "ca")
        let serverFiles = CertificateFiles(directory: directory, name: "server")
        let names =
            ["localhost", "127.0.0.1", "::1"] + [hostName].filter(isUsableName) + addresses

        if let authority = try authorityFiles.load(unixSeconds: unixSeconds, signer: nil) {
            if let server = try serverFiles.load(unixSeconds: unixSeconds, signer: authority.key),
                server.covers(names)
            {
                return result(authority: authorityFiles, server: serverFiles, outcome: .kept)
            }
            try makeServer(serverFiles, authority, names: names, unixSeconds: unixSeconds)
            return result(authority: authorityFiles, server: serverFiles, outcome: .renewed)
        }
        let authority = try CertifiedKey.make(
            subject: "Martlet development authority", extensions: CertifiedKey.authorityExtensions,
            unixSeconds: unixSeconds, lifetimeSeconds: authorityLifetimeSeconds, signer: nil)
        try authorityFiles.save(authority)
        try makeServer(serverFiles, authority, names: names, unixSeconds: unixSeconds)
        return result(authority: authorityFiles, server: serverFiles, outcome: .created)
    }

    /// Where ``ensure(directory:hostName:addresses:unixSeconds:)`` puts the server certificate of a
    /// directory.
    public static func serverCertificateFile(in directory: String) -> String {
        CertificateFiles(directory: directory, name: "server").certificateFile
    }

    /// Where it puts the server's key.
    public static func serverKeyFile(in directory: String) -> String {
        CertificateFiles(directory: directory, name: "server").keyFile
    }

    /// The name of this machine, `localhost` where it has none.
    public static func localHostName() -> String {
        // 64 is HOST_NAME_MAX on Linux; the extra byte keeps the terminator.
        var buffer = [CChar](repeating: 0, count: 65)
        guard gethostname(&buffer, 64) == 0, buffer[0] != 0 else { return "localhost" }
        return buffer.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }

    /// The IPv4 addresses by which other machines reach this one. Those of IPv6 change too often to
    /// stand in a certificate.
    public static func localAddresses() -> [String] {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return [] }
        defer { freeifaddrs(list) }
        var addresses: [String] = []
        var next = list
        while let entry = next?.pointee {
            next = entry.ifa_next
            guard let address = entry.ifa_addr, address.pointee.sa_family == sa_family_t(AF_INET),
                entry.ifa_flags & UInt32(IFF_LOOPBACK) == 0
            else { continue }
            var text = [CChar](repeating: 0, count: Int(INET_ADDRSTRLEN))
            let isText =
                getnameinfo(
                    address, socklen_t(MemoryLayout<sockaddr_in>.size), &text,
                    socklen_t(text.count), nil, 0, NI_NUMERICHOST) == 0
            if isText {
                addresses.append(text.withUnsafeBufferPointer { String(cString: $0.baseAddress!) })
            }
        }
        return addresses.sorted()
    }

    private static func makeServer(
        _ files: CertificateFiles, _ authority: CertifiedKey, names: [String],
        unixSeconds: Int64
    ) throws(CredentialError) {
        let server = try CertifiedKey.make(
            subject: "Martlet development broker",
            extensions: CertifiedKey.serverExtensions(names: names), unixSeconds: unixSeconds,
            lifetimeSeconds: serverLifetimeSeconds, signer: authority)
        try files.save(server)
    }

    private static func result(
        authority: CertificateFiles, server: CertificateFiles, outcome: Outcome
    ) -> DevelopmentCertificates {
        DevelopmentCertificates(
            authorityCertificateFile: authority.certificateFile,
            serverCertificateFile: server.certificateFile, serverKeyFile: server.keyFile,
            outcome: outcome)
    }

    /// Whether a host name can be written into a list of alternative names: letters, digits, dots
    /// and hyphens [RFC 1123]. Anything else could say more than a name to OpenSSL's text form.
    private static func isUsableName(_ name: String) -> Bool {
        name != "localhost" && !name.isEmpty
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }
}

/// Where a certificate and its key lie.
private struct CertificateFiles {
    let certificateFile: String
    let keyFile: String

    init(directory: String, name: String) {
        certificateFile = "\(directory)/\(name).pem"
        keyFile = "\(directory)/\(name)-key.pem"
    }

    /// What is there, if it is whole, belongs together, is signed by `signer` (itself for nil) and
    /// lasts long enough; nil means that it has to be made.
    func load(
        unixSeconds: Int64, signer: OwnedKey?
    ) throws(CredentialError) -> CertifiedKey? {
        guard let certificateText = try PEMFile.read(certificateFile),
            let keyText = try PrivateFile.read(keyFile),
            let certificate = PEMFile.reading(
                certificateText, { PEM_read_bio_X509($0, nil, nil, nil) })
        else { return nil }
        let owned = OwnedCertificate(taking: certificate)
        guard let key = PEMFile.reading(keyText, { PEM_read_bio_PrivateKey($0, nil, nil, nil) })
        else { return nil }
        let pair = CertifiedKey(certificate: owned, key: OwnedKey(taking: key))
        // A pair that is not good is an answer; its reasons must not stay on OpenSSL's queue.
        defer { ERR_clear_error() }
        return pair.isGood(unixSeconds: unixSeconds, signer: signer ?? pair.key) ? pair : nil
    }

    /// The key goes first: a crash in between leaves a pair that does not fit, which `load` sees.
    func save(_ pair: CertifiedKey) throws(CredentialError) {
        let key = pair.key.pointer
        let certificate = pair.certificate.pointer
        let keyText = try PEMFile.text("PEM_write_bio_PrivateKey") {
            PEM_write_bio_PrivateKey($0, key, nil, nil, 0, nil, nil)
        }
        try PEMFile.write(keyText, to: keyFile, permissions: 0o600)
        let certificateText = try PEMFile.text("PEM_write_bio_X509") {
            PEM_write_bio_X509($0, certificate)
        }
        try PEMFile.write(certificateText, to: certificateFile, permissions: 0o644)
    }
}
