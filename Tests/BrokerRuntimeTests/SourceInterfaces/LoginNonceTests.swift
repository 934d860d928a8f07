// Nonces of logins: each is good once, for five minutes, and only from the broker that made it.

import Primitives
import SourceInterfaces
import Testing

@testable import BrokerRuntime

@Suite struct LoginNonceTests {
    private let nonces = LoginNonces()
    private let start = Instant(milliseconds: 5_000)

    private func refusal(_ text: String, after seconds: UInt64 = 0) -> LoginNonces.Refusal? {
        do throws(LoginNonces.Refusal) {
            try nonces.use(text, at: start.advanced(bySeconds: seconds))
            return nil
        } catch {
            return error
        }
    }

    @Test func `a nonce is good once`() {
        let nonce = nonces.make(at: start)
        #expect(nonce != nonces.make(at: start))
        #expect(refusal(nonce) == nil)
        #expect(refusal(nonce) == .invalid)
        #expect(refusal(nonce, after: SourceLimits.nonceSeconds - 1) == .invalid)
    }

    @Test func `a nonce is good for five minutes`() {
        #expect(refusal(nonces.make(at: start), after: SourceLimits.nonceSeconds - 1) == nil)
        #expect(refusal(nonces.make(at: start), after: SourceLimits.nonceSeconds) == .invalid)
        // One from the future is none.
        #expect(refusal(nonces.make(at: start.advanced(bySeconds: 1))) == .invalid)
    }

    @Test func `what the broker has not made is none`() {
        #expect(refusal(LoginNonces().make(at: start)) == .invalid)
        let nonce = nonces.make(at: start)
        for index in [0, 20, 40, 63] {
            var changed = Array(nonce.utf8)
            changed[index] = changed[index] == UInt8(ascii: "0") ? 0x31 : 0x30
            #expect(refusal(String(decoding: changed, as: UTF8.self)) == .invalid)
        }
        for text in ["", "x", nonce + "0", nonce.uppercased() + "", String(nonce.dropLast()) + "é"]
        where text != nonce {
            #expect(refusal(text) == .invalid)
        }
    }

    @Test func `used nonces are bounded, and forgotten when they are too old`() {
        for _ in 0..<SourceLimits.usedNoncesMaximum {
            #expect(refusal(nonces.make(at: start)) == nil)
        }
        #expect(refusal(nonces.make(at: start)) == .full)
        let later = start.advanced(bySeconds: SourceLimits.nonceSeconds)
        #expect(refusal(nonces.make(at: later), after: SourceLimits.nonceSeconds) == nil)
    }
}
