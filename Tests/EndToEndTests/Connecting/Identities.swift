// An account server and a certificate authority made with the openssl program, so that the broker
// verifies nothing that its own code has created.

import Foundation
import TestSurroundings

/// A directory of keys and certificates for one test.
final class Identities {
    private let files: TemporaryDirectory
    var directory: String { files.path }

    init() throws {
        files = try TemporaryDirectory("identities")
    }

    func file(_ name: String) -> String { files.file(name) }

    func write(_ bytes: [UInt8], to name: String) throws {
        try Data(bytes).write(to: URL(filePath: file(name)))
        chmod(file(name), 0o600)
    }

    func read(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: URL(filePath: file(name))))
    }

    /// Runs `openssl` in the directory and insists on its success.
    func openssl(_ arguments: String...) async throws {
        let line = arguments.joined(separator: " ")
        let child = try ChildProcess("/bin/sh", ["-c", "cd '\(directory)' && openssl \(line)"])
        guard try await child.exit() == .code(0) else {
            throw TestFailure("openssl \(line):\n\(child.text)")
        }
    }

    // MARK: - Web tokens

    /// Makes `NAME.key` and, for the broker, `NAME.pub`.
    func makeKey(_ name: String, _ algorithm: String) async throws {
        switch algorithm {
        case "RS256":
            try await openssl(
                "genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out \(name).key")
        case "ES256":
            try await openssl(
                "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out \(name).key")
        case "EdDSA":
            try await openssl("genpkey -algorithm ED25519 -out \(name).key")
        default:
            try write((0..<32).map { _ in UInt8.random(in: 65...90) }, to: "\(name).key")
            try write(read("\(name).key"), to: "\(name).pub")
            return
        }
        try await openssl("pkey -in \(name).key -pubout -out \(name).pub")
    }

    /// A token whose header claims `algorithm`, signed with `NAME.key` by `signer`, or not at all.
    func token(
        _ name: String, claims: String, algorithm: String, signedAs signer: String? = nil
    ) async throws -> String {
        let header = #"{"typ":"JWT","alg":"\#(algorithm)","kid":"\#(name)"}"#
        let signed = Self.encode(Array(header.utf8)) + "." + Self.encode(Array(claims.utf8))
        try write(Array(signed.utf8), to: "signed")
        switch signer ?? algorithm {
        case "RS256":
            try await openssl("dgst -sha256 -sign \(name).key -out signature signed")
        case "ES256":
            try await openssl("dgst -sha256 -sign \(name).key -out signature signed")
            try write(try Self.fixedSignature(read("signature")), to: "signature")
        case "EdDSA":
            try await openssl("pkeyutl -sign -rawin -inkey \(name).key -in signed -out signature")
        case "HS256":
            let key = try read("\(name).pub").map { String(format: "%02x", $0) }.joined()
            try await openssl(
                "dgst -sha256 -mac HMAC -macopt hexkey:\(key) -binary -out signature signed")
        default:
            try write([], to: "signature")
        }
        return signed + "." + Self.encode(try read("signature"))
    }

    private static func encode(_ bytes: [UInt8]) -> String {
        Data(bytes).base64EncodedString().replacing("+", with: "-").replacing("/", with: "_")
            .replacing("=", with: "")
    }

    /// The two numbers of an ECDSA signature in 32 bytes each, as JWS has them, from DER.
    private static func fixedSignature(_ der: [UInt8]) throws -> [UInt8] {
        var fixed: [UInt8] = []
        var offset = 2
        for _ in 0..<2 {
            guard offset + 2 <= der.count, der[offset] == 2 else { throw TestFailure("no DER") }
            let end = offset + 2 + Int(der[offset + 1])
            let number = der[(offset + 2)..<end].drop { $0 == 0 }
            fixed += Array(repeating: 0, count: 32 - number.count) + number
            offset = end
        }
        return fixed
    }

    // MARK: - Certificates

    /// Makes an authority with an empty list of revocations: `ca.pem` and `crl.pem`.
    func makeAuthority() async throws {
        try await openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=fleet",
            "-keyout ca.key -out ca.pem")
        let settings =
            "[ca]\ndefault_ca = fleet\n[fleet]\ndatabase = index.txt\ncrlnumber = crlnumber\n"
            + "default_md = sha256\ndefault_crl_days = 1\n"
        try write(Array(settings.utf8), to: "ca.cnf")
        try write([], to: "index.txt")
        try write(Array("01\n".utf8), to: "crlnumber")
        try await publishRevocations()
    }

    /// Makes `USER.pem` and `USER.key`.
    func issue(_ user: String) async throws {
        try await openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=\(user)",
            "-keyout \(user).key -out \(user).csr")
        try await openssl(
            "x509 -req -in \(user).csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2",
            "-out \(user).pem")
    }

    func revoke(_ user: String) async throws {
        try await openssl("ca -config ca.cnf -cert ca.pem -keyfile ca.key -revoke \(user).pem")
        try await publishRevocations()
    }

    private func publishRevocations() async throws {
        try await openssl("ca -config ca.cnf -cert ca.pem -keyfile ca.key -gencrl -out crl.pem")
    }
}
