// Reads the configuration of a relay for wake-ups: JSON5 into settings. All errors are reported at
// once, each with its line, column and key.

import ClientProgram
import CommandLineOptions
import JSON5
import MartletClient
import Relay
import WakeTemplates

/// The configuration file.
public enum PushFile {
    /// Reads and checks a file.
    ///
    /// - Parameter token: the broker's token if the file names none.
    /// - Throws: all errors, one line for each.
    public static func settings(
        text: [UInt8], path: String, token: String?
    ) throws(UsageError) -> PushSettings {
        let root: JSON5Node
        do throws(JSON5SyntaxError) {
            root = try JSON5Parser.parse(text)
        } catch {
            let place = TextPosition(offset: error.offset, in: text)
            throw UsageError("\(path):\(place.line):\(place.column): \(error.message)")
        }
        var reader = SectionReader(path: path, text: text)
        let settings = read(root, token: token, &reader)
        guard reader.complaints.isEmpty else {
            throw UsageError(reader.complaints.joined(separator: "\n"))
        }
        return settings
    }

    private static let known =
        RelaySection.keys + [
            "concurrency", "ratePerSecond", "waitingMaximum", "deadLettersMaximum", "logPerTarget",
            "logMaximum", "contents", "apns", "fcm", "webhook", "sms", "mqtt", "udp", "templates",
            "hook",
        ]

    private static func read(
        _ root: JSON5Node, token: String?, _ r: inout SectionReader
    ) -> PushSettings {
        var settings = PushSettings(
            RelaySettings(
                servers: [], token: token ?? "", device: "push",
                stateFile: ""))
        let members = r.members(root, "", known: known)
        var isContentAllowed = false
        if let contents = members.first(where: { $0.key == "contents" }) {
            isContentAllowed = r.boolean(contents.node, contents.path) ?? false
        }
        for (key, path, node) in members {
            switch key {
            case "contents": settings.hasContents = isContentAllowed
            case "apns": settings.apns = ProviderReader.apnsList(node, key: path, &r)
            case "fcm": settings.fcm = ProviderReader.fcm(node, key: path, &r)
            case "webhook":
                settings.webhook = ProviderReader.requests(node, key: path, needsURL: false, &r)
            case "sms":
                settings.sms = ProviderReader.requests(node, key: path, needsURL: true, &r)
            case "mqtt": settings.mqtt = ProviderReader.mqtt(node, key: path, &r)
            case "udp": settings.udp = ProviderReader.udp(node, key: path, &r)
            case "hook": settings.hook = ProviderReader.hook(node, key: path, &r)
            case "templates":
                readTemplates(
                    node, key: path, isContentAllowed: isContentAllowed, into: &settings, &r)
            case _ where RelaySection.keys.contains(key):
                RelaySection.read(key, path: path, node: node, into: &settings.relay, &r)
            default: readNumber(node, key: key, path: path, into: &settings, &r)
            }
        }
        for name in ["martlet", "stateFile"] {
            guard !members.contains(where: { $0.key == name }) else { continue }
            r.complain(name, "is needed", at: root.offset)
        }
        if r.complaints.isEmpty, !WakeKind.allCases.contains(where: settings.speaks) {
            r.complain(
                "", "the file has none of apns, fcm, webhook, sms, mqtt and udp", at: root.offset)
        }
        return settings
    }

    private static func readNumber(
        _ node: JSON5Node, key: String, path: String, into settings: inout PushSettings,
        _ r: inout SectionReader
    ) {
        func number(_ maximum: Int, _ former: Int, from minimum: Int = 0) -> Int {
            r.integer(node, path, in: minimum...maximum) ?? former
        }
        switch key {
        case "concurrency":
            settings.concurrency = number(
                PushLimits.concurrencyMaximum, settings.concurrency, from: 1)
        case "ratePerSecond":
            settings.ratePerSecond = number(
                PushLimits.ratePerSecondMaximum, settings.ratePerSecond)
        case "waitingMaximum":
            settings.waitingMaximum = number(
                PushLimits.waitingMaximum, settings.waitingMaximum, from: 1)
        case "deadLettersMaximum":
            settings.deadLettersMaximum = number(
                PushLimits.deadLettersMaximum, settings.deadLettersMaximum)
        case "logPerTarget":
            settings.logPerTargetMaximum = number(
                PushLimits.logPerTargetMaximum, settings.logPerTargetMaximum)
        case "logMaximum":
            settings.logMaximum = number(PushLimits.logMaximum, settings.logMaximum)
        default: preconditionFailure("\(key) is a known key without a reader")
        }
    }

    private static func readTemplates(
        _ node: JSON5Node, key: String, isContentAllowed: Bool,
        into settings: inout PushSettings, _ r: inout SectionReader
    ) {
        let kinds = WakeKind.allCases.filter(\.hasContent)
        for (key, path, node) in r.members(node, key, known: kinds.map(\.rawValue)) {
            guard let kind = WakeKind(rawValue: key) else {
                preconditionFailure("\(key) is no kind")
            }
            settings.templates[kind] =
                ContentTemplate(node, key: path, isContentAllowed: isContentAllowed) {
                    r.complain($0, $1, at: $2)
                } ?? settings.templates[kind]
        }
    }
}
