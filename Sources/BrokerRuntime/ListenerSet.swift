// The listeners that a configuration asks for, opened, and the terms under which each lets clients in.

import Configuration
import Dialects
import Glibc
import NetTransport

/// All open listeners of a broker. A listener's tag is the index of its terms.
struct ListenerSet {
    private(set) var listeners: [Listener] = []
    private(set) var terms: [ListenerTerms] = []

    init(_ settings: BrokerSettings) throws(StartError) {
        for listener in settings.listeners {
            let tag = UInt32(terms.count)
            terms.append(ListenerTerms(allowsAnonymous: listener.anonymous))
            let tls = try Self.context(listener, settings)
            for address in Self.addresses(listener) {
                do throws(TransportError) {
                    listeners.append(try Listener(on: address, tls: tls, tag: tag))
                } catch {
                    // A machine without IPv6 has no ::1; 127.0.0.1 is enough then.
                    if case .system(_, _, EADDRNOTAVAIL) = error, listener.host == .loopback,
                        address == SocketAddress(numericHost: "::1", port: listener.port)
                    {
                        continue
                    }
                    throw .transport(error)
                }
            }
        }
    }

    private static func context(
        _ listener: ListenerSettings, _ settings: BrokerSettings
    ) throws(StartError) -> ServerTLSContext? {
        guard listener.transport == .tls else { return nil }
        guard let certificate = listener.certificateFile ?? settings.tls.certificateFile,
            let key = listener.keyFile ?? settings.tls.keyFile
        else { throw .missingCertificate(listener: "\(listener)") }
        var options = ServerTLSContext.Options(certificateChainFile: certificate, keyFile: key)
        options.oldestVersion = settings.tls.minimumVersion == .tls13 ? .tls13 : .tls12
        do throws(TransportError) {
            return try ServerTLSContext(options)
        } catch {
            throw .transport(error)
        }
    }

    private static func addresses(_ listener: ListenerSettings) -> [SocketAddress] {
        switch listener.host {
        case .any: [.any(port: listener.port)]
        case .loopback:
            ["127.0.0.1", "::1"].map {
                SocketAddress(numericHost: $0, port: listener.port)!
            }
        case .address(let host):
            // The configuration has checked that it is one.
            [SocketAddress(numericHost: host, port: listener.port)!]
        }
    }
}
