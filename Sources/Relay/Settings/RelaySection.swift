// Reads the keys that the configurations of all relays have.

import BrokerTerms
import ClientProgram
import Files
import JSON5
import MartletClient
import WireFormat

package enum RelaySection {
    /// The keys of the file that ``read(_:path:node:into:_:)`` takes.
    package static let keys = [
        "martlet", "stateFile", "privateNetworks", "retry", "totalsSeconds",
    ]

    /// Consumes a key that is one of ``keys``.
    package static func read(
        _ key: String, path: String, node: JSON5Node, into settings: inout RelaySettings,
        _ r: inout SectionReader
    ) {
        switch key {
        case "martlet": readMartlet(node, into: &settings, reader: &r)
        case "stateFile": settings.stateFile = r.text(node, path) ?? ""
        case "privateNetworks": settings.privateNetworks = networks(node, key: path, reader: &r)
        case "retry": readRetry(node, into: &settings, reader: &r)
        default:
            settings.totalsSeconds = r.integer(node, path, in: 0...86_400) ?? settings.totalsSeconds
        }
    }

    /// A list of networks.
    package static func networks(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) -> [IPNetwork] {
        let networks = r.elements(node, key).compactMap { key, node in
            network(node, key: key, reader: &r)
        }
        if networks.count > IPNetwork.listMaximum {
            r.complain(key, "has more than \(IPNetwork.listMaximum)", at: node.offset)
        }
        return networks
    }

    /// The path of a file that can be read.
    package static func file(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) -> String? {
        guard let path = r.text(node, key) else { return nil }
        do throws(FileFailure) {
            _ = try SmallFile.read(path)
        } catch {
            r.complain(key, "names \(path), which cannot be read: \(error)", at: node.offset)
        }
        return path
    }

    /// The URL of an HTTP server; empty if it is none.
    package static func url(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) -> String {
        guard let url = r.text(node, key) else { return "" }
        guard let destination = WebDestination(url) else {
            r.complain(key, "is no URL: https://HOST/PATH", at: node.offset)
            return url
        }
        if destination.hasUser {
            r.complain(
                key, "has a user or a password; the signature identifies the sender",
                at: node.offset)
        }
        return url
    }

    /// One or two secrets of Standard Webhooks.
    package static func secrets(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) -> [WebhookSecret] {
        let elements = r.elements(node, key)
        if !(1...2).contains(elements.count) {
            r.complain(key, "must name one file, or two during a change", at: node.offset)
        }
        return elements.compactMap { key, node in
            guard let text = r.secret(node, key) else { return nil }
            guard let secret = WebhookSecret(text) else {
                let counts = RelayLimits.secretByteCounts
                r.complain(
                    key,
                    "is no secret: whsec_ and \(counts.lowerBound) to \(counts.upperBound) bytes "
                        + "in base64", at: node.offset)
                return nil
            }
            return secret
        }
    }

    private static func readMartlet(
        _ node: JSON5Node, into settings: inout RelaySettings, reader r: inout SectionReader
    ) {
        let known = [
            "server", "token", "tokenFile", "caFile", "device", "keepAliveSeconds", "inFlight",
            "packetMaximum",
        ]
        var authorityOffset = node.offset
        for (key, path, node) in r.members(node, "martlet", known: known) {
            switch key {
            case "server": settings.servers = r.servers(node, path) ?? settings.servers
            case "token": settings.token = r.text(node, path) ?? ""
            // Not empty, so that the missing token is not complained of a second time.
            case "tokenFile": settings.token = r.secret(node, path) ?? "?"
            case "caFile":
                settings.authorityFile = r.text(node, path)
                authorityOffset = node.offset
            case "device":
                settings.device = r.text(node, path) ?? settings.device
                if !TextRules.isIdentifier(Array(settings.device.utf8).span.bytes) {
                    r.complain(path, "is no device id", at: node.offset)
                }
            case "keepAliveSeconds":
                settings.keepAliveSeconds = UInt16(r.integer(node, path, in: 5...65_535) ?? 60)
            case "packetMaximum":
                settings.packetByteCountMaximum =
                    r.integer(node, path, in: 1_024...RelayLimits.packetByteCountMaximum)
                    ?? settings.packetByteCountMaximum
            default:
                settings.inFlightMaximum =
                    r.integer(node, path, in: 2...RelayLimits.inFlightMaximum)
                    ?? settings.inFlightMaximum
            }
        }
        if settings.servers.isEmpty {
            r.complain("martlet.server", "is needed: tls://HOST:PORT", at: node.offset)
        }
        if settings.token.isEmpty {
            r.complain("martlet.tokenFile", "is needed, or MARTLET_TOKEN", at: node.offset)
        }
        if let file = settings.authorityFile {
            checkAuthorities(file, of: settings, at: authorityOffset, reader: &r)
        }
    }

    private static func checkAuthorities(
        _ file: String, of settings: RelaySettings, at offset: Int, reader r: inout SectionReader
    ) {
        let key = "martlet.caFile"
        switch settings.servers.first?.transport {
        case nil: break
        case .tcp: r.complain(key, "is for TLS, and the server has none", at: offset)
        case .tls:
            do throws(MartletError) {
                try settings.clientSettings(position: nil).checkTrust()
            } catch {
                r.complain(key, "names \(file), which has no authorities: \(error)", at: offset)
            }
        }
    }

    private static func readRetry(
        _ node: JSON5Node, into settings: inout RelaySettings, reader r: inout SectionReader
    ) {
        let known = ["firstMilliseconds", "longestSeconds"]
        for (key, path, node) in r.members(node, "retry", known: known) {
            switch key {
            case "firstMilliseconds":
                settings.retryMilliseconds = UInt64(
                    r.integer(node, path, in: 10...60_000)
                        ?? RelayLimits.retryMillisecondsDefault)
            default:
                settings.retrySecondsMaximum = UInt64(
                    r.integer(node, path, in: 1...RelayLimits.retrySecondsMaximum)
                        ?? RelayLimits.retrySecondsDefault)
            }
        }
    }

    private static func network(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) -> IPNetwork? {
        guard let text = r.text(node, key) else { return nil }
        do throws(IPNetwork.Fault) {
            return try IPNetwork(text.utf8)
        } catch {
            switch error {
            case .malformed, .mapped:
                r.complain(key, "is no network such as 10.0.0.0/8 or fd00::/8", at: node.offset)
            case .host(let network):
                r.complain(
                    key, "has bits behind its prefix; did you mean \(network)?", at: node.offset)
            }
            return nil
        }
    }
}
