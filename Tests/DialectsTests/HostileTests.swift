// Malicious and damaged bytes: they give events, refusals or the end of the connection, and never
// end the broker.

import BrokerCore
import Primitives
import Testing
import WireFormat

@testable import Dialects

@Suite("A hostile stream")
struct HostileTests {
    private let loop = TestLoop()

    private static let packets = [
        "connect-token", "connect-again", "send-user-durable", "send-all-options", "send-list",
        "send-topic-raw", "ack-both", "request-subscribe", "request-unsubscribe",
        "request-set-will", "request-set-will-raw", "request-clear-will", "request-presence",
        "request-group-create", "request-group-join", "request-group-kick", "request-group-list",
        "request-group-describe", "request-group-set-allow-list", "pingreq", "disconnect-with-will",
        "auth-token", "channel-ping", "channel-connect", "connect-attached",
        "result-sent", "deliver-unicast", "connack-new-session",
    ]

    @Test(arguments: packets)
    func `of changed bytes gives events, refusals or the end`(name: String) {
        var random = SeededNumbers(seed: 1)
        let bytes = packet(name)
        for offset in bytes.indices {
            for _ in 0..<16 {
                var changed = bytes
                changed[offset] = UInt8(truncatingIfNeeded: random.next())
                survive(changed)
            }
        }
    }

    @Test(arguments: packets)
    func `of truncated packets with correct lengths does too`(name: String) {
        let bytes = packet(name)
        let body = bytes[2...]
        for count in 0...body.count where count < 128 {
            survive([bytes[0], UInt8(count)] + body.prefix(count))
        }
    }

    @Test func `of random bytes does too`() {
        var random = SeededNumbers(seed: 7)
        for round in 0..<8_000 {
            // Small values make structure likely: known types, lengths that fit.
            let bytes = (0..<round % 64).map { _ in
                let number = random.next()
                return number & 0x300 == 0
                    ? UInt8(truncatingIfNeeded: number) : UInt8(truncatingIfNeeded: number & 0x17)
            }
            survive(bytes)
            survive([0x70, UInt8(bytes.count)] + bytes)
            survive([0x70, UInt8(bytes.count + 2), 1, UInt8(round % 26)] + bytes)
        }
    }

    /// In both phases; a connection that has ended takes no more.
    private func survive(_ bytes: [UInt8]) {
        for isEstablished in [false, true] {
            loop.reopen()
            if isEstablished { loop.establish() }
            var consumed = 0
            let lines = loop.receive(bytes, consumed: &consumed)
            #expect(consumed <= bytes.count)
            if loop.phase == .closing {
                #expect(consumed == bytes.count)
                #expect(loop.host.isClosed || lines.last?.hasPrefix("fault") == true)
                #expect(loop.receive("ack-both") == [])
            }
        }
    }
}

/// Numbers that look random and are the same in every run (SplitMix64).
private struct SeededNumbers {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
