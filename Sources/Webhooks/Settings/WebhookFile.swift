// Reads the configuration of a webhook relay: JSON5 into settings. All errors are reported at once,
// each with its line, column and key.

import BrokerTerms
import ClientProgram
import CommandLineOptions
import JSON5
import MartletClient
import WireFormat

/// The configuration file.
public enum WebhookFile {
    /// Reads and checks a file.
    ///
    /// - Parameter token: the broker's token if the file names none.
    /// - Throws: all errors, one line for each.
    public static func settings(
        text: [UInt8], path: String, token: String?
    ) throws(UsageError) -> WebhookSettings {
        let root: JSON5Node
        do throws(JSON5SyntaxError) {
            root = try JSON5Parser.parse(text)
        } catch {
            let place = TextPosition(offset: error.offset, in: text)
            throw UsageError("\(path):\(place.line):\(place.column): \(error.message)")
        }
        var reader = SectionReader(path: path, text: text)
        let settings = WebhookFileReader(token: token).read(root, &reader)
        guard reader.complaints.isEmpty, let settings else {
            throw UsageError(reader.complaints.joined(separator: "\n"))
        }
        return settings
    }
}

/// The sections of the file.
private struct WebhookFileReader {
    let token: String?

    func read(_ root: JSON5Node, _ r: inout SectionReader) -> WebhookSettings? {
        var settings = WebhookSettings(
            server: ServerAddress(host: "", port: 1), token: token ?? "", stateFile: "", hooks: [])
        let known = [
            "martlet", "stateFile", "privateNetworks", "retry", "deadLettersMaximum",
            "totalsSeconds", "hooks",
        ]
        let members = r.members(root, "", known: known)
        for (key, path, node) in members {
            switch key {
            case "martlet": readMartlet(node, into: &settings, reader: &r)
            case "stateFile": settings.stateFile = r.text(node, path) ?? ""
            case "privateNetworks":
                settings.privateNetworks = r.elements(node, path).compactMap { key, node in
                    network(node, key: key, reader: &r)
                }
                if settings.privateNetworks.count > IPNetwork.listMaximum {
                    r.complain(path, "has more than \(IPNetwork.listMaximum)", at: node.offset)
                }
            case "retry": readRetry(node, into: &settings, reader: &r)
            case "deadLettersMaximum":
                settings.deadLettersMaximum =
                    r.integer(node, path, in: 0...WebhookLimits.deadLettersMaximum)
                    ?? settings.deadLettersMaximum
            case "totalsSeconds":
                settings.totalsSeconds =
                    r.integer(node, path, in: 0...86_400) ?? settings.totalsSeconds
            default: settings.hooks = readHooks(node, key: path, reader: &r)
            }
        }
        for name in ["martlet", "stateFile", "hooks"] {
            guard !members.contains(where: { $0.key == name }) else { continue }
            r.complain(name, "is needed", at: root.offset)
        }
        return settings
    }

    private func readMartlet(
        _ node: JSON5Node, into settings: inout WebhookSettings, reader r: inout SectionReader
    ) {
        let known = [
            "server", "token", "tokenFile", "caFile", "device", "keepAliveSeconds", "inFlight",
        ]
        for (key, path, node) in r.members(node, "martlet", known: known) {
            switch key {
            case "server": settings.server = r.server(node, path) ?? settings.server
            case "token": settings.token = r.text(node, path) ?? ""
            case "tokenFile": settings.token = r.secret(node, path) ?? "?"
            case "caFile": settings.authorityFile = r.text(node, path)
            case "device":
                settings.device = r.text(node, path) ?? settings.device
                if !TextRules.isIdentifier(Array(settings.device.utf8).span.bytes) {
                    r.complain(path, "is no device id", at: node.offset)
                }
            case "keepAliveSeconds":
                settings.keepAliveSeconds = UInt16(r.integer(node, path, in: 5...65_535) ?? 60)
            default:
                settings.inFlightMaximum =
                    r.integer(node, path, in: 2...WebhookLimits.inFlightMaximum)
                    ?? settings.inFlightMaximum
            }
        }
        if settings.server.host.isEmpty {
            r.complain("martlet.server", "is needed: tls://HOST:PORT", at: node.offset)
        }
        if settings.token.isEmpty {
            r.complain("martlet.tokenFile", "is needed, or MARTLET_TOKEN", at: node.offset)
        }
        if settings.server.transport == .tcp, settings.authorityFile != nil {
            r.complain("martlet.caFile", "is for TLS, and the server has none", at: node.offset)
        }
    }

    private func readRetry(
        _ node: JSON5Node, into settings: inout WebhookSettings, reader r: inout SectionReader
    ) {
        let known = ["firstMilliseconds", "longestSeconds"]
        for (key, path, node) in r.members(node, "retry", known: known) {
            switch key {
            case "firstMilliseconds":
                settings.retryMilliseconds = UInt64(
                    r.integer(node, path, in: 10...60_000)
                        ?? WebhookLimits.retryMillisecondsDefault)
            default:
                settings.retrySecondsMaximum = UInt64(
                    r.integer(node, path, in: 1...WebhookLimits.retrySecondsMaximum)
                        ?? WebhookLimits.retrySecondsDefault)
            }
        }
    }

    private func network(
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

    // MARK: - Hooks

    private func readHooks(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) -> [HookSettings] {
        var hooks: [HookSettings] = []
        for (path, node) in r.elements(node, key) {
            guard let hook = HookReader(path: path, offset: node.offset).read(node, &r) else {
                continue
            }
            if hooks.contains(where: { $0.name == hook.name }) {
                r.complain("\(path).name", "is that of an earlier hook", at: node.offset)
            }
            hooks.append(hook)
        }
        if hooks.isEmpty, r.complaints.isEmpty {
            r.complain(key, "has no hook", at: node.offset)
        }
        if hooks.count > WebhookLimits.hooksMaximum {
            r.complain(key, "has more than \(WebhookLimits.hooksMaximum) hooks", at: node.offset)
        }
        let requests = hooks.reduce(0) { $0 + $1.concurrency }
        if requests > WebhookLimits.requestsMaximum {
            r.complain(
                key,
                "allow \(requests) requests at a time, more than \(WebhookLimits.requestsMaximum): "
                    + "lower their concurrency", at: node.offset)
        }
        return hooks
    }
}
