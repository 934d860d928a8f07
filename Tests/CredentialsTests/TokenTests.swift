// Tokens and app keys: minted ones can be parsed, and nothing else can.
import Credentials
import Testing

private func read(_ text: String) -> OpaqueToken? {
    OpaqueToken(presented: text.utf8.span.bytes)
}

@Suite struct OpaqueTokenTests {
    @Test func `a minted token is parsed and matches its digest`() throws {
        let (token, text) = OpaqueToken.mint()
        #expect(text.utf8.count == 43)
        let presented = try #require(read(text))
        #expect(presented.id == token.id)
        #expect(presented.digest.matches(token.digest))
        #expect(text.hasPrefix("mt1_\(token.id)_"))
    }

    @Test func `no two tokens share an id or a secret`() {
        let texts = (0..<1000).map { _ in OpaqueToken.mint().text }
        #expect(Set(texts.map { $0.prefix(16) }).count == 1000)
        #expect(Set(texts.map { $0.suffix(26) }).count == 1000)
    }

    @Test func `a token needs no quoting in a shell and no escaping in a URL`() {
        let text = OpaqueToken.mint().text
        #expect(text.allSatisfy { $0.isLowercase || $0.isNumber || $0 == "_" })
    }

    @Test func `another secret under the same id does not match`() throws {
        let (token, _) = OpaqueToken.mint()
        let other = OpaqueToken.mint().text
        let forged = try #require(read("mt1_\(token.id)_\(other.suffix(26))"))
        #expect(forged.id == token.id)
        #expect(!forged.digest.matches(token.digest))
    }

    @Test func `anything but the exact form is not a token`() {
        let text = OpaqueToken.mint().text
        #expect(read("") == nil)
        #expect(read("mt1_") == nil)
        #expect(read(String(text.dropLast())) == nil)
        #expect(read(text + "a") == nil)
        #expect(read(" " + text.dropLast()) == nil)
        #expect(read(text.uppercased()) == nil)
        #expect(read("mt2" + text.dropFirst(3)) == nil)
        #expect(read(text.dropLast() + "1") == nil, "1 is not a symbol")
        #expect(read(text.prefix(16) + "-" + text.suffix(26)) == nil)
        #expect(read(text.dropLast() + "\0") == nil)
    }

    @Test func `an id survives its conversion to a number and to text`() throws {
        let id = OpaqueToken.mint().token.id
        #expect(TokenID(raw: id.raw) == id)
        #expect(TokenID("\(id)") == id)
        #expect(TokenID("aaaaaaaaaaaa")?.raw == 0)
        #expect(TokenID("777777777777")?.raw == 1 << 60 - 1)
        #expect(TokenID("aaaaaaaaaaa") == nil)
        #expect(TokenID("aaaaaaaaaaa1") == nil)
    }
}

@Suite struct AppKeyTests {
    @Test func `a minted key is parsed and matches its digest`() throws {
        let (key, text) = AppKey.mint()
        let presented = AppKey(presented: text.utf8.span.bytes)
        #expect(try #require(presented).digest.matches(key.digest))
        #expect(text.utf8.count == 30)
    }

    @Test func `anything but the exact form is not a key`() {
        let text = AppKey.mint().text
        for wrong in ["", "mk1_", String(text.dropLast()), text + "a", "mk2" + text.dropFirst(3)] {
            let key = AppKey(presented: wrong.utf8.span.bytes)
            #expect(key == nil)
        }
    }
}

@Suite struct SHA256DigestTests {
    private func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    @Test func `the digest of abc is the standard's`() {
        // FIPS 180-2, appendix B.1.
        let digest = SHA256Digest(of: "abc".utf8.span.bytes)
        #expect(
            hexadecimal(digest.bytes)
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    }

    @Test func `the keyed digest is the standard's`() {
        // RFC 4231, test case 2.
        let digest = SHA256Digest(
            of: "what do ya want for nothing?".utf8.span.bytes, key: "Jefe".utf8.span.bytes)
        #expect(
            hexadecimal(digest.bytes)
                == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    }

    @Test func `a stored digest matches only itself`() throws {
        let digest = SHA256Digest(of: "a".utf8.span.bytes)
        #expect(try #require(SHA256Digest(stored: digest.bytes)).matches(digest))
        for index in 0..<SHA256Digest.byteCount {
            var bytes = digest.bytes
            bytes[index] ^= 0x80
            #expect(try #require(SHA256Digest(stored: bytes)).matches(digest) == false)
        }
        #expect(SHA256Digest(stored: digest.bytes.dropLast()) == nil)
        #expect(SHA256Digest(stored: digest.bytes + [0]) == nil)
    }
}

@Suite struct SystemRandomTests {
    @Test func `two random values differ`() {
        #expect(SystemRandom.bytes(count: 32) != SystemRandom.bytes(count: 32))
        #expect(SystemRandom.number() != SystemRandom.number())
    }
}
