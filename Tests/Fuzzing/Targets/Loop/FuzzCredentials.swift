// The credentials of the loop's fuzzing, and their identities: opaque tokens, web tokens, an app
// key, pre-shared keys and a certificate, with various rights.

import BrokerCore
import BrokerRuntime
import Credentials
import NetTransport
import PacketMeanings

enum FuzzCredentials {
    static let app = Array("app".utf8)
    static let method = Array("token".utf8)
    static let appKey = Array("mk1_aaaaaaaaaaaaaaaaaaaaaaaaaa".utf8)
    static let webKeyID = "k"
    static let preSharedIdentities = ["app/bert", "app/gate", "nobody"]
    /// Unix milliseconds of broker time 0.
    static let start: UInt64 = 1_790_000_000_000

    /// Whose rights are worth having: of users by index in FuzzWords/users.
    static let rights: [[String]?] = [
        nil,
        ["publish:only/this", "subscribe:%d/#", "subscribe:a/#", "send:bert"],
        ["subscribe:%u/#", "subscribe:$SYS/#", "presence:*", "group:create", "send:*"],
        [
            "attach:*", "send:*", "publish:#", "subscribe:#", "presence:*", "group:create",
            "broadcast",
        ],
        ["publish:site/%u/#", "subscribe:site/%u/#", "subscribe:$share/+/a/#"],
    ]

    private struct Known {
        let user: [UInt8]
        let device: [UInt8]?
        let rights: [String]?
        /// Seconds after the start; nil for never.
        let expirySeconds: UInt64?
    }

    private static let known: [Known] = [
        Known(user: FuzzWords.users[0], device: nil, rights: nil, expirySeconds: nil),
        Known(user: FuzzWords.users[1], device: nil, rights: nil, expirySeconds: nil),
        Known(user: FuzzWords.users[2], device: nil, rights: rights[1], expirySeconds: nil),
        Known(user: FuzzWords.users[3], device: nil, rights: rights[3], expirySeconds: nil),
        Known(user: FuzzWords.users[4], device: nil, rights: rights[2], expirySeconds: nil),
        Known(
            user: FuzzWords.users[0], device: FuzzWords.devices[1], rights: rights[4],
            expirySeconds: 100),
        Known(user: FuzzWords.users[0], device: nil, rights: rights[1], expirySeconds: 1),
        Known(user: FuzzWords.users[5], device: nil, rights: [], expirySeconds: nil),
    ]

    private static let symbols = Array("abcdefgh".utf8)

    private static func opaqueText(_ index: Int) -> [UInt8] {
        let id = [UInt8](repeating: symbols[index], count: 12)
        let secret = [UInt8](repeating: symbols[index], count: 26)
        return Array("mt1_".utf8) + id + Array("_".utf8) + secret
    }

    /// The tokens that the broker knows at its first start.
    static let opaque: [Token] = known.indices.map { index in
        let text = opaqueText(index)
        guard let token = OpaqueToken(presented: text.span.bytes) else {
            preconditionFailure("no token")
        }
        return Token(
            identifier: Array(token.id.description.utf8), digest: digest(token.digest), app: app,
            user: known[index].user, device: known[index].device,
            expiresUnixSeconds: known[index].expirySeconds.map { start / 1000 + $0 } ?? .max,
            rights: known[index].rights.map(compiled))
    }

    static func digest(_ digest: SHA256Digest) -> Digest {
        digest.bytes.withUnsafeBytes { Digest(bytes: $0) }
    }

    static let appKeyDigest: Digest = {
        guard let key = AppKey(presented: appKey.span.bytes) else { preconditionFailure("no key") }
        return digest(key.digest)
    }()

    static func compiled(_ texts: [String]) -> Rights {
        do throws(RightsError) {
            return try Rights(texts.map { Array($0.utf8) })
        } catch {
            preconditionFailure("rights that are none: \(error)")
        }
    }

    /// The text of a token that was good once, or is no more than one byte wrong.
    static func token(_ choice: UInt8, isJSON: Bool) -> [UInt8] {
        let index = Int(choice & 7)
        var text = isJSON ? web[index] : opaqueTexts[index]
        if choice & 0x10 != 0 { text[text.count - 1] ^= 1 }
        return text
    }

    private static let opaqueTexts = known.indices.map(opaqueText)

    private static let secret = [UInt8](
        repeating: 0x6B, count: VerificationKey.sharedSecretByteCountMinimum)

    private static let web: [[UInt8]] = known.map { known in
        let user = String(decoding: known.user, as: UTF8.self)
        let device = known.device.map { ",\"device\":\"\(String(decoding: $0, as: UTF8.self))\"" }
        let rights = known.rights.map { texts in
            ",\"rights\":[\(texts.map { "\"\($0)\"" }.joined(separator: ","))]"
        }
        let expiry = start / 1000 + (known.expirySeconds ?? 1_000_000)
        let header = base64("{\"typ\":\"JWT\",\"alg\":\"HS256\",\"kid\":\"k\"}")
        let claims = base64(
            "{\"iss\":\"app\",\"sub\":\"\(user)\",\"exp\":\(expiry)"
                + "\(device ?? "")\(rights ?? "")}")
        let signed = header + [0x2E] + claims
        return signed + [0x2E]
            + base64(SHA256Digest(of: signed.span.bytes, key: secret.span.bytes).bytes)
    }

    private static func base64(_ text: String) -> [UInt8] { base64(Array(text.utf8)) }

    private static func base64(_ bytes: [UInt8]) -> [UInt8] {
        let symbols = Array(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
        var (text, bits, count): ([UInt8], UInt32, UInt32) = ([], 0, 0)
        for byte in bytes {
            bits = bits << 8 | UInt32(byte)
            count += 8
            while count >= 6 {
                count -= 6
                text.append(symbols[Int(bits >> count & 63)])
            }
        }
        if count > 0 { text.append(symbols[Int(bits << (6 - count) & 63)]) }
        return text
    }

    static func preSharedIdentity(_ index: Int) -> PreSharedIdentity {
        PreSharedIdentity(
            name: preSharedIdentities[index], keyMark: PreSharedKeys.mark(of: secret))
    }

    /// Whom the broker believes, with the key of the account server or without.
    static func material(withKey: Bool) -> TrustMaterial {
        var material = TrustMaterial()
        for identity in preSharedIdentities { material.preSharedKeys[identity] = secret }
        guard withKey else { return material }
        do throws(CredentialError) {
            material.webTokenKeys.set(
                try VerificationKey(sharedSecret: secret, path: "k"), id: webKeyID, app: "app")
        } catch {
            preconditionFailure("the key of the fuzzing is refused: \(error)")
        }
        return material
    }

    /// A certificate of `app/carl`, in DER.
    static let certificate: [UInt8] = hexadecimal(certificateText[...])

    private static let certificateText = """
        3082017d30820123a003020102021476a009c2620131d402f0bc03f651f73113ac93b0300a06082a\
        8648ce3d04030230133111300f06035504030c086170702f6361726c3020170d3236313132323130\
        303132335a180f32313039303131313130303132335a30133111300f06035504030c086170702f63\
        61726c3059301306072a8648ce3d020106082a8648ce3d030107034200047770852e7facc1497125\
        fc8463e7e3b625f16d44946dbe87b09a3a293ed91dc5b45857d510b8e09cdb3d5a926f90e9d4f032\
        54215a93b18541dcb4bd5d709ceca3533051301d0603551d0e0416041486d00747787b5120c24006\
        d60754b4b3129e98fc301f0603551d2304183016801486d00747787b5120c24006d60754b4b3129e\
        98fc300f0603551d130101ff040530030101ff300a06082a8648ce3d040302034800304502201e44\
        c9c5ee371d74620217765006cdbfd13733c48ad944b31ffa21e7954a17e302210095c736f6a41461\
        dd3e014634fe1d1a4aa546ca02a6c1b088bf538537d703d1b9
        """
}
