// Real certificates for the tests, made once per run by the openssl program.

import TestSurroundings

/// A certificate authority, a server certificate for `localhost` and 127.0.0.1, a client
/// certificate for `device-7`, and an authority that has signed nothing.
struct TestCertificates: Sendable {
    static let shared = TestCertificates()

    private let certificates = CertificateDirectory("net")

    var directory: String { certificates.path }
    var authority: String { certificates.file("ca.pem") }
    var strangeAuthority: String { certificates.file("strange.pem") }
    var server: String { certificates.file("server.pem") }
    var serverKey: String { certificates.file("server.key") }
    var client: String { certificates.file("client.pem") }
    var clientKey: String { certificates.file("client.key") }

    private init() {
        for name in ["ca", "strange"] {
            certificates.makeAuthority(name, subject: "/CN=\(name)")
        }
        certificates.issue(
            "server", subject: "/CN=localhost", names: "DNS:localhost,IP:127.0.0.1")
        certificates.issue("client", subject: "/CN=device-7", names: "DNS:device-7")
    }
}
