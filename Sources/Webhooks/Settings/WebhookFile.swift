// Reads the configuration of a webhook relay: JSON5 into settings. All errors are reported at once,
// each with its line, column and key.

import ClientProgram
import CommandLineOptions
import JSON5
import MartletClient
import Relay

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
            RelaySettings(
                servers: [], token: token ?? "", device: "webhooks",
                stateFile: ""), hooks: [])
        let members = r.members(
            root, "", known: RelaySection.keys + ["deadLettersMaximum", "hooks", "deciders"])
        for (key, path, node) in members {
            switch key {
            case "deadLettersMaximum":
                settings.deadLettersMaximum =
                    r.integer(node, path, in: 0...WebhookLimits.deadLettersMaximum)
                    ?? settings.deadLettersMaximum
            case "hooks": settings.hooks = readHooks(node, key: path, reader: &r)
            case "deciders": settings.deciders = readDeciders(node, key: path, reader: &r)
            default:
                RelaySection.read(key, path: path, node: node, into: &settings.relay, &r)
            }
        }
        let decides = members.contains { $0.key == "deciders" }
        for name in ["martlet", "stateFile"] + (decides ? [] : ["hooks"]) {
            guard !members.contains(where: { $0.key == name }) else { continue }
            r.complain(name, "is needed", at: root.offset)
        }
        if settings.concurrency > RelayLimits.requestsMaximum {
            r.complain(
                decides ? "deciders" : "hooks",
                "allow \(settings.concurrency) requests at a time, more than "
                    + "\(RelayLimits.requestsMaximum): lower their concurrency", at: root.offset)
        }
        return settings
    }

    private func readDeciders(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) -> [DeciderSettings] {
        var deciders: [DeciderSettings] = []
        for (path, node) in r.elements(node, key) {
            guard let decider = DeciderReader(path: path, offset: node.offset).read(node, &r)
            else { continue }
            if deciders.contains(where: { $0.name == decider.name }) {
                r.complain("\(path).name", "is that of an earlier one", at: node.offset)
            }
            deciders.append(decider)
        }
        if deciders.isEmpty, r.complaints.isEmpty {
            r.complain(key, "has no endpoint", at: node.offset)
        }
        if deciders.count > WebhookLimits.decidersMaximum {
            r.complain(key, "has more than \(WebhookLimits.decidersMaximum)", at: node.offset)
        }
        return deciders
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
        return hooks
    }
}
