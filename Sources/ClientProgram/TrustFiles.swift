// The files of certificates and keys that a configuration names for one TLS connection.

import JSON5
import MartletClient
import NetTransport

/// The files of a TLS connection.
package struct TrustFiles {
    package var authority: String?
    package var certificate: String?
    package var key: String?

    package init() {}

    package static let keys = ["caFile", "certificateFile", "keyFile"]

    /// Consumes a key that is one of ``keys``.
    package mutating func take(
        _ name: String, path: String, node: JSON5Node, reader r: inout SectionReader
    ) {
        switch name {
        case "caFile": authority = r.text(node, path)
        case "certificateFile": certificate = r.text(node, path)
        default: key = r.text(node, path)
        }
    }

    /// The context of an encrypted connection.
    package func context(
        for server: ServerAddress, _ section: String, at offset: Int, _ r: inout SectionReader
    ) -> ClientTLSContext? {
        guard (certificate == nil) == (key == nil) else {
            r.complain(section, "needs certificateFile and keyFile together", at: offset)
            return nil
        }
        guard server.transport == .tls else {
            if authority != nil || certificate != nil {
                r.complain(section, "has files for TLS and a server without it", at: offset)
            }
            return nil
        }
        do throws(TransportError) {
            return try ClientTLSContext(
                trust: authority.map { .authorityFile($0) } ?? .system,
                certificateChainFile: certificate, keyFile: key)
        } catch {
            r.complain(section, "cannot use TLS: \(error)", at: offset)
            return nil
        }
    }
}
