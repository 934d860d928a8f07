// Real certificates for the tests, made once per run by the openssl program in a fresh directory.
import Glibc

/// A certificate authority, a server certificate for `localhost` and 127.0.0.1, a client
/// certificate for `device-7`, and an authority that has signed nothing.
struct TestCertificates: Sendable {
    static let shared = TestCertificates()

    let directory: String

    var authority: String { "\(directory)/ca.pem" }
    var strangeAuthority: String { "\(directory)/strange.pem" }
    var server: String { "\(directory)/server.pem" }
    var serverKey: String { "\(directory)/server.key" }
    var client: String { "\(directory)/client.pem" }
    var clientKey: String { "\(directory)/client.key" }

    private init() {
        directory = makeTemporaryDirectory()
        for name in ["ca", "strange"] {
            openssl(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
                    + " -subj /CN=\(name) -keyout \(name).key -out \(name).pem")
        }
        issue("server", subject: "/CN=localhost", names: "DNS:localhost,IP:127.0.0.1")
        issue("client", subject: "/CN=device-7", names: "DNS:device-7")
    }

    private func issue(_ name: String, subject: String, names: String) {
        openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj \(subject)"
                + " -addext subjectAltName=\(names) -keyout \(name).key -out \(name).csr")
        openssl(
            "x509 -req -in \(name).csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2"
                + " -copy_extensions copy -out \(name).pem")
    }

    /// Runs `openssl` in the directory and insists on its success.
    private func openssl(_ arguments: String) {
        let status = run("cd '\(directory)' && exec openssl \(arguments) 2>openssl.log >&2")
        precondition(status == 0, "openssl \(arguments) failed; see \(directory)/openssl.log")
    }
}

/// A new directory of this test run's own.
func makeTemporaryDirectory() -> String {
    var template = Array("/tmp/martlet-net-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { preconditionFailure("mkdtemp: errno \(errno)") }
    return template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
}

/// Runs a shell command and gives its exit status.
func run(_ command: String) -> Int32 {
    let words = ["/bin/sh", "-c", command]
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    defer { arguments.forEach { free($0) } }
    var process: pid_t = 0
    guard posix_spawn(&process, "/bin/sh", nil, nil, &arguments, environ) == 0 else { return -1 }
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 && errno == EINTR {}
    return status
}
