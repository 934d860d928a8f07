// Builds a bridge's settings from the sections of its file, and checks what follows from several of
// them: filters that overlap, and rules that form a loop.

import ClientProgram
import JSON5
import MartletClient
import NetTransport
import WireFormat

/// The names of MQTT's versions in the file.
private enum VersionName: String, CaseIterable {
    case v311 = "3.1.1"
    case v5 = "5"

    var version: MQTT.Version { self == .v5 ? .v5 : .v311 }
}

/// Settings under construction.
struct BridgeSettingsBuilder {
    private var token: String?
    private var foreign: ForeignSettings?
    private var martlet: MartletSettings?
    private var stateFile: String?
    private var packetMaximum = BridgeLimits.packetMaximumDefault
    private var totalsSeconds = 300
    private var rules = RuleSet()
    /// The place of each rule, for errors that concern two of them.
    private var inwardPlaces: [(key: String, offset: Int)] = []
    private var outwardPlaces: [(key: String, offset: Int)] = []
    private var deadLetterOffset = 0

    init(token: String?) {
        self.token = token
    }

    mutating func read(_ root: JSON5Node, _ r: inout SectionReader) {
        let known = [
            "mqtt", "martlet", "stateFile", "packetMaximumBytes", "totalsSeconds", "toMartlet",
            "toMqtt", "deadLetter",
        ]
        for (key, path, node) in r.members(root, "", known: known) {
            switch key {
            case "mqtt": readForeign(node, &r)
            case "martlet": readMartlet(node, &r)
            case "stateFile": stateFile = r.text(node, path)
            case "packetMaximumBytes":
                let range =
                    BridgeLimits.packetMaximumMinimum...BridgeLimits.packetMaximumMaximum
                packetMaximum = r.integer(node, path, in: range) ?? packetMaximum
            case "totalsSeconds":
                totalsSeconds = r.integer(node, path, in: 0...86_400) ?? totalsSeconds
            case "toMartlet":
                for (key, node) in r.elements(node, path) { readInward(node, key: key, reader: &r) }
            case "toMqtt":
                for (key, node) in r.elements(node, path) {
                    readOutward(node, key: key, reader: &r)
                }
            default: readDeadLetter(node, key: path, reader: &r)
            }
        }
    }

    // MARK: - The brokers

    private mutating func readForeign(_ node: JSON5Node, _ r: inout SectionReader) {
        var settings = ForeignSettings(
            server: ServerAddress(host: "", port: 1), clientIdentifier: "")
        var files = TrustFiles()
        let known =
            [
                "server", "version", "clientId", "user", "password", "passwordFile",
                "keepAliveSeconds", "sessionExpirySeconds", "inFlight",
            ] + TrustFiles.keys
        for (key, path, node) in r.members(node, "mqtt", known: known) {
            switch key {
            case "server": settings.server = r.server(node, path) ?? settings.server
            case "version":
                settings.version = r.choice(node, path, as: VersionName.self)?.version ?? .v5
            case "clientId": settings.clientIdentifier = r.text(node, path) ?? ""
            case "user": settings.user = r.text(node, path)
            case "password": settings.password = r.text(node, path)
            case "passwordFile": settings.password = r.secret(node, path)
            case "keepAliveSeconds":
                settings.keepAliveSeconds = UInt16(r.integer(node, path, in: 5...65_535) ?? 60)
            case "sessionExpirySeconds":
                let seconds = r.integer(node, path, in: 60...Int(UInt32.max)) ?? 604_800
                settings.sessionExpirySeconds = UInt32(seconds)
            case "inFlight":
                settings.inFlightMaximum =
                    readInFlight(node, key: path, reader: &r) ?? settings.inFlightMaximum
            default: files.take(key, path: path, node: node, reader: &r)
            }
        }
        if settings.server.host.isEmpty {
            r.complain("mqtt.server", "is needed: tls://HOST:PORT", at: node.offset)
        }
        if settings.clientIdentifier.isEmpty {
            r.complain(
                "mqtt.clientId", "is needed: the name of the session that the broker keeps",
                at: node.offset)
        }
        if settings.password != nil, settings.user == nil, settings.version < .v5 {
            r.complain("mqtt.password", "needs mqtt.user in 3.1.1", at: node.offset)
        }
        settings.tls = files.context(for: settings.server, "mqtt", at: node.offset, &r)
        foreign = settings
    }

    private mutating func readMartlet(_ node: JSON5Node, _ r: inout SectionReader) {
        var settings = MartletSettings(servers: [], tls: nil)
        settings.token = token
        var files = TrustFiles()
        let known =
            ["server", "token", "tokenFile", "device", "keepAliveSeconds", "inFlight"]
            + TrustFiles.keys
        for (key, path, node) in r.members(node, "martlet", known: known) {
            switch key {
            case "server": settings.servers = r.servers(node, path) ?? settings.servers
            case "token": settings.token = r.text(node, path)
            case "tokenFile": settings.token = r.secret(node, path)
            case "device":
                let device = r.text(node, path) ?? settings.device
                settings.device = device
                if !TextRules.isIdentifier(Array(device.utf8).span.bytes) {
                    r.complain(path, "is no device id", at: node.offset)
                }
            case "keepAliveSeconds":
                settings.keepAliveSeconds = UInt16(r.integer(node, path, in: 5...65_535) ?? 60)
            case "inFlight":
                settings.inFlightMaximum =
                    readInFlight(node, key: path, reader: &r) ?? settings.inFlightMaximum
            default: files.take(key, path: path, node: node, reader: &r)
            }
        }
        if settings.servers.isEmpty {
            r.complain("martlet.server", "is needed: tls://HOST:PORT", at: node.offset)
        }
        if settings.token == nil, files.certificate == nil {
            r.complain(
                "martlet.tokenFile", "is needed, or MARTLET_TOKEN, or a client certificate",
                at: node.offset)
        }
        if let server = settings.servers.first {
            settings.tls = files.context(for: server, "martlet", at: node.offset, &r)
        }
        martlet = settings
    }

    private func readInFlight(
        _ node: JSON5Node, key path: String, reader r: inout SectionReader
    ) -> Int? {
        r.integer(node, path, in: 1...BridgeLimits.inFlightMaximum)
    }

    // MARK: - The rules

    private static let inwardNames: Set<String> = ["topic"]

    private mutating func readInward(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) {
        let known = ["from", "to", "payload", "type", "qos", "retain"]
        let members = r.members(node, key, known: known)
        var filter: TopicFilter?
        var target: InwardRule.Target?
        var form: InwardRule.Form?
        var type: (value: UInt8, offset: Int)?
        var retain: (value: Bool, offset: Int)?
        var qos = MQTT.QoS.exactlyOnce
        // The template is checked against the filter, which may follow it.
        if let from = members.first(where: { $0.key == "from" }) {
            filter = r.filter(from.node, from.path)
        } else {
            r.complain("\(key).from", "is needed: a topic filter", at: node.offset)
        }
        for (name, path, node) in members {
            switch name {
            case "to": target = readTarget(node, key: path, filter: filter, reader: &r)
            case "payload": form = r.choice(node, path, as: InwardRule.Form.self)
            case "type":
                type = r.integer(node, path, in: 0...255).map { (UInt8($0), node.offset) }
            case "qos": qos = readQoS(node, key: path, reader: &r)
            case "retain": retain = r.boolean(node, path).map { ($0, node.offset) }
            default: break
            }
        }
        if !members.contains(where: { $0.key == "to" }) {
            r.complain(
                "\(key).to", "is needed: {user: …}, {group: …} or {topic: …}", at: node.offset)
        }
        guard let filter, let target else { return }
        var isTopic = false
        if case .topic = target { isTopic = true }
        let rule = InwardRule(
            filter: filter, target: target, form: form ?? (isTopic ? .raw : .text),
            type: type?.value ?? 0, qos: qos, isRetained: retain?.value ?? false)
        if rule.form == .raw, !isTopic {
            r.complain("\(key).payload", "can be raw only to a topic", at: node.offset)
        }
        if let retain, retain.value, !isTopic {
            r.complain("\(key).retain", "is for a topic only", at: retain.offset)
        }
        if let type, rule.form != .text {
            r.complain("\(key).type", "is for the payload text only", at: type.offset)
        }
        rules.inward.append(rule)
        inwardPlaces.append((key, node.offset))
    }

    private func readTarget(
        _ node: JSON5Node, key: String, filter: TopicFilter?, reader r: inout SectionReader
    ) -> InwardRule.Target? {
        let members = r.members(node, key, known: ["user", "group", "topic"])
        guard members.count == 1, let (name, path, value) = members.first else {
            r.complain(key, "must be one of {user: …}, {group: …}, {topic: …}", at: node.offset)
            return nil
        }
        let isTopic = name == "topic"
        guard
            let template = r.template(
                value, path, names: Self.inwardNames, for: filter, isTopic: isTopic)
        else { return nil }
        if isTopic {
            if template.source.hasPrefix("$") {
                r.complain(path, "begins with $, which is Martlet's own", at: value.offset)
            }
            return .topic(template)
        }
        if template.isFixed {
            let bytes = template.filled(TemplateValues()) ?? []
            if !TextRules.isIdentifier(bytes.span.bytes) {
                r.complain(path, "is no id: 1 to 64 bytes without / + #", at: value.offset)
            }
        }
        return name == "user" ? .user(template) : .group(template)
    }

    private mutating func readOutward(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) {
        let members = r.members(node, key, known: ["from", "to", "payload", "qos", "retain"])
        var source: OutwardRule.Source?
        var template: Template?
        var form = OutwardRule.Form.text
        var qos = MQTT.QoS.exactlyOnce
        var isRetained = false
        if let from = members.first(where: { $0.key == "from" }) {
            source = readSource(from.node, key: from.path, reader: &r)
        } else {
            r.complain(
                "\(key).from", "is needed: {inbox: …}, {group: …}, {broadcast: …} or {topic: …}",
                at: node.offset)
        }
        for (name, path, node) in members {
            switch name {
            case "to":
                guard let source else { continue }
                let (names, filter) = Self.places(of: source)
                template = r.template(node, path, names: names, for: filter, isTopic: true)
            case "payload": form = r.choice(node, path, as: OutwardRule.Form.self) ?? .text
            case "qos": qos = readQoS(node, key: path, reader: &r)
            case "retain": isRetained = r.boolean(node, path) ?? false
            default: break
            }
        }
        if !members.contains(where: { $0.key == "to" }) {
            r.complain("\(key).to", "is needed: a topic", at: node.offset)
        }
        guard let source, let template else { return }
        rules.outward.append(
            OutwardRule(
                source: source, topic: template, form: form, qos: qos, isRetained: isRetained))
        outwardPlaces.append((key, node.offset))
    }

    /// The placeholders that a source's messages can fill.
    private static func places(
        of source: OutwardRule.Source
    ) -> (names: Set<String>, filter: TopicFilter?) {
        switch source {
        case .inbox, .broadcast: (["from"], nil)
        case .group: (["from", "group"], nil)
        case .topic(let filter): (["from", "topic"], filter)
        }
    }

    private func readSource(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) -> OutwardRule.Source? {
        let known = ["inbox", "group", "broadcast", "topic"]
        let members = r.members(node, key, known: known)
        guard members.count == 1, let (name, path, value) = members.first else {
            r.complain(
                key, "must be one of {inbox: …}, {group: …}, {broadcast: …}, {topic: …}",
                at: node.offset)
            return nil
        }
        if name == "topic" { return r.filter(value, path).map { .topic($0) } }
        guard let text = r.text(value, path) else { return nil }
        let id = text == "*" ? nil : text
        if let id, !TextRules.isIdentifier(Array(id.utf8).span.bytes) {
            r.complain(path, "is no id, and not \"*\" for any", at: value.offset)
            return nil
        }
        switch name {
        case "inbox": return .inbox(id)
        case "group": return .group(id)
        default: return .broadcast(id)
        }
    }

    private func readQoS(
        _ node: JSON5Node, key path: String, reader r: inout SectionReader
    ) -> MQTT.QoS {
        let value = r.integer(node, path, in: 0...2) ?? 2
        return MQTT.QoS(rawValue: UInt8(value))!
    }

    private mutating func readDeadLetter(
        _ node: JSON5Node, key: String, reader r: inout SectionReader
    ) {
        for (name, path, node) in r.members(node, key, known: ["martlet", "mqtt"]) {
            if name == "martlet" {
                rules.inwardDeadLetter = r.template(
                    node, path, names: Self.inwardNames, for: nil, isTopic: true)
                if rules.inwardDeadLetter?.usesLevels == true {
                    r.complain(path, "can have {topic}, but no level of it", at: node.offset)
                }
            } else {
                deadLetterOffset = node.offset
                rules.outwardDeadLetter = r.template(
                    node, path, names: ["from"], for: nil, isTopic: true)
            }
        }
    }

    // MARK: - Checks across keys

    /// The settings, if there is no error.
    mutating func finish(_ root: JSON5Node, _ r: inout SectionReader) -> BridgeSettings? {
        for (name, isThere) in [
            ("mqtt", foreign != nil), ("martlet", martlet != nil),
            ("stateFile", stateFile != nil),
        ] where !isThere {
            r.complain(name, "is needed", at: root.offset)
        }
        if rules.inward.isEmpty, rules.outward.isEmpty {
            r.complain("", "there is no rule: toMartlet or toMqtt", at: root.offset)
        }
        if rules.inward.count + rules.outward.count > BridgeLimits.rulesMaximum {
            r.complain("", "more than \(BridgeLimits.rulesMaximum) rules", at: root.offset)
        }
        checkOverlaps(&r)
        if let foreign, foreign.version < .v5 { checkEchoes(&r) }
        guard r.complaints.isEmpty, let foreign, let martlet, let stateFile else { return nil }
        return BridgeSettings(
            foreign: foreign, martlet: martlet, stateFile: stateFile,
            packetMaximum: packetMaximum, totalsSeconds: totalsSeconds, rules: rules)
    }

    /// A broker may send a message once for each of two subscriptions that match it, and one
    /// message can have one result only.
    private func checkOverlaps(_ r: inout SectionReader) {
        for (index, rule) in rules.inward.enumerated() {
            for (earlier, other) in rules.inward[..<index].enumerated()
            where other.filter.overlaps(rule.filter) {
                r.complain(
                    "\(inwardPlaces[index].key).from",
                    "matches topics that \(inwardPlaces[earlier].key).from matches too",
                    at: inwardPlaces[index].offset)
            }
        }
        for (index, rule) in rules.outward.enumerated() {
            for (earlier, other) in rules.outward[..<index].enumerated()
            where other.source.overlaps(rule.source) {
                r.complain(
                    "\(outwardPlaces[index].key).from",
                    "selects messages that \(outwardPlaces[earlier].key).from selects too",
                    at: outwardPlaces[index].offset)
            }
        }
    }

    /// In 3.1.1 a broker sends a client its own publications if it subscribes to them.
    private func checkEchoes(_ r: inout SectionReader) {
        var topics = zip(rules.outward, outwardPlaces).map {
            ($0.topic, "\($1.key).to", $1.offset)
        }
        if let template = rules.outwardDeadLetter {
            topics.append((template, "deadLetter.mqtt", deadLetterOffset))
        }
        for (template, key, offset) in topics {
            guard let filter = template.asFilter else { continue }
            for (rule, place) in zip(rules.inward, inwardPlaces)
            where rule.filter.overlaps(filter) {
                r.complain(
                    key,
                    "can be a topic that \(place.key).from matches: it would come back, which only "
                        + "mqtt.version 5 can prevent", at: offset)
            }
        }
    }
}

extension OutwardRule.Source {
    /// Whether a message can match both.
    func overlaps(_ other: OutwardRule.Source) -> Bool {
        func isShared(_ one: String?, _ other: String?) -> Bool {
            one == nil || other == nil || one == other
        }
        return switch (self, other) {
        case (.inbox(let one), .inbox(let two)): isShared(one, two)
        case (.group(let one), .group(let two)): isShared(one, two)
        case (.broadcast(let one), .broadcast(let two)): isShared(one, two)
        case (.topic(let one), .topic(let two)): one.overlaps(two)
        default: false
        }
    }
}

extension Template {
    /// Whether it names single levels of a topic.
    var usesLevels: Bool {
        parts.contains {
            switch $0 {
            case .level, .rest: true
            case .text, .from, .group, .topic: false
            }
        }
    }
}
