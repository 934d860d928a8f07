// An account server for the tests: signs valid and forged JSON Web Tokens with OpenSSL.
import COpenSSL
import Credentials
import Foundation

/// A private key and what the broker gets of it.
final class SigningKey {
    enum Kind {
        case rsa(bitCount: Int32)
        case elliptic(curve: String)
        case ed25519
    }

    private let pointer: OpaquePointer
    private let kind: Kind

    init(_ kind: Kind) {
        self.kind = kind
        let name =
            switch kind {
            case .rsa: "RSA"
            case .elliptic: "EC"
            case .ed25519: "ED25519"
            }
        let context = EVP_PKEY_CTX_new_from_name(nil, name, nil)
        defer { EVP_PKEY_CTX_free(context) }
        precondition(EVP_PKEY_keygen_init(context) == 1)
        switch kind {
        case .rsa(let bitCount):
            precondition(EVP_PKEY_CTX_set_rsa_keygen_bits(context, bitCount) == 1)
        case .elliptic(let curve):
            precondition(EVP_PKEY_CTX_set_group_name(context, curve) == 1)
        case .ed25519: break
        }
        var key: OpaquePointer?
        precondition(EVP_PKEY_generate(context, &key) == 1)
        pointer = key!
    }

    deinit { EVP_PKEY_free(pointer) }

    /// `BEGIN PUBLIC KEY`.
    var publicPEM: [UInt8] { pem { PEM_write_bio_PUBKEY($0, pointer) } }

    /// `BEGIN PRIVATE KEY`.
    var privatePEM: [UInt8] {
        pem { PEM_write_bio_PrivateKey($0, pointer, nil, nil, 0, nil, nil) }
    }

    /// The public half as a JSON Web Key.
    func webKey(kid: String) -> String {
        switch kind {
        case .rsa:
            #"{"kty":"RSA","use":"sig","alg":"RS256","kid":"\#(kid)","#
                + #""n":"\#(number("n"))","e":"\#(number("e"))"}"#
        case .elliptic:
            #"{"kty":"EC","crv":"P-256","kid":"\#(kid)","#
                + #""x":"\#(number("qx", 32))","y":"\#(number("qy", 32))"}"#
        case .ed25519:
            #"{"kty":"OKP","crv":"Ed25519","kid":"\#(kid)","x":"\#(rawPublicKey)"}"#
        }
    }

    /// A number of the public key, big-endian, of as many bytes as it has or as `count` says.
    private func number(_ name: String, _ count: Int? = nil) -> String {
        var number: OpaquePointer?
        precondition(EVP_PKEY_get_bn_param(pointer, name, &number) == 1)
        defer { BN_free(number) }
        let count = count ?? Int(BN_num_bits(number) + 7) / 8
        var bytes = [UInt8](repeating: 0, count: count)
        precondition(BN_bn2binpad(number, &bytes, Int32(count)) == Int32(count))
        return base64URL(bytes)
    }

    private var rawPublicKey: String {
        var bytes = [UInt8](repeating: 0, count: 32)
        var count = bytes.count
        precondition(EVP_PKEY_get_raw_public_key(pointer, &bytes, &count) == 1)
        return base64URL(bytes)
    }

    /// The signature as JWS writes it.
    func sign(_ text: String) -> [UInt8] {
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        var digest = EVP_sha256()
        if case .ed25519 = kind { digest = nil }
        precondition(EVP_DigestSignInit(context, nil, digest, nil, pointer) == 1)
        let input = Array(text.utf8)
        var count = 0
        precondition(EVP_DigestSign(context, nil, &count, input, input.count) == 1)
        var signature = [UInt8](repeating: 0, count: count)
        precondition(EVP_DigestSign(context, &signature, &count, input, input.count) == 1)
        signature.removeLast(signature.count - count)
        if case .elliptic = kind { return Self.rawECDSA(signature) }
        return signature
    }

    /// A whole token.
    func token(header: String, claims: String) -> String {
        let text = "\(base64URL(Array(header.utf8))).\(base64URL(Array(claims.utf8)))"
        return "\(text).\(base64URL(sign(text)))"
    }

    private static func rawECDSA(_ encoded: [UInt8]) -> [UInt8] {
        encoded.withUnsafeBufferPointer { buffer in
            var start = buffer.baseAddress
            let pair = d2i_ECDSA_SIG(nil, &start, buffer.count)
            defer { ECDSA_SIG_free(pair) }
            var raw = [UInt8](repeating: 0, count: 64)
            raw.withUnsafeMutableBufferPointer { raw in
                precondition(BN_bn2binpad(ECDSA_SIG_get0_r(pair), raw.baseAddress, 32) == 32)
                precondition(BN_bn2binpad(ECDSA_SIG_get0_s(pair), raw.baseAddress! + 32, 32) == 32)
            }
            return raw
        }
    }

    private func pem(_ write: (OpaquePointer) -> Int32) -> [UInt8] {
        let stream = BIO_new(BIO_s_mem())!
        defer { BIO_free(stream) }
        precondition(write(stream) == 1)
        var text = [UInt8](repeating: 0, count: 8192)
        let count = BIO_read(stream, &text, Int32(text.count))
        return Array(text[..<Int(count)])
    }
}

/// base64url without padding.
func base64URL(_ bytes: [UInt8]) -> String {
    Data(bytes).base64EncodedString()
        .replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
        .replacingOccurrences(of: "=", with: "")
}
