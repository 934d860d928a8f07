// Several addresses of one broker: those of the nodes of a cluster, as people write them and as the
// client's machine compares them.

import ClientCore
import Primitives

extension ServerAddress {
    /// The most addresses of one broker.
    public static let listMaximum = ClientLimits.serversMaximum

    /// Reads the addresses of one broker, 1 to ``listMaximum``, separated by commas, such as
    /// `tls://a.example:8883,tls://b.example:8883`.
    ///
    /// - Throws: ``MartletError/invalid(_:)`` with the error: also if an address is given twice, or
    ///   if some have TLS and others have not.
    public static func list(_ text: String) throws(MartletError) -> [ServerAddress] {
        var servers: [ServerAddress] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            servers.append(try ServerAddress(String(part)))
        }
        try check(servers)
        return servers
    }

    /// The error of the addresses of one broker together, for the caller.
    static func check(_ servers: [ServerAddress]) throws(MartletError) {
        guard (1...listMaximum).contains(servers.count) else {
            throw .invalid("a client has 1 to \(listMaximum) servers, not \(servers.count)")
        }
        for (index, server) in servers.enumerated() {
            // The names of a list are separated by commas.
            guard !server.host.isEmpty, !server.host.contains(",") else {
                throw .invalid("\"\(server.host)\" is no host")
            }
            // The credential goes to each of them.
            guard server.transport == servers[0].transport else {
                throw .invalid(
                    "the servers \(servers[0]) and \(server) must both have TLS, or none of them")
            }
            if servers[..<index].contains(server) {
                throw .invalid("the server \(server) is given twice")
            }
        }
    }

    /// HOST:PORT of each address, as ``ClientIdentity/servers`` has them. A refusal that redirects
    /// the client has the same form.
    package static func names(_ servers: [ServerAddress]) -> [UInt8] {
        Array(servers.map(\.authority).joined(separator: ",").utf8)
    }
}

extension ReasonCode {
    /// The server that a refused login has named, for logs and terminals; nil if there is none, or
    /// if the text is no address.
    package func redirection(_ text: RawSpan) -> String? {
        guard self == .useAnotherServer,
            (1...ServerAddress.nameByteCountMaximum).contains(text.byteCount)
        else { return nil }
        var name: [UInt8] = []
        for offset in 0..<text.byteCount {
            guard (0x21...0x7E).contains(text[offset]), text[offset] != UInt8(ascii: "\"") else {
                return nil
            }
            name.append(text[offset])
        }
        return String(decoding: name, as: UTF8.self)
    }
}
