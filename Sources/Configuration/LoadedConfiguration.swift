// Settings with the origin of each: first the defaults, then the file, then the command line. Later
// ones override earlier ones.

import JSON5

/// A value from the command line.
public struct SettingOverride: Hashable, Sendable {
    /// The option that sets it, for errors and for ``LoadedConfiguration/printed``.
    public var option: String
    /// `key.path=value`. The value is JSON5. Text that is not JSON5 counts as a string, so that a
    /// shell needs no nested quotes.
    public var assignment: String

    public init(option: String = "--set", assignment: String) {
        self.option = option
        self.assignment = assignment
    }
}

/// A configuration that passed all checks.
public struct LoadedConfiguration: Sendable {
    public private(set) var settings = BrokerSettings()
    private var origins: [String: SettingOrigin] = [:]
    private var complaints: [ConfigurationError.Complaint] = []

    /// Reads and checks a configuration.
    ///
    /// - Parameters:
    ///   - text: the contents of the file, nil for none.
    ///   - path: the file's name, for errors.
    ///   - overrides: from the command line, in order.
    /// - Throws: all errors at once; a syntax error alone.
    public init(
        text: [UInt8]?, path: String = "", overrides: [SettingOverride] = []
    ) throws(ConfigurationError) {
        if let text { try readFile(text, path: path) }
        for override in overrides { apply(override) }
        // Values that are refused would only cause further errors.
        if complaints.isEmpty { checkTogether() }
        if !complaints.isEmpty { throw ConfigurationError(complaints: complaints) }
    }

    /// The origin of the value of a key.
    public func origin(of key: String) -> SettingOrigin {
        origins[key] ?? .standard
    }

    /// The effective values as a configuration for the broker, each with its origin as a comment.
    public var printed: String {
        var lines = ["{"]
        var section = ""
        for setting in SettingTable.all {
            let parts = setting.key.split(separator: ".")
            let newSection = parts.count > 1 ? String(parts[0]) : ""
            if newSection != section {
                if !section.isEmpty { lines.append("    },") }
                if !newSection.isEmpty { lines.append("    \(newSection): {") }
                section = newSection
            }
            let indentation = section.isEmpty ? "    " : "        "
            lines.append(
                "\(indentation)\(parts[parts.count - 1]): \(setting.written(settings)),"
                    + "  // \(origin(of: setting.key))")
        }
        if !section.isEmpty { lines.append("    },") }
        return (lines + ["}"]).joined(separator: "\n")
    }

    /// The keys whose values differ from those of `other`, in the order of the table: a reload
    /// reports them, and leaves some for a restart.
    public func settingsChanged(from other: LoadedConfiguration) -> [Setting] {
        SettingTable.all.filter { $0.written(settings) != $0.written(other.settings) }
    }

    // MARK: File

    private mutating func readFile(_ text: [UInt8], path: String) throws(ConfigurationError) {
        let root: JSON5Node
        do {
            // Every key has a default: a file that contains only comments sets none.
            if try JSON5Parser.isBlank(text) { return }
            root = try JSON5Parser.parse(text)
        } catch {
            let position = TextPosition(offset: error.offset, in: text)
            throw ConfigurationError(complaints: [
                .init(
                    origin: .file(path: path, position: position), key: nil, message: error.message)
            ])
        }
        let place = { (offset: Int) in
            SettingOrigin.file(path: path, position: TextPosition(offset: offset, in: text))
        }
        guard case .object(let members) = root.value else {
            complaints.append(
                .init(
                    origin: place(root.offset), key: nil,
                    message: "a configuration is an object in braces, not \(root.kindName)"))
            return
        }
        take(members, below: "", place: place)
    }

    private mutating func take(
        _ members: [JSON5Node.Member], below prefix: String, place: (Int) -> SettingOrigin
    ) {
        for member in members {
            let key = prefix + member.key
            let isSection = SettingTable.all.contains { $0.key.hasPrefix(key + ".") }
            switch member.node.value {
            case .object(let inner) where isSection:
                take(inner, below: key + ".", place: place)
            case _ where isSection:
                complain(
                    "must be an object in braces, not \(member.node.kindName)", key: key,
                    origin: place(member.node.offset))
            default:
                assign(
                    member.node, to: key, keyOrigin: place(member.keyOffset),
                    valueOrigin: place(member.node.offset))
            }
        }
    }

    // MARK: Command line

    private mutating func apply(_ override: SettingOverride) {
        let origin = SettingOrigin.commandLine(option: override.option)
        let parts = override.assignment.split(
            separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2 else {
            complaints.append(
                .init(
                    origin: origin, key: nil,
                    message: "\"\(override.assignment)\" must be written KEY.PATH=VALUE"))
            return
        }
        let written = Array(parts[1].utf8)
        let node =
            (try? JSON5Parser.parse(written))
            ?? JSON5Node(value: .string(String(parts[1])), offset: 0)
        assign(node, to: String(parts[0]), keyOrigin: origin, valueOrigin: origin)
    }

    // MARK: Both

    private mutating func assign(
        _ node: JSON5Node, to key: String, keyOrigin: SettingOrigin, valueOrigin: SettingOrigin
    ) {
        guard let setting = SettingTable.all.first(where: { $0.key == key }) else {
            let advice = SettingTable.nearestKey(to: key).map { "; did you mean \($0)?" } ?? ""
            complain("is not known\(advice)", key: key, origin: keyOrigin)
            return
        }
        do {
            try setting.assign(node, &settings)
            origins[key] = valueOrigin
        } catch {
            complain(error.message, key: key, origin: valueOrigin)
        }
    }

    /// Checks that concern several values.
    private mutating func checkTogether() {
        let limits = settings.limits
        if limits.packetMaximum < limits.payloadMaximum + PacketSizes.overhead {
            complain(
                "must be at least \(PacketSizes.overhead) more than limits.payloadMaximum "
                    + "(\(limits.payloadMaximum))", key: "limits.packetMaximum")
        }
        if limits.sessionExpirySeconds > limits.sessionExpiryMaximumSeconds {
            complain(
                "must not be more than limits.sessionExpiryMaximumSeconds "
                    + "(\(limits.sessionExpiryMaximumSeconds))", key: "limits.sessionExpirySeconds")
        }
        if settings.store.mapBytes / 2 < settings.store.softLimitBytes {
            complain(
                "must be at least twice store.softLimitBytes (\(settings.store.softLimitBytes))",
                key: "store.mapBytes")
        }
        if (settings.tls.certificateFile == nil) != (settings.tls.keyFile == nil) {
            complain(
                "needs tls.keyFile beside it, and the other way round", key: "tls.certificateFile")
        }
        checkClientIdentities()
        for fault in settings.cluster.faults { complain(fault.message, key: fault.key) }
        if settings.cluster.isUsed, settings.files.directory != nil {
            complain(
                "does not go with cluster.servers: a file is on the disk of one node, and would be "
                    + "lost with it", key: "files.directory")
        }
        if settings.cluster.isUsed, limits.packetMaximum > ClusterSettings.packetMaximum {
            complain(
                "must be at most \(ClusterSettings.packetMaximum) beside cluster.servers, because "
                    + "a packet has to fit into a record of the cluster's log",
                key: "limits.packetMaximum")
        }
        if settings.shards.count > ShardSettings.countMaximum {
            complain("must have at most \(ShardSettings.countMaximum) entries", key: "shards")
        }
        let bare = settings.listeners.first {
            $0.transport == .tls && $0.certificateFile == nil && settings.tls.certificateFile == nil
        }
        if let bare {
            complain(
                "has \(bare), which needs tls.certificateFile and tls.keyFile", key: "listeners")
        }
    }

    /// Checks of client authentication.
    private mutating func checkClientIdentities() {
        let tls = settings.tls
        if tls.clientAuthorityFile == nil {
            if let listener = settings.listeners.first(where: { $0.clientCertificates != .none }) {
                complain("has \(listener), which needs tls.clientAuthorityFile", key: "listeners")
            }
            if tls.crlFile != nil {
                complain("needs tls.clientAuthorityFile beside it", key: "tls.crlFile")
            }
        }
        var seen: Set<[String]> = []
        for key in settings.jwt.keys where !seen.insert([key.app, key.kid]).inserted {
            complain("has two keys called \(key.kid) for the app \(key.app)", key: "jwt.keys")
        }
        var issuers: Set<String> = []
        for issuer in settings.jwt.issuers where !issuers.insert(issuer.issuer).inserted {
            complain("has two issuers called \(issuer.issuer)", key: "jwt.issuers")
        }
        for issuer in settings.jwt.issuers
        where settings.jwt.keys.contains(where: { $0.app == issuer.issuer }) {
            complain(
                "has the issuer \(issuer.issuer), which is also an app of jwt.keys",
                key: "jwt.issuers")
        }
        // Who registers first would be the user whom another source vouches for later.
        for app in settings.apps where app.interfaces.contains(.registration) {
            let hasOthers =
                settings.jwt.keys.contains { $0.app == app.app }
                || settings.jwt.issuers.contains { $0.app == app.app }
                // Their names may have the form APP/USER, with any app.
                || settings.tls.clientAuthorityFile != nil || settings.tls.pskFile != nil
            if hasOthers {
                complain(
                    "has registration for the app \(app.app), whose users come from web tokens, "
                        + "certificates or pre-shared keys", key: "apps")
            }
            if !app.interfaces.contains(.rest) {
                complain(
                    "has registration for the app \(app.app) without rest, which logs in",
                    key: "apps")
            }
        }
        if settings.files.directory != nil, settings.files.bytesPerApp > 0 {
            if let address = settings.files.address {
                if !["https://", "http://"].contains(where: { address.hasPrefix($0) }) {
                    complain("must begin with https:// or http://", key: "files.address")
                }
            } else {
                complain(
                    "needs files.address, such as https://broker.example:8443",
                    key: "files.directory")
            }
        }
        if !settings.jwt.allowHS256, settings.jwt.keys.contains(where: { $0.algorithm == .hs256 }) {
            complain("has a key for HS256, which needs jwt.allowHS256", key: "jwt.keys")
        }
    }

    private mutating func complain(_ message: String, key: String) {
        complain(message, key: key, origin: origins[key] ?? .standard)
    }

    private mutating func complain(_ message: String, key: String, origin: SettingOrigin) {
        complaints.append(.init(origin: origin, key: key, message: message))
    }
}
