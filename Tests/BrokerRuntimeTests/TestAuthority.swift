// Certificates, revocation lists and web tokens for tests, made by the openssl program and by
// OpenSSL itself in a fresh directory.
import COpenSSL
import Foundation

/// A certificate authority of one test's own.
final class TestAuthority {
    let directory = makeTemporaryDirectory()

    var certificate: String { "\(directory)/ca.pem" }
    var revocationList: String { "\(directory)/crl.pem" }

    init() {
        openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=fleet"
                + " -keyout ca.key -out ca.pem")
        write(
            "[ca]\ndefault_ca = fleet\n[fleet]\ndatabase = index.txt\ncrlnumber = crlnumber\n"
                + "default_md = sha256\ndefault_crl_days = 1\n", to: "ca.cnf")
        write("", to: "index.txt")
        write("01\n", to: "crlnumber")
        issue("server", subject: "/CN=localhost", names: "DNS:localhost,IP:127.0.0.1")
        publishRevocations()
    }

    deinit { _ = run("rm -rf '\(directory)'") }

    /// Makes `NAME.pem` and `NAME.key`.
    func issue(_ name: String, subject: String, names: String? = nil, days: Int = 2) {
        let extensions = names.map { " -addext subjectAltName=\($0)" } ?? ""
        openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '\(subject)'\(extensions)"
                + " -keyout \(name).key -out \(name).csr")
        openssl(
            "x509 -req -in \(name).csr -CA ca.pem -CAkey ca.key -CAcreateserial -days \(days)"
                + " -copy_extensions copy -out \(name).pem")
    }

    func revoke(_ name: String) {
        openssl("ca -config ca.cnf -cert ca.pem -keyfile ca.key -revoke \(name).pem")
        publishRevocations()
    }

    func file(_ name: String) -> String { "\(directory)/\(name)" }

    func write(_ text: String, to name: String, permissions: Int = 0o600) {
        try! text.write(toFile: file(name), atomically: true, encoding: .utf8)
        chmod(file(name), mode_t(permissions))
    }

    private func publishRevocations() {
        openssl("ca -config ca.cnf -cert ca.pem -keyfile ca.key -gencrl -out crl.pem")
    }

    /// Runs `openssl` in the directory and insists on its success.
    private func openssl(_ arguments: String) {
        let status = run("cd '\(directory)' && exec openssl \(arguments) 2>openssl.log >&2")
        precondition(status == 0, "openssl \(arguments) failed; see \(directory)/openssl.log")
    }
}

/// A JSON Web Token signed with a shared secret.
func makeWebToken(
    _ claims: [String: Any], secret: String, kid: String = "k1"
) -> String {
    func encode(_ data: Data) -> String {
        data.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
            .replacing("=", with: "")
    }
    let header = ["typ": "JWT", "alg": "HS256", "kid": kid]
    let parts = [header, claims].map { encode(try! JSONSerialization.data(withJSONObject: $0)) }
    let signed = Array(parts.joined(separator: ".").utf8)
    var (signature, count) = ([UInt8](repeating: 0, count: 32), UInt32(0))
    HMAC(
        EVP_sha256(), secret, Int32(secret.utf8.count), signed, signed.count, &signature, &count)
    return String(decoding: signed, as: UTF8.self) + "." + encode(Data(signature))
}
