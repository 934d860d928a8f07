// The nonces of logins with a JWT. A nonce is signed by the broker and says when it was made, so
// that nothing is kept of those that nobody uses; used ones are remembered until they are too old.
//
//     milliseconds, 8 | random, 8 | HMAC-SHA-256 of both, first 16 bytes      in hexadecimal

import Credentials
import Primitives
import SourceInterfaces
import Threads
import WireFormat

/// Makes nonces, and lets each be used once.
final class LoginNonces: Sendable {
    /// Random, of this process: a restart ends all nonces.
    private let key: [UInt8]
    private let used = Locked(Used())

    /// What a nonce says beside its signature.
    private struct Content: BitwiseCopyable {
        let made: Instant
        let number: UInt64
    }

    private struct Used: ~Copyable {
        var numbers: Set<UInt64> = []
        /// In the order of their use, which is nearly that of their age: one that stays behind a
        /// younger one stays for its time at most.
        var order = Ring<Content>()
    }

    /// Why a nonce is not accepted.
    enum Refusal: Error {
        /// It is from elsewhere, too old, or used.
        case invalid
        /// Too many were used lately.
        case full
    }

    init() {
        key = (0..<32).map { _ in UInt8.random(in: 0...(.max)) }
    }

    func make(at now: Instant) -> String {
        let content = Content(made: now, number: UInt64.random(in: 0...(.max)))
        return text(of: content)
    }

    /// Uses a nonce up.
    func use(_ text: String, at now: Instant) throws(Refusal) {
        let digits = Array(text.utf8)
        guard digits.count == 64,
            let made = UInt64(hexadecimal: digits.span.bytes.extracting(0..<16)),
            let number = UInt64(hexadecimal: digits.span.bytes.extracting(16..<32))
        else { throw .invalid }
        let content = Content(made: Instant(milliseconds: made), number: number)
        guard Array(self.text(of: content).utf8) == digits, content.made <= now,
            Self.isFresh(content, at: now)
        else { throw .invalid }
        let refusal: Refusal? = used.withLock { used in
            while !used.order.isEmpty, !Self.isFresh(used.order[0], at: now) {
                used.numbers.remove(used.order.removeFirst().number)
            }
            if used.numbers.contains(number) { return .invalid }
            guard used.order.count < SourceLimits.usedNoncesMaximum else { return .full }
            used.numbers.insert(number)
            used.order.append(content)
            return nil
        }
        if let refusal { throw refusal }
    }

    private static func isFresh(_ content: Content, at now: Instant) -> Bool {
        now.milliseconds(since: content.made) < SourceLimits.nonceSeconds * 1_000
    }

    private func text(of content: Content) -> String {
        var signed: [UInt8] = []
        let key = self.key
        signed.append(hexadecimal: content.made.milliseconds)
        signed.append(hexadecimal: content.number)
        let digest = SHA256Digest(of: signed.span.bytes, key: key.span.bytes).bytes
        for start in [0, 8] {
            signed.append(
                hexadecimal: digest[start..<start + 8].reduce(0) { $0 << 8 | UInt64($1) })
        }
        return String(decoding: signed, as: UTF8.self)
    }
}
