// PROXY headers, and what a reverse proxy writes into requests. In pieces a header must say what it
// says in one, and addresses and networks must survive being written.

import BrokerTerms
import Primitives
import WireFormat

/// The first byte chooses a header, a text, or a list of addresses.
func fuzzProxy(_ bytes: UnsafeRawBufferPointer) {
    guard let first = bytes.first else { return }
    let rest = UnsafeRawBufferPointer(rebasing: bytes[1...])
    switch first % 3 {
    case 0: fuzzHeader(rest)
    case 1: fuzzNetwork(Array(rest))
    default: fuzzList(rest)
    }
}

private func fuzzHeader(_ stream: UnsafeRawBufferPointer) {
    func parse(_ count: Int) -> Result<ProxyHeaderParsing, ProxyHeaderFault> {
        let part = UnsafeRawBufferPointer(rebasing: stream[..<count])
        return Result { () throws(ProxyHeaderFault) in try ProxyHeader.parse(part.bytes) }
    }
    let whole = parse(stream.count)
    var isDecided = false
    for count in 0...stream.count {
        let part = parse(count)
        if part == .success(.incomplete) {
            precondition(!isDecided, "what was decided is open again at \(count)")
            precondition(count < WireLimits.proxyHeaderByteCountMaximum, "\(count) bytes")
            continue
        }
        if !isDecided, case .success(.header(_, let byteCount)) = part {
            precondition(byteCount == count, "a header of \(byteCount) after \(count) bytes")
        }
        isDecided = true
        precondition(part == whole, "\(part) of \(count) bytes became \(whole)")
    }
}

private func fuzzNetwork(_ text: [UInt8]) {
    if let address = IPAddress(text) {
        precondition(IPAddress(address.description.utf8) == address, "\(address)")
    }
    guard let network = try? IPNetwork(text) else { return }
    precondition(network.contains(network.base), "\(network)")
    precondition((try? IPNetwork(network.description.utf8)) == network, "\(network)")
}

private func fuzzList(_ list: UnsafeRawBufferPointer) {
    guard let network = try? IPNetwork("10.0.0.0/8".utf8) else {
        preconditionFailure("10.0.0.0/8 is a network")
    }
    let proxies = [network]
    let place = [ByteRange(offset: 0, count: list.count)]
    let finding = ForwardedClient.find(in: place, of: list.bytes, behind: proxies)
    let hasSeparator = list.contains { $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: ":") }
    precondition(finding.client == nil || hasSeparator, "\(finding)")
    // What a true proxy appends decides, whatever was there.
    let client = IPAddress(version4: 0xC000_0207)
    let appended = Array(list) + Array(", 192.0.2.7, 10.0.0.1".utf8)
    let second = ForwardedClient.find(
        in: [ByteRange(offset: 0, count: appended.count)], of: appended.span.bytes, behind: proxies)
    precondition(
        second == ForwardedClient.Finding(client: ForwardedClient(client)), "\(second)")
}
