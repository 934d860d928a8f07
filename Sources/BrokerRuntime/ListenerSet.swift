// The listeners that a configuration asks for, opened, and the terms under which each lets clients in.

import Configuration
import Dialects
import Glibc
import NetTransport

/// All open listeners of a broker. A listener's tag is the index of its terms.
struct ListenerSet {
    private(set) var listeners: [Listener] = []
    private(set) var terms: [ListenerTerms] = []
    /// What the configuration asks for, with the ports that the system chose.
    private(set) var settings: [ListenerSettings] = []

    init(_ settings: BrokerSettings) throws(StartError) {
        for listener in settings.listeners {
            let tag = UInt32(terms.count)
            terms.append(ListenerTerms(allowsAnonymous: listener.anonymous))
            let tls = try Self.context(listener, settings)
            let opened: [Listener]
            do throws(TransportError) {
                opened = try Self.open(listener, tls, tag)
            } catch {
                throw .transport(error)
            }
            listeners += opened
            var bound = listener
            bound.port = opened[0].address.port
            self.settings.append(bound)
        }
    }

    /// Opens all addresses of one listener, on the same port.
    private static func open(
        _ settings: ListenerSettings, _ tls: ServerTLSContext?, _ tag: UInt32
    ) throws(TransportError) -> [Listener] {
        switch settings.host {
        case .any:
            return [try Listener(on: .any(port: settings.port), tls: tls, tag: tag)]
        case .address(let host):
            // The configuration has checked that it is one.
            let address = SocketAddress(numericHost: host, port: settings.port)!
            return [try Listener(on: address, tls: tls, tag: tag)]
        case .loopback:
            return try openLoopback(settings.port, tls, tag)
        }
    }

    /// 127.0.0.1 and ::1 on the same port. A machine without IPv6 has no ::1; 127.0.0.1 is enough
    /// then.
    private static func openLoopback(
        _ port: UInt16, _ tls: ServerTLSContext?, _ tag: UInt32
    ) throws(TransportError) -> [Listener] {
        var attemptsLeft = port == 0 ? portAttemptsMaximum : 1
        while true {
            attemptsLeft -= 1
            let first = try Listener(on: .loopback(port: port), tls: tls, tag: tag)
            let second = SocketAddress(numericHost: "::1", port: first.address.port)!
            do throws(TransportError) {
                return [first, try Listener(on: second, tls: tls, tag: tag)]
            } catch {
                if case .system(_, _, EADDRNOTAVAIL) = error { return [first] }
                guard case .system(_, _, EADDRINUSE) = error, attemptsLeft > 0 else { throw error }
            }
        }
    }

    /// Ports that the system may choose for 127.0.0.1 before one has to be free on ::1 too.
    private static let portAttemptsMaximum = 16

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
}
