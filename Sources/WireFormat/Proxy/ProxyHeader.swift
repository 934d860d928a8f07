// The header of the PROXY protocol, versions 1 and 2, with which a load balancer begins a
// connection that it passes on (haproxy's proxy-protocol.txt, section 2). It names the client.
//
// Version 1 is a line: `PROXY TCP4 192.0.2.1 10.0.0.7 56324 8883` CR LF. Version 2 is binary:
//
//     +----------------+----------+---------+--------+-----------+------+
//     | signature (12) | version, | family, | length | addresses | TLVs |
//     |                | command  | type    | (2)    | and ports |      |
//     +----------------+----------+---------+--------+-----------+------+
//
// The TLVs of version 2 (type, length, value) are skipped, the checksum too: TCP has one, and the
// peer that sends the header is trusted.

import BrokerTerms
import Primitives

/// What a PROXY header says about a connection.
public enum ProxyHeader: Sendable, Equatable {
    /// The client's address and port.
    case client(IPAddress, port: UInt16)
    /// That the connection's own address counts: LOCAL, by which a load balancer checks
    /// that the server is there; UNKNOWN; and clients that have no address of IP over TCP.
    case own
}

/// The state of the bytes at the start of a stream.
public enum ProxyHeaderParsing: Sendable, Equatable {
    /// A complete header of `byteCount` bytes.
    case header(ProxyHeader, byteCount: Int)
    /// The end of the header has not arrived. All bytes so far belong to it.
    case incomplete
}

/// Why a connection that must begin with a PROXY header ends.
public enum ProxyHeaderFault: UInt8, Error, CaseIterable, Sendable {
    /// It begins with something else.
    case missing
    /// It begins with a TLS handshake.
    case missingBeforeTLS
    /// It begins with a packet of MQTT or MRT.
    case missingBeforePacket
    /// The line of version 1 does not end within its maximum.
    case lineTooLong
    /// The line of version 1 has another form, or a line ends without CR LF.
    case line
    /// An address or a port of version 1 is malformed, or of another family.
    case address
    /// A version other than 1 and 2.
    case version
    /// A command of version 2 other than LOCAL and PROXY.
    case command
    /// A family or a type of version 2 that is not defined.
    case family
    /// The length of version 2 leaves no room for the addresses of the family.
    case tooShort
    /// The length of version 2 exceeds the maximum.
    case tooLong
    /// The peer closed within the header; the codec does not know.
    case ended
    /// The header was not complete in time; the codec does not know.
    case late

    /// A description for the log.
    public var text: StaticString {
        switch self {
        case .missing: "no PROXY header; the peer is in a network of proxy="
        case .missingBeforeTLS: "a TLS handshake without a PROXY header before it"
        case .missingBeforePacket: "an MQTT or MRT packet without a PROXY header before it"
        case .lineTooLong: "the PROXY line has more than 107 bytes"
        case .line: "the PROXY line is malformed"
        case .address: "an address or port of the PROXY line is malformed"
        case .version: "the version of the PROXY header is not 2"
        case .command: "the command of the PROXY header is not defined"
        case .family: "the address family of the PROXY header is not defined"
        case .tooShort: "the PROXY header is too short for its addresses"
        case .tooLong: "the PROXY header has more than 4096 bytes"
        case .ended: "the connection ended within the PROXY header"
        case .late: "the PROXY header was not complete in time"
        }
    }
}

extension ProxyHeader {
    private static let signature: [UInt8] = [
        0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A,
    ]
    private static let lineStart: StaticString = "PROXY "
    /// Signature, version and command, family and type, length.
    private static let fixedByteCount = 16

    /// Parses the header at the start of `bytes`. Throws the first fault, as soon as the bytes so
    /// far show it. An incomplete header is shorter than
    /// ``WireLimits/proxyHeaderByteCountMaximum``.
    public static func parse(_ bytes: RawSpan) throws(ProxyHeaderFault) -> ProxyHeaderParsing {
        guard !bytes.isEmpty else { return .incomplete }
        switch bytes[0] {
        case signature[0]: return try parseBinary(bytes)
        case UInt8(ascii: "P"): return try parseLine(bytes)
        case 0x16: throw .missingBeforeTLS
        case 0x10: throw .missingBeforePacket
        default: throw .missing
        }
    }

    // MARK: - Version 1

    private static func parseLine(_ bytes: RawSpan) throws(ProxyHeaderFault) -> ProxyHeaderParsing {
        let start = lineStart.utf8Bytes
        for offset in 0..<min(bytes.byteCount, start.byteCount)
        where bytes[offset] != start[offset] {
            throw .missing
        }
        let maximum = WireLimits.proxyLineByteCountMaximum
        var end = start.byteCount
        while end < min(bytes.byteCount, maximum) {
            if bytes[end] == 0x0A { throw .line }
            if bytes[end] == 0x0D {
                guard end + 1 < maximum else { throw .lineTooLong }
                guard end + 1 < bytes.byteCount else { return .incomplete }
                guard bytes[end + 1] == 0x0A else { throw .line }
                let line = bytes.extracting(start.byteCount..<end)
                return .header(try readLine(line), byteCount: end + 2)
            }
            end += 1
        }
        guard bytes.byteCount < maximum else { throw .lineTooLong }
        return .incomplete
    }

    /// Reads what follows `PROXY ` up to the end of the line.
    private static func readLine(_ line: RawSpan) throws(ProxyHeaderFault) -> ProxyHeader {
        let text = line.withUnsafeBytes { Array($0) }
        let words = text.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        // Whatever follows UNKNOWN is ignored.
        if words[0].elementsEqual("UNKNOWN".utf8) { return .own }
        let isVersion4 = words[0].elementsEqual("TCP4".utf8)
        guard isVersion4 || words[0].elementsEqual("TCP6".utf8), words.count == 5 else {
            throw .line
        }
        let client = try address(words[1], isVersion4: isVersion4)
        _ = try address(words[2], isVersion4: isVersion4)
        guard let port = UInt16(decimal: words[3]), UInt16(decimal: words[4]) != nil else {
            throw .address
        }
        return .client(client, port: port)
    }

    private static func address(
        _ text: ArraySlice<UInt8>, isVersion4: Bool
    ) throws(ProxyHeaderFault) -> IPAddress {
        guard text.contains(UInt8(ascii: ":")) != isVersion4, let address = IPAddress(text) else {
            throw .address
        }
        return address
    }

    // MARK: - Version 2

    /// The families of addresses, in the upper half of their byte.
    private enum Family: UInt8 {
        case unspecified, version4, version6, unix
    }

    private static func parseBinary(
        _ bytes: RawSpan
    ) throws(ProxyHeaderFault) -> ProxyHeaderParsing {
        for offset in 0..<min(bytes.byteCount, signature.count)
        where bytes[offset] != signature[offset] {
            throw .missing
        }
        guard bytes.byteCount > 12 else { return .incomplete }
        guard bytes[12] >> 4 == 2 else { throw .version }
        let command = bytes[12] & 0x0F
        guard command <= 1 else { throw .command }
        guard bytes.byteCount >= fixedByteCount else { return .incomplete }
        let length = Int(bytes[14]) << 8 | Int(bytes[15])
        guard fixedByteCount + length <= WireLimits.proxyHeaderByteCountMaximum else {
            throw .tooLong
        }
        // LOCAL has no addresses, whatever its family says.
        let header = command == 0 ? nil : try binaryForm(of: bytes[13], byteCount: length)
        guard bytes.byteCount >= fixedByteCount + length else { return .incomplete }
        return .header(
            header.map { client(in: bytes, $0) } ?? .own, byteCount: fixedByteCount + length)
    }

    /// The family of a client with an address of IP over TCP; nil for another client.
    private static func binaryForm(
        of byte: UInt8, byteCount: Int
    ) throws(ProxyHeaderFault) -> Family? {
        guard let family = Family(rawValue: byte >> 4), byte & 0x0F <= 2 else { throw .family }
        // A stream; unspecified and datagrams are not connections over TCP.
        let isStream = byte & 0x0F == 1
        switch family {
        case .unspecified: return nil
        case .version4:
            guard byteCount >= 12 else { throw .tooShort }
        case .version6:
            guard byteCount >= 36 else { throw .tooShort }
        case .unix:
            guard byteCount >= 216 else { throw .tooShort }
            return nil
        }
        return isStream ? family : nil
    }

    private static func client(in bytes: RawSpan, _ family: Family) -> ProxyHeader {
        func number<Value: FixedWidthInteger & BitwiseCopyable>(
            at offset: Int, as type: Value.Type
        ) -> Value {
            Value(bigEndian: bytes.loadInteger(at: fixedByteCount + offset, as: type))
        }
        switch family {
        case .version4:
            return .client(
                IPAddress(version4: number(at: 0, as: UInt32.self)),
                port: number(at: 8, as: UInt16.self))
        case .version6:
            return .client(
                IPAddress(
                    high: number(at: 0, as: UInt64.self), low: number(at: 8, as: UInt64.self)),
                port: number(at: 32, as: UInt16.self))
        case .unspecified, .unix: return .own
        }
    }
}
