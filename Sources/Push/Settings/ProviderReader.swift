// Reads the sections of the configuration that say how targets are reached.

import ClientProgram
import Files
import JSON5
import MartletClient
import Relay

enum ProviderReader {
    // MARK: - Apple

    /// One profile, or a list of them.
    static func apnsList(
        _ node: JSON5Node, key: String, _ r: inout SectionReader
    ) -> [APNsSettings] {
        guard case .array = node.value else {
            return [apns(node, key: key, &r)].compactMap { $0 }
        }
        let elements = r.elements(node, key)
        if elements.isEmpty { r.complain(key, "is empty", at: node.offset) }
        return elements.compactMap { apns($0.node, key: $0.key, &r) }
    }

    private static func apns(
        _ node: JSON5Node, key: String, _ r: inout SectionReader
    ) -> APNsSettings? {
        let known = [
            "name", "keyFile", "keyId", "teamId", "tokenMinutes", "certificateFile",
            "passwordFile", "topic", "pushType", "priority", "productionUrl", "sandboxUrl",
            "caFile", "timeoutSeconds",
        ]
        var (keyFile, keyID, certificateFile, password): (String?, String?, String?, String?)
        var minutes = PushLimits.tokenMinutesDefault
        var settings = APNsSettings(
            proof: .certificate(ClientIdentity(certificate: [], key: [])), topic: "")
        for (name, path, node) in r.members(node, key, known: known) {
            switch name {
            case "name": settings.name = r.text(node, path) ?? ""
            case "keyFile": keyFile = r.text(node, path)
            case "keyId": keyID = header(node, path, reader: &r)
            case "teamId": settings.teamID = header(node, path, reader: &r) ?? ""
            case "tokenMinutes":
                minutes = r.integer(node, path, in: PushLimits.tokenMinutes) ?? minutes
            case "certificateFile": certificateFile = r.text(node, path)
            case "passwordFile": password = r.secret(node, path)
            case "topic": settings.topic = header(node, path, reader: &r) ?? ""
            case "pushType": settings.pushType = header(node, path, reader: &r) ?? settings.pushType
            case "priority":
                settings.priority = r.integer(node, path, in: 1...10) ?? settings.priority
            case "productionUrl":
                settings.productionURL = server(
                    node, path, former: settings.productionURL, reader: &r)
            case "sandboxUrl":
                settings.sandboxURL = server(node, path, former: settings.sandboxURL, reader: &r)
            case "caFile": settings.authorityFile = RelaySection.file(node, key: path, reader: &r)
            default:
                settings.timeoutSeconds =
                    r.integer(node, path, in: 1...PushLimits.timeoutSecondsMaximum)
                    ?? settings.timeoutSeconds
            }
        }
        if settings.topic.isEmpty {
            r.complain("\(key).topic", "is needed: the bundle id of the app", at: node.offset)
        }
        guard (keyFile == nil) != (certificateFile == nil) else {
            r.complain(key, "needs either keyFile or certificateFile", at: node.offset)
            return nil
        }
        if let keyFile {
            guard let keyID, !settings.teamID.isEmpty else {
                r.complain(key, "needs keyId and teamId beside keyFile", at: node.offset)
                return nil
            }
            guard let signer = signer(keyFile, .es256, key: "\(key).keyFile", at: node, reader: &r)
            else {
                return nil
            }
            settings.proof = .token(
                key: signer, keyID: keyID, teamID: settings.teamID, minutes: minutes)
        } else if let certificateFile {
            let place = "\(key).certificateFile"
            guard let bytes = content(certificateFile, place, at: node, reader: &r) else {
                return nil
            }
            do throws(KeyFailure) {
                settings.proof = .certificate(
                    try PasswordedIdentity.read(bytes, password: password ?? ""))
            } catch {
                r.complain(place, "names \(certificateFile), which \(error)", at: node.offset)
                return nil
            }
        }
        return settings
    }

    /// A text that may stand in a header field.
    private static func header(
        _ node: JSON5Node, _ key: String, reader r: inout SectionReader
    ) -> String? {
        guard let text = r.text(node, key) else { return nil }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
            text.utf8.count <= PushLimits.fieldByteCountMaximum
        else {
            let count = PushLimits.fieldByteCountMaximum
            r.complain(
                key, "must have at most \(count) visible ASCII characters, without spaces",
                at: node.offset)
            return nil
        }
        return text
    }

    /// A URL with https; a slash at its end is dropped.
    private static func server(
        _ node: JSON5Node, _ key: String, former: String, reader r: inout SectionReader
    ) -> String {
        let url = RelaySection.url(node, key: key, reader: &r)
        if !url.hasPrefix("https://") {
            r.complain(key, "must be a URL with https", at: node.offset)
            return former
        }
        return url.hasSuffix("/") ? String(url.dropLast()) : url
    }

    /// A file with a private key.
    private static func content(
        _ path: String, _ key: String, at node: JSON5Node, reader r: inout SectionReader
    ) -> [UInt8]? {
        do throws(SecretFileFailure) {
            return try SecretFile.content(path)
        } catch {
            r.complain(key, "cannot be used: \(error)", at: node.offset)
            return nil
        }
    }

    private static func signer(
        _ path: String, _ algorithm: SigningKey.Algorithm, key: String, at node: JSON5Node,
        reader r: inout SectionReader
    ) -> SigningKey? {
        guard let pem = content(path, key, at: node, reader: &r) else { return nil }
        do throws(KeyFailure) {
            return try SigningKey(pem: pem, for: algorithm)
        } catch {
            r.complain(key, "names \(path), which \(error)", at: node.offset)
            return nil
        }
    }

    // MARK: - Google

    static func fcm(
        _ node: JSON5Node, key: String, _ r: inout SectionReader
    ) -> FCMSettings? {
        var account: (settings: JSON5Node, path: String, place: String, node: JSON5Node)?
        var (url, authorityFile, timeout): (String?, String?, Int?)
        let known = ["serviceAccountFile", "url", "caFile", "timeoutSeconds"]
        for (name, path, node) in r.members(node, key, known: known) {
            switch name {
            case "serviceAccountFile":
                guard let file = r.text(node, path),
                    let bytes = content(file, path, at: node, reader: &r)
                else { return nil }
                guard let parsed = try? JSON5Parser.parse(bytes) else {
                    r.complain(path, "names \(file), which is no JSON", at: node.offset)
                    return nil
                }
                account = (parsed, file, path, node)
            case "url": url = server(node, path, former: "", reader: &r)
            case "caFile": authorityFile = RelaySection.file(node, key: path, reader: &r)
            default:
                timeout = r.integer(node, path, in: 1...PushLimits.timeoutSecondsMaximum)
            }
        }
        guard let account else {
            r.complain("\(key).serviceAccountFile", "is needed", at: node.offset)
            return nil
        }
        let values = account.settings
        guard let pem = values["private_key"]?.text, let project = values["project_id"]?.text,
            let email = values["client_email"]?.text, let tokenURL = values["token_uri"]?.text,
            WebDestination(tokenURL)?.isEncrypted == true,
            project.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") })
        else {
            r.complain(
                account.place,
                "names \(account.path), which is no service account: private_key, project_id, "
                    + "client_email and token_uri are needed", at: account.node.offset)
            return nil
        }
        do throws(KeyFailure) {
            var settings = FCMSettings(
                key: try SigningKey(pem: Array(pem.utf8), for: .rs256), project: project,
                account: email, tokenURL: tokenURL)
            if let url { settings.url = url }
            settings.authorityFile = authorityFile
            if let timeout { settings.timeoutSeconds = timeout }
            return settings
        } catch {
            r.complain(
                account.place, "names \(account.path), whose private_key \(error)",
                at: account.node.offset)
            return nil
        }
    }

    // MARK: - Signed requests

    /// - Parameter needsURL: whether the section has the URL; otherwise the targets have it.
    static func requests(
        _ node: JSON5Node, key: String, needsURL: Bool, _ r: inout SectionReader
    ) -> RequestSettings {
        var settings = RequestSettings()
        let known =
            ["secretFiles", "caFile", "timeoutSeconds"]
            + (needsURL ? ["url", "numbers"] : ["allowHttp"])
        let members = r.members(node, key, known: known)
        for (name, path, node) in members {
            switch name {
            case "numbers": settings.numberPrefixes = numbers(node, key: path, &r)
            case "url": settings.url = RelaySection.url(node, key: path, reader: &r)
            case "allowHttp": settings.isPlainAllowed = r.boolean(node, path) ?? false
            case "timeoutSeconds":
                let seconds = r.integer(node, path, in: 1...PushLimits.timeoutSecondsMaximum)
                if let seconds { settings.timeoutMilliseconds = 1_000 * seconds }
            default: readSigning(name, path: path, node: node, into: &settings, &r)
            }
        }
        complete(settings, key: key, needsURL: needsURL, at: node.offset, &r)
        if needsURL, !members.contains(where: { $0.key == "numbers" }) {
            r.complain(
                "\(key).numbers", "is needed: how numbers may begin, such as \"+49\"",
                at: node.offset)
        }
        return settings
    }

    /// Beginnings of numbers in the form E.164.
    private static func numbers(
        _ node: JSON5Node, key: String, _ r: inout SectionReader
    ) -> [String] {
        list(node, key: key, &r).compactMap { key, node in
            guard let text = r.text(node, key) else { return nil }
            guard text.utf8.first == UInt8(ascii: "+"), text.utf8.count <= 16,
                text.utf8.dropFirst().allSatisfy({ (0x30...0x39).contains($0) })
            else {
                r.complain(key, "is no beginning of a number, such as +49", at: node.offset)
                return nil
            }
            return text
        }
    }

    /// A list with at least one element.
    private static func list(
        _ node: JSON5Node, key: String, _ r: inout SectionReader
    ) -> [(key: String, node: JSON5Node)] {
        let elements = r.elements(node, key)
        if elements.isEmpty { r.complain(key, "is empty", at: node.offset) }
        if elements.count > PushLimits.listMaximum {
            r.complain(key, "has more than \(PushLimits.listMaximum)", at: node.offset)
        }
        return elements.map { ($0.key, $0.node) }
    }

    static func hook(
        _ node: JSON5Node, key: String, _ r: inout SectionReader
    ) -> HookSettings {
        var hook = HookSettings()
        hook.request.timeoutMilliseconds = PushLimits.hookMillisecondsDefault
        let known = ["url", "secretFiles", "caFile", "timeoutMilliseconds", "onSilence"]
        for (name, path, node) in r.members(node, key, known: known) {
            switch name {
            case "url": hook.request.url = RelaySection.url(node, key: path, reader: &r)
            case "timeoutMilliseconds":
                hook.request.timeoutMilliseconds =
                    r.integer(node, path, in: 50...PushLimits.hookMillisecondsMaximum)
                    ?? hook.request.timeoutMilliseconds
            case "onSilence":
                let verdict = r.choice(node, path, as: SilenceVerdict.self)
                hook.isTemplateOnSilence = verdict != .drop
            default: readSigning(name, path: path, node: node, into: &hook.request, &r)
            }
        }
        complete(hook.request, key: key, needsURL: true, at: node.offset, &r)
        return hook
    }

    private enum SilenceVerdict: String, CaseIterable {
        case template
        case drop
    }

    private static func readSigning(
        _ name: String, path: String, node: JSON5Node, into settings: inout RequestSettings,
        _ r: inout SectionReader
    ) {
        switch name {
        case "secretFiles":
            settings.secrets = RelaySection.secrets(node, key: path, reader: &r)
        default: settings.authorityFile = RelaySection.file(node, key: path, reader: &r)
        }
    }

    private static func complete(
        _ settings: RequestSettings, key: String, needsURL: Bool, at offset: Int,
        _ r: inout SectionReader
    ) {
        if settings.secrets.isEmpty { r.complain("\(key).secretFiles", "is needed", at: offset) }
        if needsURL, settings.url.isEmpty { r.complain("\(key).url", "is needed", at: offset) }
    }

    // MARK: - MQTT and datagrams

    static func mqtt(
        _ node: JSON5Node, key: String, _ r: inout SectionReader
    ) -> MQTTSettings {
        var settings = MQTTSettings(server: ServerAddress(host: "", port: 1))
        let known = ["server", "user", "passwordFile", "clientId", "caFile", "version", "topics"]
        let members = r.members(node, key, known: known)
        for (name, path, node) in members {
            switch name {
            case "topics": settings.topics = topics(node, key: path, &r)
            case "server": settings.server = r.server(node, path) ?? settings.server
            case "user": settings.user = r.text(node, path)
            case "passwordFile": settings.password = r.secret(node, path)
            case "clientId":
                settings.clientIdentifier = r.text(node, path) ?? settings.clientIdentifier
            case "caFile": settings.authorityFile = RelaySection.file(node, key: path, reader: &r)
            default:
                settings.isVersion5 = r.choice(node, path, as: MQTTVersionName.self) == .five
            }
        }
        // The lengths of MQTT's texts have two bytes (MQTT 5.0, 1.5.4).
        let texts = [settings.user, settings.password, settings.clientIdentifier]
        if texts.contains(where: { ($0?.utf8.count ?? 0) > UInt16.max }) {
            r.complain(key, "has a text of more than \(UInt16.max) bytes", at: node.offset)
        }
        if settings.server.host.isEmpty {
            r.complain("\(key).server", "is needed: tls://HOST:PORT", at: node.offset)
        }
        if !members.contains(where: { $0.key == "topics" }) {
            r.complain(
                "\(key).topics",
                "is needed: filters of the topics that users may name, such as \"wake/%u/#\"",
                at: node.offset)
        }
        return settings
    }

    private static func topics(
        _ node: JSON5Node, key: String, _ r: inout SectionReader
    ) -> [WakeTopicRule] {
        list(node, key: key, &r).compactMap { key, node in
            guard let text = r.text(node, key) else { return nil }
            guard let rule = WakeTopicRule(text) else {
                r.complain(
                    key, "is no filter of topics without $ at its beginning", at: node.offset)
                return nil
            }
            return rule
        }
    }

    private enum MQTTVersionName: String, CaseIterable {
        case four = "3.1.1"
        case five = "5.0"
    }

    static func udp(
        _ node: JSON5Node, key: String, _ r: inout SectionReader
    ) -> DatagramSettings? {
        var datagramKey: DatagramKey?
        var settings: DatagramSettings?
        var count = PushLimits.datagramsDefault
        var wait = PushLimits.datagramMillisecondsDefault
        let known = ["networks", "keyFile", "repeats", "intervalMilliseconds"]
        let members = r.members(node, key, known: known)
        for (name, path, node) in members {
            switch name {
            case "keyFile":
                guard let text = r.secret(node, path) else { continue }
                datagramKey = DatagramKey(text)
                if datagramKey == nil {
                    let counts = PushLimits.datagramKeyByteCounts
                    r.complain(
                        path,
                        "has no key: \(2 * counts.lowerBound) to \(2 * counts.upperBound) "
                            + "hexadecimal digits", at: node.offset)
                }
            case "repeats":
                count = r.integer(node, path, in: 1...PushLimits.datagramsMaximum) ?? count
            case "intervalMilliseconds":
                wait =
                    r.integer(node, path, in: 100...PushLimits.datagramMillisecondsMaximum) ?? wait
            default: break
            }
        }
        if let datagramKey { settings = DatagramSettings(key: datagramKey) }
        settings?.datagramCount = count
        settings?.waitMilliseconds = UInt64(wait)
        for name in ["networks", "keyFile"] where !members.contains(where: { $0.key == name }) {
            r.complain("\(key).\(name)", "is needed", at: node.offset)
        }
        if let networks = members.first(where: { $0.key == "networks" }) {
            settings?.networks = RelaySection.networks(
                networks.node, key: networks.path, reader: &r)
        }
        return settings
    }
}
