// The listeners that a configuration asks for, opened, and the terms under which each lets clients
// in.

import Configuration
import Dialects
import Glibc
import NetTransport
import Threads

/// All open listeners of a broker. A listener's tag is the index of its terms.
struct ListenerSet {
    private(set) var listeners: [Listener] = []
    private(set) var terms: [ListenerTerms] = []
    /// What the configuration asks for, with the ports that the system chose.
    private(set) var settings: [ListenerSettings] = []
    /// Which listeners' clients may prove by TLS who they are.
    let identityProofs = IdentityProofs()
    /// By tag: nil for plain text.
    private(set) var contexts: [ServerTLSContext?] = []

    /// - Parameter preSharedKeys: asked during handshakes where the settings name a file of them.
    init(_ settings: BrokerSettings, preSharedKeys: PreSharedKeys) throws(StartError) {
        var proofs: [Bool] = []
        for listener in settings.listeners {
            let tag = UInt32(terms.count)
            let options = try Self.options(listener, settings, preSharedKeys)
            let tls = try options.map(Self.context)
            terms.append(ListenerTerms(allowsAnonymous: listener.anonymous))
            proofs.append(options?.provesIdentity ?? false)
            contexts.append(tls)
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
        identityProofs.replace(with: proofs)
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

    /// Lets new connections have what the certificate files hold now, by other settings if need be.
    /// Either all listeners change or, when it throws, none.
    func renewContexts(
        _ settings: BrokerSettings, preSharedKeys: PreSharedKeys
    ) throws(StartError) {
        var renewed: [(ServerTLSContext, ServerTLSContext.Options)] = []
        var proofs: [Bool] = []
        for (listener, context) in zip(settings.listeners, contexts) {
            guard let context,
                let options = try Self.options(listener, settings, preSharedKeys)
            else {
                proofs.append(false)
                continue
            }
            _ = try Self.context(options)
            renewed.append((context, options))
            proofs.append(options.provesIdentity)
        }
        // Who is asked for a proof from now on is looked at from now on.
        identityProofs.replace(with: proofs)
        for (context, options) in renewed {
            do throws(TransportError) {
                try context.replace(with: options)
            } catch {
                // The files were good a moment ago, and somebody writes them just now.
                throw .transport(error)
            }
        }
    }

    /// Seals the session tickets of all listeners with these keys.
    func setTicketKeys(_ keys: [UInt8]) throws(StartError) {
        for context in contexts.compactMap({ $0 }) {
            do throws(TransportError) {
                try context.setTicketKeys(keys)
            } catch {
                throw .transport(error)
            }
        }
    }

    /// Unix seconds at which the first of the server's certificates ends; nil without TLS.
    var certificateExpiryUnixSeconds: Int64? {
        contexts.compactMap { $0?.certificateExpiryUnixSeconds }.min()
    }

    // MARK: - TLS

    /// Reads and checks the certificates and keys that the settings name, and opens nothing.
    static func checkFiles(_ settings: BrokerSettings) throws(StartError) {
        for listener in settings.listeners {
            guard let options = try options(listener, settings, PreSharedKeys()) else { continue }
            _ = try context(options)
        }
    }

    private static func options(
        _ listener: ListenerSettings, _ settings: BrokerSettings, _ preSharedKeys: PreSharedKeys
    ) throws(StartError) -> ServerTLSContext.Options? {
        guard listener.transport == .tls else { return nil }
        guard let certificate = listener.certificateFile ?? settings.tls.certificateFile,
            let key = listener.keyFile ?? settings.tls.keyFile
        else { throw .missingCertificate(listener: "\(listener)") }
        var options = ServerTLSContext.Options(certificateChainFile: certificate, keyFile: key)
        options.oldestVersion = settings.tls.minimumVersion == .tls13 ? .tls13 : .tls12
        if let authority = settings.tls.clientAuthorityFile {
            switch listener.clientCertificates {
            case .none: options.clientCertificates = .notRequested
            case .optional: options.clientCertificates = .optional(authorityFile: authority)
            case .required: options.clientCertificates = .required(authorityFile: authority)
            }
        }
        if options.clientCertificates != .notRequested {
            options.revocationListFile = settings.tls.crlFile
        }
        if settings.tls.pskFile != nil { options.preSharedKeys = preSharedKeys }
        return options
    }

    private static func context(
        _ options: ServerTLSContext.Options
    ) throws(StartError) -> ServerTLSContext {
        do throws(TransportError) {
            return try ServerTLSContext(options)
        } catch {
            throw .transport(error)
        }
    }
}

/// By tag of a listener: whether its clients may prove by TLS who they are. A reload changes it
/// while the loops ask.
package final class IdentityProofs: Sendable {
    private let proofs: Locked<[Bool]>

    package init(_ proofs: [Bool] = []) {
        self.proofs = Locked(proofs)
    }

    func replace(with new: [Bool]) {
        proofs.withLock { $0 = new }
    }

    func mayProve(tag: UInt32) -> Bool {
        proofs.withLock { $0[Int(tag)] }
    }
}

extension ServerTLSContext.Options {
    fileprivate var provesIdentity: Bool {
        clientCertificates != .notRequested || preSharedKeys != nil
    }
}
