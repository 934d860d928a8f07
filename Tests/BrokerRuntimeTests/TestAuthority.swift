// Certificates, revocation lists and web tokens for tests, made by the openssl program and by
// OpenSSL itself in a new directory.

import COpenSSL
import Configuration
import Foundation
import TestSurroundings

/// A certificate authority of one test's own.
final class TestAuthority {
    private let certificates = CertificateDirectory("runtime")
    var directory: String { certificates.path }

    var certificate: String { "\(directory)/ca.pem" }
    var revocationList: String { "\(directory)/crl.pem" }

    init() {
        certificates.makeAuthority("ca", subject: "/CN=fleet")
        write(
            "[ca]\ndefault_ca = fleet\n[fleet]\ndatabase = index.txt\ncrlnumber = crlnumber\n"
                + "default_md = sha256\ndefault_crl_days = 1\n", to: "ca.cnf")
        write("", to: "index.txt")
        write("01\n", to: "crlnumber")
        issue("server", subject: "/CN=localhost", names: "DNS:localhost,IP:127.0.0.1")
        publishRevocations()
    }

    deinit { _ = runShell("rm -rf '\(directory)'") }

    /// Makes `NAME.pem` and `NAME.key`.
    func issue(_ name: String, subject: String, names: String? = nil, days: Int = 2) {
        certificates.issue(name, subject: subject, names: names, days: days)
    }

    /// Settings with one TLS listener that uses the certificate `NAME.pem` and accepts those of
    /// this authority.
    func configure(
        _ settings: inout BrokerSettings, server name: String = "server",
        clients policy: ClientCertificatePolicy
    ) {
        var listener = ListenerSettings.loopback(.tls)
        listener.clientCertificates = policy
        settings.listeners = [listener]
        settings.tls.certificateFile = file("\(name).pem")
        settings.tls.keyFile = file("\(name).key")
        settings.tls.clientAuthorityFile = certificate
        settings.tls.crlFile = revocationList
        settings.tls.clientApp = "demo"
    }

    func revoke(_ name: String) {
        certificates.openssl("ca -config ca.cnf -cert ca.pem -keyfile ca.key -revoke \(name).pem")
        publishRevocations()
    }

    func file(_ name: String) -> String { "\(directory)/\(name)" }

    func write(_ text: String, to name: String, permissions: Int = 0o600) {
        try! text.write(toFile: file(name), atomically: true, encoding: .utf8)
        chmod(file(name), mode_t(permissions))
    }

    private func publishRevocations() {
        certificates.openssl("ca -config ca.cnf -cert ca.pem -keyfile ca.key -gencrl -out crl.pem")
    }
}

/// A JSON Web Token signed with a shared secret.
func makeWebToken(
    _ claims: [String: Any], secret: String, kid: String = "k1", contentType: String? = nil
) -> String {
    func encode(_ data: Data) -> String {
        data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
            .replacing("=", with: "")
    }
    var header = ["typ": "JWT", "alg": "HS256", "kid": kid]
    header["cty"] = contentType
    let parts = [header, claims].map { encode(try! JSONSerialization.data(withJSONObject: $0)) }
    let signed = Array(parts.joined(separator: ".").utf8)
    var (signature, count) = ([UInt8](repeating: 0, count: 32), UInt32(0))
    HMAC(
        EVP_sha256(), secret, Int32(secret.utf8.count), signed, signed.count, &signature, &count)
    return String(decoding: signed, as: UTF8.self) + "." + encode(Data(signature))
}
