// Certificates for tests, made by the openssl program in a directory of their own.

import Foundation

/// A directory with the certificates of one test authority. It is not removed by itself, so that
/// the log of a failed command remains.
package struct CertificateDirectory: Sendable {
    package let path: String

    /// - Parameter name: names the test in the path.
    package init(_ name: String) {
        path = try! TemporaryDirectory.make(name)
    }

    package func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Makes the self-signed `NAME.pem` and `NAME.key`.
    package func makeAuthority(_ name: String, subject: String) {
        openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
                + " -subj \(subject) -keyout \(name).key -out \(name).pem")
    }

    /// Makes `NAME.pem` and `NAME.key`, signed by the authority `ca`.
    package func issue(_ name: String, subject: String, names: String? = nil, days: Int = 2) {
        let extensions = names.map { " -addext subjectAltName=\($0)" } ?? ""
        openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '\(subject)'\(extensions)"
                + " -keyout \(name).key -out \(name).csr")
        openssl(
            "x509 -req -in \(name).csr -CA ca.pem -CAkey ca.key -CAcreateserial -days \(days)"
                + " -copy_extensions copy -out \(name).pem")
    }

    /// Runs `openssl` in the directory and requires its success.
    package func openssl(_ arguments: String) {
        let status = runShell("cd '\(path)' && exec openssl \(arguments) 2>openssl.log >&2")
        precondition(
            status == 0, "openssl \(arguments): status \(status); see \(path)/openssl.log")
    }
}

/// Runs a shell command and returns its exit status.
package func runShell(_ command: String) -> Int32 {
    let words = ["/bin/sh", "-c", command]
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    defer { arguments.forEach { free($0) } }
    var process: pid_t = 0
    guard posix_spawn(&process, "/bin/sh", nil, nil, &arguments, environ) == 0 else { return -1 }
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 && errno == EINTR {}
    return status >> 8 & 0xFF
}
