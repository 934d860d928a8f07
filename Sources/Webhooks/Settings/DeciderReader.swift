// Reads one endpoint of the configuration that decides on messages.

import ClientProgram
import JSON5
import Relay

struct DeciderReader {
    /// The place in the file, for errors.
    let path: String
    let offset: Int

    private static let known = [
        "name", "url", "secretFiles", "kinds", "topics", "groups", "silent",
        "timeoutMilliseconds", "concurrency", "caFile",
    ]

    /// The kinds of messages that wait for verdicts.
    private static let kinds: [EventKind] = [.messageUser, .messageGroup, .messageEverybody]

    func read(_ node: JSON5Node, _ r: inout SectionReader) -> DeciderSettings? {
        let hook = HookReader(path: path, offset: offset)
        var decider = DeciderSettings(name: "", url: "", secrets: [], silent: .refuse)
        var isSilenceStated = false
        for (key, path, node) in r.members(node, path, known: Self.known) {
            switch key {
            case "name": decider.name = hook.readName(node, key: path, reader: &r)
            case "url": decider.url = RelaySection.url(node, key: path, reader: &r)
            case "secretFiles":
                decider.secrets = RelaySection.secrets(node, key: path, reader: &r)
            case "kinds": decider.kinds = readKinds(node, key: path, by: hook, reader: &r)
            case "topics":
                decider.topics = hook.list(node, key: path, reader: &r).compactMap { key, node in
                    r.filter(node, key)
                }
            case "groups": decider.groups = hook.readNames(node, key: path, reader: &r)
            case "silent":
                isSilenceStated = true
                decider.silent = r.choice(node, path, as: SilentVerdict.self) ?? .refuse
            case "timeoutMilliseconds":
                decider.timeoutMilliseconds =
                    r.integer(node, path, in: WebhookLimits.decisionMilliseconds)
                    ?? decider.timeoutMilliseconds
            case "concurrency":
                decider.concurrency =
                    r.integer(node, path, in: 1...WebhookLimits.deciderConcurrencyMaximum)
                    ?? decider.concurrency
            default: decider.authorityFile = RelaySection.file(node, key: path, reader: &r)
            }
        }
        for (key, isThere) in [
            ("name", !decider.name.isEmpty), ("url", !decider.url.isEmpty),
            ("secretFiles", !decider.secrets.isEmpty), ("silent", isSilenceStated),
        ] where !isThere {
            r.complain("\(path).\(key)", "is needed", at: offset)
        }
        return decider
    }

    private func readKinds(
        _ node: JSON5Node, key: String, by hook: HookReader, reader r: inout SectionReader
    ) -> Set<EventKind> {
        let kinds = hook.readKinds(node, key: key, reader: &r)
        for kind in kinds where !Self.kinds.contains(kind) {
            let known = Self.kinds.map(\.rawValue).joined(separator: ", ")
            r.complain(key, "has \(kind.rawValue), and may have \(known)", at: node.offset)
        }
        return Set(kinds)
    }
}
