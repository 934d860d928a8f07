// Reads one hook of the configuration, and checks its URL and secrets.

import ClientProgram
import JSON5
import Relay
import WireFormat

struct HookReader {
    /// The place in the file, for errors.
    let path: String
    let offset: Int

    private static let known = [
        "name", "url", "secretFiles", "kinds", "topics", "groups", "presence", "order", "batch",
        "timeoutSeconds", "concurrency", "validitySeconds", "queueMaximum", "queueMaximumBytes",
        "refusalsMaximum", "caFile",
    ]

    func read(_ node: JSON5Node, _ r: inout SectionReader) -> HookSettings? {
        var hook = HookSettings(name: "", url: "", secrets: [])
        for (key, path, node) in r.members(node, path, known: Self.known) {
            switch key {
            case "name": hook.name = readName(node, key: path, reader: &r)
            case "url": hook.url = RelaySection.url(node, key: path, reader: &r)
            case "secretFiles": hook.secrets = RelaySection.secrets(node, key: path, reader: &r)
            case "kinds": hook.kinds.formUnion(readKinds(node, key: path, reader: &r))
            case "topics":
                hook.topics = list(node, key: path, reader: &r).compactMap { key, node in
                    r.filter(node, key)
                }
                if !hook.topics.isEmpty { hook.kinds.insert(.messageTopic) }
            case "groups": hook.groups = readNames(node, key: path, reader: &r)
            case "presence":
                hook.presence = readNames(node, key: path, reader: &r)
                if !hook.presence.isEmpty { hook.kinds.insert(.presenceChanged) }
            case "order": hook.order = r.choice(node, path, as: EventOrder.self) ?? hook.order
            case "caFile": hook.authorityFile = RelaySection.file(node, key: path, reader: &r)
            default: readNumber(node, key: key, path: path, into: &hook, &r)
            }
        }
        for (key, isThere) in [
            ("name", !hook.name.isEmpty), ("url", !hook.url.isEmpty),
            ("secretFiles", !hook.secrets.isEmpty),
        ] where !isThere {
            r.complain("\(path).\(key)", "is needed", at: offset)
        }
        if hook.kinds.isEmpty {
            r.complain(path, "is told nothing: it needs kinds, topics or presence", at: offset)
        }
        return hook
    }

    private func readNumber(
        _ node: JSON5Node, key: String, path: String, into hook: inout HookSettings,
        _ r: inout SectionReader
    ) {
        func number(_ maximum: Int, _ former: Int, from minimum: Int = 1) -> Int {
            r.integer(node, path, in: minimum...maximum) ?? former
        }
        switch key {
        case "batch": hook.batchMaximum = number(WebhookLimits.batchMaximum, 1)
        case "timeoutSeconds":
            hook.timeoutSeconds = number(WebhookLimits.timeoutSecondsMaximum, hook.timeoutSeconds)
        case "concurrency":
            hook.concurrency = number(WebhookLimits.concurrencyMaximum, hook.concurrency)
        case "validitySeconds":
            hook.validitySeconds = number(
                WebhookLimits.validitySecondsMaximum, hook.validitySeconds)
        case "queueMaximum":
            hook.queueMaximum = number(WebhookLimits.queueMaximum, hook.queueMaximum)
        case "queueMaximumBytes":
            hook.queueByteCountMaximum = number(
                WebhookLimits.queueByteCountMaximum, hook.queueByteCountMaximum, from: 1 << 20)
        case "refusalsMaximum":
            hook.refusalsMaximum = number(WebhookLimits.refusalsMaximum, hook.refusalsMaximum)
        default: preconditionFailure("\(key) is a known key of a hook without a reader")
        }
    }

    func list(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) -> [(key: String, node: JSON5Node)] {
        let elements = r.elements(node, key)
        if elements.count > WebhookLimits.namesMaximum {
            r.complain(key, "has more than \(WebhookLimits.namesMaximum)", at: node.offset)
        }
        return elements
    }

    func readName(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) -> String {
        guard let name = r.text(node, key) else { return "" }
        if !TextRules.isIdentifier(Array(name.utf8).span.bytes)
            || !name.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\"") })
        {
            r.complain(key, "must have 1 to 64 letters, digits or -", at: node.offset)
        }
        return name
    }

    func readKinds(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) -> [EventKind] {
        list(node, key: key, reader: &r).compactMap { key, node in
            guard let kind = r.choice(node, key, as: EventKind.self) else { return nil }
            switch kind {
            case .messageTopic:
                r.complain(key, "is what topics selects: name the filters there", at: node.offset)
            case .presenceChanged:
                r.complain(key, "is what presence selects: name the users there", at: node.offset)
            default: return kind
            }
            return nil
        }
    }

    func readNames(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) -> Set<ExactText> {
        var names: Set<ExactText> = []
        for (key, node) in list(node, key: key, reader: &r) {
            guard let name = r.text(node, key) else { continue }
            let isAll = name == "*" && key.contains("presence")
            if !isAll, !TextRules.isIdentifier(Array(name.utf8).span.bytes) {
                r.complain(key, "is no id: 1 to 64 bytes without / + #", at: node.offset)
            }
            names.insert(ExactText(name))
        }
        return names
    }
}
