// A client's certificate after TLS has verified it: its names, its expiry, and its serial number.
// The caller decides which of the names is the user.
import COpenSSL
import Glibc

/// What a verified certificate says.
public struct ClientCertificate: Hashable, Sendable {
    /// The subject's common name (CN), the most specific where there are several.
    public let commonName: String?
    /// The first alternative name of each kind.
    public let dnsName: String?
    public let uri: String?
    public let email: String?
    /// Unix seconds from which on it is worth nothing.
    public let expiryUnixSeconds: UInt64
    /// What a revocation list calls it: its serial number in hexadecimal and its issuer.
    public let serial: CertificateSerial

    /// Reads a certificate in DER form; nil for bytes that are none, or a name in it that holds a
    /// NUL, which C programs would read as its end.
    public init?(der: [UInt8]) {
        let read = der.withUnsafeBufferPointer { buffer in
            var next = buffer.baseAddress
            return d2i_X509(nil, &next, buffer.count)
        }
        guard let certificate = read else {
            ERR_clear_error()
            return nil
        }
        defer { X509_free(certificate) }
        var end = tm()
        guard ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1,
            let serial = CertificateSerial(
                X509_get0_serialNumber(certificate), issuer: X509_get_issuer_name(certificate))
        else { return nil }
        expiryUnixSeconds = UInt64(max(timegm(&end), 0))
        self.serial = serial
        do {
            commonName = try Self.commonName(X509_get_subject_name(certificate))
            (dnsName, uri, email) = try Self.alternativeNames(certificate)
        } catch {
            return nil
        }
    }

    private struct UnreadableName: Error {}

    private static func commonName(_ subject: OpaquePointer?) throws(UnreadableName) -> String? {
        var (last, next) = (Int32(-1), Int32(-1))
        repeat {
            last = next
            next = X509_NAME_get_index_by_NID(subject, NID_commonName, last)
        } while next >= 0
        guard last >= 0, let entry = X509_NAME_get_entry(subject, last),
            let data = X509_NAME_ENTRY_get_data(entry)
        else { return nil }
        var utf8: UnsafeMutablePointer<UInt8>?
        let count = ASN1_STRING_to_UTF8(&utf8, data)
        guard count >= 0, let utf8 else { throw UnreadableName() }
        defer { CRYPTO_free(utf8, nil, 0) }
        return try text(UnsafeBufferPointer(start: utf8, count: Int(count)))
    }

    private static func alternativeNames(
        _ certificate: OpaquePointer
    ) throws(UnreadableName) -> (dns: String?, uri: String?, email: String?) {
        var found: (dns: String?, uri: String?, email: String?)
        guard
            let names = X509_get_ext_d2i(certificate, NID_subject_alt_name, nil, nil).map(
                OpaquePointer.init)
        else { return found }
        defer {
            OPENSSL_sk_pop_free(names) { name in
                GENERAL_NAME_free(name?.assumingMemoryBound(to: GENERAL_NAME.self))
            }
        }
        for index in 0..<OPENSSL_sk_num(names) {
            guard
                let name = OPENSSL_sk_value(names, index)?.assumingMemoryBound(
                    to: GENERAL_NAME.self)
            else { continue }
            switch name.pointee.type {
            case GEN_DNS where found.dns == nil:
                found.dns = try text(of: name.pointee.d.dNSName)
            case GEN_URI where found.uri == nil:
                found.uri = try text(of: name.pointee.d.uniformResourceIdentifier)
            case GEN_EMAIL where found.email == nil:
                found.email = try text(of: name.pointee.d.rfc822Name)
            default: continue
            }
        }
        return found
    }

    private static func text(
        of string: UnsafeMutablePointer<ASN1_IA5STRING>?
    ) throws(UnreadableName) -> String {
        try text(
            UnsafeBufferPointer(
                start: ASN1_STRING_get0_data(string), count: Int(ASN1_STRING_length(string))))
    }

    private static func text(
        _ bytes: UnsafeBufferPointer<UInt8>
    ) throws(UnreadableName) -> String {
        guard !bytes.contains(0), let text = String(validating: bytes, as: UTF8.self) else {
            throw UnreadableName()
        }
        return text
    }
}

/// What tells a certificate from all others: its number among its issuer's.
public struct CertificateSerial: Hashable, Sendable, CustomStringConvertible {
    /// `4A3F0C /CN=Fleet CA`: for logs, and equal exactly for the same certificate.
    public let description: String

    init?(_ serial: UnsafePointer<ASN1_INTEGER>?, issuer: OpaquePointer?) {
        guard let number = ASN1_INTEGER_to_BN(serial, nil) else { return nil }
        defer { BN_free(number) }
        guard let digits = BN_bn2hex(number) else { return nil }
        defer { CRYPTO_free(digits, nil, 0) }
        guard let name = X509_NAME_oneline(issuer, nil, 0) else { return nil }
        defer { CRYPTO_free(name, nil, 0) }
        description = "\(String(cString: digits)) \(String(cString: name))"
    }
}

/// The certificates that revocation lists name. TLS itself checks the lists at every handshake;
/// this finds the sessions of those who are connected when a list is renewed.
public struct RevokedCertificates: Sendable {
    /// The descriptions of their serial numbers: see ``CertificateSerial/description``.
    public let descriptions: Set<[UInt8]>
    /// Unix seconds at which the first of the lists is over; nil where none says.
    public let expiryUnixSeconds: Int64?

    /// Reads all lists in a PEM file.
    public init(path: String) throws(CredentialError) {
        guard let text = try PEMFile.read(path, byteCountMaximum: Self.byteCountMaximum) else {
            throw .file(call: "open", path: path, code: ENOENT)
        }
        var descriptions: Set<[UInt8]> = []
        var expiry: Int64?
        let listCount = PEMFile.reading(text) { stream -> Int? in
            var count = 0
            while let list = PEM_read_bio_X509_CRL(stream, nil, nil, nil) {
                defer { X509_CRL_free(list) }
                count += 1
                descriptions.formUnion(
                    Self.serials(of: list).lazy.map { Array($0.description.utf8) })
                if let end = Self.end(of: list) { expiry = min(expiry ?? end, end) }
            }
            return count
        }
        guard listCount ?? 0 > 0 else {
            throw .unusable(path: path, reason: "there is no PEM revocation list in it")
        }
        self.descriptions = descriptions
        expiryUnixSeconds = expiry
    }

    /// Lists of a million certificates have about 40 MB.
    static let byteCountMaximum = 64 << 20

    public func contains(_ serial: String) -> Bool {
        descriptions.contains(Array(serial.utf8))
    }

    private static func serials(of list: OpaquePointer) -> [CertificateSerial] {
        let revoked = X509_CRL_get_REVOKED(list)
        return (0..<max(OPENSSL_sk_num(revoked), 0)).compactMap { index in
            let entry = OpaquePointer(OPENSSL_sk_value(revoked, index))
            return CertificateSerial(
                X509_REVOKED_get0_serialNumber(entry), issuer: X509_CRL_get_issuer(list))
        }
    }

    private static func end(of list: OpaquePointer) -> Int64? {
        var end = tm()
        guard let time = X509_CRL_get0_nextUpdate(list), ASN1_TIME_to_tm(time, &end) == 1 else {
            return nil
        }
        return Int64(timegm(&end))
    }
}
