// docs/PROTOCOL.md is compared with the vectors and with real encodings: a wrong example or figure
// fails here.

import BrokerTerms
import Foundation
import PacketMeanings
import Testing

@testable import WireFormat

private let document = try! String(
    contentsOf: Vector.root.appending(path: "docs/PROTOCOL.md"), encoding: .utf8)

@Suite("docs/PROTOCOL.md")
struct ProtocolDocumentTests {
    @Test func `has the examples of the vectors`() throws {
        let blocks = document.components(separatedBy: "```vector ").dropFirst()
        #expect(blocks.count >= 20)
        for block in blocks {
            let lines = block.components(separatedBy: "```")[0].split(separator: "\n")
            let name = try #require(lines.first)
            let vector = try #require(Vector.all.first { $0.name == name }, "\(name)")
            let shown = lines.dropFirst().joined().replacing(" ", with: "")
            #expect(hexadecimal(shown[...]) == vector.bytes, "\(name)")
        }
    }

    @Test func `lists every failure of MRT with its number`() {
        for reason in ReasonCode.allCases where reason.isFailure {
            let digits = String(reason.rawValue, radix: 16, uppercase: true)
            let name = "\(reason.name)".replacing("-", with: " ")
            let isListed = document.contains("| 0x\(digits) | \(name.prefix(12))")
            let isExcluded = ["91", "92", "94", "9A", "9B", "9E", "A1", "A2"].contains(digits)
            #expect(isListed != isExcluded, "0x\(digits) \(name)")
        }
    }

    @Test(arguments: WireSizes.all)
    func `has the actual sizes on the wire`(sizes: WireSizes) {
        #expect(document.contains(sizes.row), "\(sizes.row)")
    }

    @Test func `promises a CONNACK of at most 120 bytes`() {
        #expect(Vector["connack-longest"].bytes.count == 120)
        #expect(WireLimits.packetMaximumMinimum >= 120)
    }
}
