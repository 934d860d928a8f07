// Development certificates against real files and OpenSSL's own verification.
import COpenSSL
import Credentials
import Glibc
import Testing

/// A fresh directory that is gone with the test.
private final class TemporaryDirectory {
    let path: String

    init() throws {
        var template = Array("/tmp/martlet-certificates-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw POSIXFailure(code: errno) }
        path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }

    deinit {
        for name in ["ca.pem", "ca-key.pem", "server.pem", "server-key.pem"] {
            unlink("\(path)/\(name)")
        }
        rmdir(path)
    }
}

private struct POSIXFailure: Error {
    let code: Int32
}

private let day: Int64 = 86_400

@Suite struct DevelopmentCertificatesTests {
    private let directory: TemporaryDirectory
    private let now = Int64(time(nil))

    init() throws {
        directory = try TemporaryDirectory()
    }

    private func ensure(
        hostName: String = "gateway-7.example", after seconds: Int64 = 0
    ) throws -> DevelopmentCertificates {
        try DevelopmentCertificates.ensure(
            directory: directory.path, hostName: hostName, unixSeconds: now + seconds)
    }

    /// Whether OpenSSL, given only the authority, accepts the server as this host.
    private func isTrusted(
        _ files: DevelopmentCertificates, as host: String, after seconds: Int64 = 0
    ) -> Bool {
        let store = X509_STORE_new()
        defer { X509_STORE_free(store) }
        guard X509_STORE_load_file(store, files.authorityCertificateFile) == 1,
            let stream = BIO_new_file(files.serverCertificateFile, "r")
        else { return false }
        defer { BIO_free(stream) }
        let server = PEM_read_bio_X509(stream, nil, nil, nil)
        defer { X509_free(server) }
        let context = X509_STORE_CTX_new()
        defer { X509_STORE_CTX_free(context) }
        guard X509_STORE_CTX_init(context, store, server, nil) == 1,
            X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_SERVER) == 1
        else { return false }
        X509_STORE_CTX_set_time(context, 0, time_t(now + seconds))
        return X509_verify_cert(context) == 1
            && (X509_check_host(server, host, 0, 0, nil) == 1
                || X509_check_ip_asc(server, host, 0) == 1)
    }

    private func permissions(_ path: String) -> mode_t {
        var information = stat()
        return stat(path, &information) == 0 ? information.st_mode & 0o777 : 0
    }

    @Test func `the first start creates a server certificate of the authority`() throws {
        let files = try ensure()
        #expect(files.outcome == .created)
        for host in ["localhost", "127.0.0.1", "::1", "gateway-7.example"] {
            #expect(isTrusted(files, as: host), "\(host)")
        }
        #expect(!isTrusted(files, as: "elsewhere.example"))
    }

    @Test func `keys are readable by their owner only`() throws {
        let files = try ensure()
        #expect(permissions(files.serverKeyFile) == 0o600)
        #expect(permissions("\(directory.path)/ca-key.pem") == 0o600)
        #expect(permissions(files.authorityCertificateFile) == 0o644)
    }

    @Test func `the next start keeps them`() throws {
        #expect(try ensure().outcome == .created)
        #expect(try ensure().outcome == .kept)
        #expect(try ensure(after: 300 * day).outcome == .kept)
    }

    @Test func `a server certificate with less than 30 days is renewed under its authority`() throws
    {
        _ = try ensure()
        let renewed = try ensure(after: 340 * day)
        #expect(renewed.outcome == .renewed)
        #expect(isTrusted(renewed, as: "localhost", after: 340 * day))
        #expect(isTrusted(renewed, as: "localhost", after: 340 * day - 3000), "clocks may lag")
        #expect(try ensure(after: 340 * day).outcome == .kept)
    }

    @Test func `an expiring authority is replaced together with its server certificate`() throws {
        _ = try ensure()
        #expect(try ensure(after: 3640 * day).outcome == .created)
    }

    @Test func `a new host name creates a new server certificate`() throws {
        _ = try ensure()
        let renewed = try ensure(hostName: "other.example")
        #expect(renewed.outcome == .renewed)
        #expect(isTrusted(renewed, as: "other.example"))
    }

    @Test func `a key that does not match is replaced`() throws {
        let files = try ensure()
        #expect(rename("\(directory.path)/ca-key.pem", files.serverKeyFile) == 0)
        #expect(try ensure().outcome == .created, "the authority's own key is gone")
        #expect(try ensure().outcome == .kept)
    }

    @Test func `a damaged file is replaced`() throws {
        let files = try ensure()
        #expect(truncate(files.serverCertificateFile, 100) == 0)
        #expect(try ensure().outcome == .renewed)
    }

    @Test func `an invalid host name is omitted`() throws {
        let files = try ensure(hostName: "a,DNS:bank.example")
        #expect(!isTrusted(files, as: "bank.example"))
        #expect(isTrusted(files, as: "localhost"))
    }

    @Test func `an error names a directory that cannot be created`() {
        #expect(
            throws: CredentialError.file(
                call: "mkdir", path: "/proc/none/here", code: ENOENT)
        ) {
            try DevelopmentCertificates.ensure(
                directory: "/proc/none/here", hostName: "a", unixSeconds: now)
        }
    }
}
