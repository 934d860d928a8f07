// `martletd --dev`: creates what a first message needs in the data directory: a certificate
// authority and a server certificate, a demo app, tokens for two users, and a file of shell
// variables.

import Administration
import BrokerCore
import Configuration
import Credentials
import Glibc

/// Prepares a data directory for development and prints instructions.
public struct DevelopmentSetup: Sendable {
    /// The app of development, and of listeners that accept clients without credentials.
    static let app = "demo"
    static let users = ["alice", "bob"]

    /// The listeners without a configuration, in its form: the default ones, and the dashboard for
    /// this machine. A browser opens `http://localhost` without a warning, which it would show for
    /// the certificate of a new authority, and the token crosses no network.
    public static let listeners =
        #""tls://*:8883", "tcp://localhost:1883", "http://localhost:8083""#

    /// Names in the data directory.
    static let variablesFile = "dev.env"
    static let certificateFolder = "certificates"

    private let certificates: DevelopmentCertificates
    private let dataDirectory: String

    /// The server certificate of a data directory.
    public static func certificateFile(dataDirectory: String) -> String {
        DevelopmentCertificates.serverCertificateFile(in: "\(dataDirectory)/\(certificateFolder)")
    }

    /// The private key of that certificate.
    public static func keyFile(dataDirectory: String) -> String {
        DevelopmentCertificates.serverKeyFile(in: "\(dataDirectory)/\(certificateFolder)")
    }

    /// Creates the directory and the certificates if they are missing.
    public init(_ settings: BrokerSettings) throws(StartError) {
        dataDirectory = settings.dataDirectory
        do throws(CredentialError) {
            try PrivateDirectory.ensure(dataDirectory)
            // Checked first: a file that others may read stays unchanged.
            _ = try PrivateFile.read("\(dataDirectory)/\(Self.variablesFile)")
            certificates = try DevelopmentCertificates.ensure(
                directory: "\(dataDirectory)/\(Self.certificateFolder)",
                unixSeconds: Int64(time(nil)))
        } catch {
            throw .credentials(error)
        }
    }

    /// Creates the demo app and its tokens on first use, and writes `dev.env`.
    ///
    /// - Returns: the commands to paste into another terminal.
    public func finish(_ server: BrokerServer) throws(StartError) -> String {
        let file = "\(dataDirectory)/\(Self.variablesFile)"
        let listener =
            server.listeners.first { $0.transport == .tls }
            ?? server.listeners.first { $0.transport == .tcp }
        do {
            // The store may be another one than the file was written for.
            let lines: [String]
            let known = try PrivateFile.read(file)
            if let known, server.hasApp(Self.app) {
                lines = keepingSecrets(String(decoding: known, as: UTF8.self), listener)
            } else {
                lines = variables(
                    try server.makeDevelopmentSecrets(app: Self.app, users: Self.users), listener)
            }
            let text = Array((lines.joined(separator: "\n") + "\n").utf8)
            // A start on a full disk writes nothing that is there already.
            if text != known { try PrivateFile.write(text, to: file) }
        } catch let error as CredentialError {
            throw .credentials(error)
        } catch {
            throw .fullStore
        }
        return guide(file, listener, dashboard: server.loginLink(for: Self.operatorName))
    }

    /// Whom the log names for what is done on the dashboard that the printed link opens.
    private static let operatorName = "dev"

    private func server(_ listener: ListenerSettings?) -> String {
        guard let listener else { return "" }
        let host: String
        switch listener.host {
        case .any, .loopback: host = "localhost"
        case .address(let address): host = address.contains(":") ? "[\(address)]" : address
        }
        return "\(listener.transport.rawValue)://\(host):\(listener.port)"
    }

    private func variables(
        _ secrets: DevelopmentSecrets, _ listener: ListenerSettings?
    ) -> [String] {
        header(listener)
            + [
                "export MARTLET_APP=\(Self.app)", "export MARTLET_APP_KEY=\(secrets.appKey)",
            ]
            + zip(Self.users, secrets.tokens).map {
                "export MARTLET_TOKEN_\($0.uppercased())=\($1)"
            }
    }

    /// Addresses may have changed since the last start; secrets stay.
    private func header(_ listener: ListenerSettings?) -> [String] {
        [
            "# Made by martletd --dev. The tokens are secrets: whoever has one is that user.",
            "export MARTLET_SERVER=\(server(listener))",
            "export MARTLET_CA=\(absolute(certificates.authorityCertificateFile))",
            "export MARTLET_DATA=\(absolute(dataDirectory))",
        ]
    }

    private func keepingSecrets(
        _ text: String, _ listener: ListenerSettings?
    ) -> [String] {
        let lines = text.split(separator: "\n").map(String.init)
        let kept = lines.filter {
            $0.hasPrefix("export MARTLET_APP") || $0.hasPrefix("export MARTLET_TOKEN_")
        }
        return header(listener) + kept
    }

    private func guide(
        _ file: String, _ listener: ListenerSettings?, dashboard link: String?
    ) -> String {
        let authority = absolute(certificates.authorityCertificateFile)
        return """

            Martlet is running. Paste into another terminal:

                source \(absolute(file)); PATH="\(programDirectory):$PATH"
                MARTLET_TOKEN=$MARTLET_TOKEN_BOB martlet listen &
                MARTLET_TOKEN=$MARTLET_TOKEN_ALICE martlet send --to bob "hello from alice"
            \(dashboardGuide(link))\(remoteGuide(listener, authority))
            """
    }

    private func dashboardGuide(_ link: String?) -> String {
        guard let link else { return "" }
        return """

            The dashboard, signed in (once, within \(LoginLinks.linkSecondsMaximum / 60) minutes; \
            for another link: martlet dashboard):

                \(link)

            """
    }

    /// The commands for another machine, if a listener accepts its connections.
    private func remoteGuide(_ listener: ListenerSettings?, _ authority: String) -> String {
        guard let listener, listener.transport == .tls, !listener.isLoopback else { return "" }
        let address: String
        if case .address = listener.host {
            address = server(listener)
        } else {
            let host =
                DevelopmentCertificates.localAddresses().first
                ?? DevelopmentCertificates.localHostName()
            address = "tls://\(host):\(listener.port)"
        }
        return """

            From another Linux machine with the same kind of processor, OpenSSL 3, libcurl and
            SQLite (OTHER):

                scp \(authority) \(programDirectory)/martlet OTHER:
                ssh OTHER MARTLET_SERVER=\(address) MARTLET_CA=ca.pem \\
                    MARTLET_TOKEN=$MARTLET_TOKEN_ALICE ./martlet send --to bob hello

            """
    }

    private var programDirectory: String {
        let path = absolute("/proc/self/exe")
        return String(path[..<(path.lastIndex(of: "/") ?? path.endIndex)])
    }

    private func absolute(_ path: String) -> String {
        guard let resolved = realpath(path, nil) else { return path }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}

/// The secrets that are printed once and written to `dev.env`.
struct DevelopmentSecrets {
    let appKey: String
    let tokens: [String]
}

extension BrokerServer {
    /// A link that signs in to the dashboard once with all roles; nil if no listener serves it.
    fileprivate func loginLink(for name: String) -> String? {
        guard let address = listenerSet.dashboardAddresses.first,
            let link = operators.links.make(
                for: name, role: .own, unixSeconds: clock.moment().unixSeconds)
        else { return nil }
        return MakeLoginLink.Reply(
            code: link.code, expiresUnixSeconds: link.expiresUnixSeconds, addresses: [address]
        ).link(at: address)
    }

    fileprivate func hasApp(_ name: String) -> Bool {
        shards[name].enter { $0.broker.hasApp(Array(name.utf8)) }
    }

    /// Creates the demo app and one token for each user; they are committed when this returns.
    func makeDevelopmentSecrets(
        app: String, users: [String]
    ) throws(NoRoom) -> DevelopmentSecrets {
        let key = AppKey.mint()
        let minted = users.map { _ in OpaqueToken.mint() }
        let now = clock.moment().unixSeconds
        try changeAndCommit(app) { (broker) throws(NoRoom) in
            let (name, digest) = (Array(app.utf8), Digest(key.key.digest))
            if try !broker.addApp(
                name, keyDigest: digest, rights: .everything, unixSeconds: now)
            {
                _ = broker.setAppKey(name, keyDigest: digest, unixSeconds: now)
            }
            for (user, token) in zip(users, minted) {
                _ = try broker.addToken(
                    BrokerCore.Token(
                        identifier: Array(token.token.id.description.utf8),
                        digest: Digest(token.token.digest), app: Array(app.utf8),
                        user: Array(user.utf8), device: nil, expiresUnixSeconds: .max,
                        batch: Array("development".utf8)))
            }
        }
        return DevelopmentSecrets(appKey: key.text, tokens: minted.map(\.text))
    }
}
