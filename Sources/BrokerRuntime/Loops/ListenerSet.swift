// The open listeners of a configuration and the terms of each.

import Configuration
import Credentials
import Dialects
import Glibc
import NetTransport
import Threads

/// All open listeners of a broker. A listener's tag is the index of its terms.
struct ListenerSet {
    private(set) var listeners: [Listener] = []
    private(set) var terms: [ListenerTerms] = []
    /// The configured listeners, with the ports that the system chose.
    private(set) var settings: [ListenerSettings] = []
    /// The listeners for HTTP and WebSocket.
    let web: WebListeners
    /// The listeners whose clients may authenticate by TLS.
    let identityProofs = IdentityProofs()
    /// By tag: nil for plain text.
    private(set) var contexts: [ServerTLSContext?] = []

    /// - Parameter preSharedKeys: the keys for handshakes, if the settings name a file of them.
    init(
        _ settings: BrokerSettings, preSharedKeys: PreSharedKeys
    ) throws(StartError) {
        var proofs: [Bool] = []
        for listener in settings.listeners {
            let tag = UInt32(terms.count)
            let options = try Self.options(
                of: listener, settings: settings, preSharedKeys: preSharedKeys)
            let tls = try options.map(Self.context)
            terms.append(
                ListenerTerms(
                    allowsAnonymous: listener.anonymous,
                    passwordApp: listener.passwords.map { Array($0.utf8) }))
            proofs.append(options?.provesIdentity ?? false)
            contexts.append(tls)
            let opened: [Listener]
            do throws(TransportError) {
                opened = try Self.open(listener, tls: tls, tag: tag)
            } catch {
                throw .transport(error)
            }
            listeners += opened
            var bound = listener
            bound.port = opened[0].address.port
            self.settings.append(bound)
        }
        identityProofs.replace(with: proofs)
        web = WebListeners(
            terms: Self.addWebTerms(of: self.settings, to: &terms), settings)
    }

    /// Restricts web listeners to MQTT, whose clients are those of `/mqtt`, and appends terms for
    /// those of `/mrt`.
    private static func addWebTerms(
        of listeners: [ListenerSettings], to terms: inout [ListenerTerms]
    ) -> [WebListeners.Terms?] {
        var result: [WebListeners.Terms?] = []
        for (tag, listener) in listeners.enumerated() {
            guard listener.transport.isWeb else {
                result.append(nil)
                continue
            }
            terms[tag].dialects = .mqtt
            result.append(
                WebListeners.Terms(
                    mqtt: UInt8(tag), mrt: UInt8(terms.count), parts: listener.parts,
                    forwarders: listener.forwarders,
                    isOpenToMachine: listener.anonymous && listener.isLoopback))
            terms.append(ListenerTerms(allowsAnonymous: listener.anonymous, dialects: .mrt))
        }
        return result
    }

    /// The listener of the clients with these terms, such as `tls://127.0.0.1:8883`.
    ///
    /// - Parameter terms: the index of them.
    func name(ofTerms terms: UInt8) -> String {
        let tag =
            Int(terms) < settings.count
            ? Int(terms)
            : settings.indices.first { web.terms(tag: UInt32($0))?.mrt == terms }
        guard let tag else { preconditionFailure("no listener has the terms \(terms)") }
        return "\(settings[tag].transport.rawValue)://\(settings[tag].address)"
    }

    /// Logs where clients can connect.
    ///
    /// - Parameter state: what they find there: `ready`, or `standby`.
    func writeAddresses(to log: LogWriter, state: String) {
        for listener in listeners {
            log.write(
                .info, .listening,
                fields: [
                    "address": .text("\(listener.address)"),
                    "tls": .number(listener.tls == nil ? 0 : 1),
                    "scheme": .text(settings[Int(listener.tag)].transport.rawValue),
                    "state": .text(state),
                ])
        }
    }

    /// Opens all addresses of one listener, on the same port.
    private static func open(
        _ settings: ListenerSettings, tls: ServerTLSContext?, tag: UInt32
    ) throws(TransportError) -> [Listener] {
        let proxies = ProxyNetworks(headers: settings.proxies, requests: settings.forwarders)
        switch settings.host {
        case .any:
            return [
                try Listener(on: .any(port: settings.port), tls: tls, tag: tag, proxies: proxies)
            ]
        case .address(let host):
            // The configuration has checked that it is a numeric address.
            let address = SocketAddress(numericHost: host, port: settings.port)!
            return [try Listener(on: address, tls: tls, tag: tag, proxies: proxies)]
        case .loopback:
            return try openLoopback(port: settings.port, tls: tls, tag: tag, proxies: proxies)
        }
    }

    /// Opens 127.0.0.1 and ::1 on the same port; only 127.0.0.1 on a machine without IPv6.
    private static func openLoopback(
        port: UInt16, tls: ServerTLSContext?, tag: UInt32, proxies: ProxyNetworks
    ) throws(TransportError) -> [Listener] {
        var attemptsLeft = port == 0 ? portAttemptsMaximum : 1
        while true {
            attemptsLeft -= 1
            let first = try Listener(
                on: .loopback(port: port), tls: tls, tag: tag, proxies: proxies)
            let second = SocketAddress(numericHost: "::1", port: first.address.port)!
            do throws(TransportError) {
                return [
                    first,
                    try Listener(
                        on: second, tls: tls, tag: tag, proxies: proxies,
                        openConnections: first.openConnections),
                ]
            } catch {
                if case .system(_, _, EADDRNOTAVAIL) = error { return [first] }
                guard case .system(_, _, EADDRINUSE) = error, attemptsLeft > 0 else { throw error }
            }
        }
    }

    /// The number of ports to try, because a port that is free on 127.0.0.1 may be used on ::1.
    private static let portAttemptsMaximum = 16

    /// Reads the certificate files again, by the given settings, for new connections. If it throws,
    /// no listener has changed.
    func renewContexts(
        _ settings: BrokerSettings, preSharedKeys: PreSharedKeys
    ) throws(StartError) {
        var renewed: [(ServerTLSContext, ServerTLSContext.Options)] = []
        var proofs: [Bool] = []
        for (listener, context) in zip(settings.listeners, contexts) {
            guard let context,
                let options = try Self.options(
                    of: listener, settings: settings, preSharedKeys: preSharedKeys)
            else {
                proofs.append(false)
                continue
            }
            _ = try Self.context(options)
            renewed.append((context, options))
            proofs.append(options.provesIdentity)
        }
        // First: a client that a new context asks for a certificate must be checked for one.
        identityProofs.replace(with: proofs)
        for (context, options) in renewed {
            do throws(TransportError) {
                try context.replace(with: options)
            } catch {
                // The files were valid above, so they have just been changed.
                throw .tlsFile(error)
            }
        }
    }

    /// Sets the keys that encrypt the session tickets of all listeners.
    func setTicketKeys(_ keys: [UInt8]) throws(StartError) {
        for context in contexts.compactMap({ $0 }) {
            do throws(TransportError) {
                try context.setTicketKeys(keys)
            } catch {
                throw .transport(error)
            }
        }
    }

    /// Unix seconds at which the first of the server's certificates expires; nil without TLS.
    var certificateExpiryUnixSeconds: Int64? {
        contexts.compactMap { $0?.certificateExpiryUnixSeconds }.min()
    }

    /// The connections of a listener that are open.
    func connectionCount(tag: Int) -> Int {
        // The listeners of one tag share the count.
        listeners.first { $0.tag == UInt32(tag) }?.openConnections.count ?? 0
    }

    /// The addresses of the dashboard, as a browser takes them, in the order of the configuration.
    /// For a listener on all addresses it is the name of this machine.
    var dashboardAddresses: [String] {
        settings.filter { $0.parts.isSuperset(of: [.api, .dashboard]) && $0.transport.isWeb }.map {
            let host =
                switch $0.host {
                case .any: DevelopmentCertificates.localHostName()
                case .loopback: "localhost"
                case .address(let address): address.contains(":") ? "[\(address)]" : address
                }
            return "\($0.transport.usesTLS ? "https" : "http")://\(host):\($0.port)/"
        }
    }

    // MARK: - TLS

    /// Reads and checks the certificates and keys that the settings name, and opens nothing.
    ///
    /// - Returns: the files of the certificates, and their ends in Unix seconds.
    static func checkFiles(
        _ settings: BrokerSettings
    ) throws(StartError) -> [(file: String, end: Int64)] {
        var ends: [(file: String, end: Int64)] = []
        for listener in settings.listeners {
            guard
                let options = try options(
                    of: listener, settings: settings, preSharedKeys: PreSharedKeys())
            else { continue }
            let end = try context(options).certificateExpiryUnixSeconds
            if !ends.contains(where: { $0.file == options.certificateChainFile }) {
                ends.append((options.certificateChainFile, end))
            }
        }
        return ends
    }

    private static func options(
        of listener: ListenerSettings, settings: BrokerSettings, preSharedKeys: PreSharedKeys
    ) throws(StartError) -> ServerTLSContext.Options? {
        guard listener.transport.usesTLS else { return nil }
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
            throw .tlsFile(error)
        }
    }
}

extension ListenerSettings {
    var isLoopback: Bool {
        switch host {
        case .any: false
        case .loopback: true
        case .address(let host): SocketAddress(numericHost: host, port: port)?.isLoopback ?? false
        }
    }
}

/// Whether the clients of a listener may authenticate by TLS, by the listener's tag. A reload
/// changes it while the event loops read it.
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
