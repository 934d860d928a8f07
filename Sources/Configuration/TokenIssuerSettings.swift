// An identity provider whose tokens are accepted, as it is written in the configuration:
//
//     {issuer: "https://login.example.com/realms/plant", audience: "martlet", app: "plant",
//      file: "/etc/martlet/login-jwks.json", user: "${preferred_username}",
//      rights: ["subscribe:plant/${sub}/#", "${martlet_rights}"]}

import JSON5

/// An identity provider, and what the claims of its tokens mean.
public struct TokenIssuerSettings: ObjectSetting, Hashable, Sendable {
    /// The tokens' `iss`.
    public var issuer: String
    /// What the tokens' `aud` must contain.
    public var audience: String
    /// The app whose users it vouches for.
    public var app: String
    /// Its JSON Web Key Set.
    public var file: String
    /// A template of the user.
    public var user: String
    /// A template of the device that tokens are bound to; nil for any device.
    public var device: String?
    /// Templates of what the bearers may do; nil for the rights of the app.
    public var rights: [String]?

    /// The user of a provider that is not asked for another claim.
    public static let standardUser = "${sub}"

    public init(
        issuer: String, audience: String, app: String, file: String, user: String = standardUser,
        device: String? = nil, rights: [String]? = nil
    ) {
        self.issuer = issuer
        self.audience = audience
        self.app = app
        self.file = file
        self.user = user
        self.device = device
        self.rights = rights
    }

    private static let required = ["issuer", "audience", "app", "file"]
    private static let optional = ["user", "device", "rights"]

    /// Reads the written form: an object with the first four members, and maybe the others.
    init(_ node: JSON5Node) throws(SettingFault) {
        var texts: [String: String] = [:]
        var rights: [String]?
        let known = Self.required + Self.optional
        for member in try Setting.members(of: node) {
            guard known.contains(member.key) else {
                throw SettingFault(
                    "has \(member.key); known are \(known.joined(separator: ", "))")
            }
            if member.key == "rights" {
                rights = try Self.list(member.node)
            } else {
                texts[member.key] = try Self.text(member.node, member.key)
            }
        }
        guard let issuer = texts["issuer"], let audience = texts["audience"],
            let app = texts["app"], let file = texts["file"]
        else {
            throw SettingFault("must have \(Self.required.joined(separator: ", "))")
        }
        self.init(
            issuer: issuer, audience: audience, app: app, file: file,
            user: texts["user"] ?? Self.standardUser, device: texts["device"], rights: rights)
    }

    private static func text(_ node: JSON5Node, _ key: String) throws(SettingFault) -> String {
        guard case .string(let text) = node.value, !text.isEmpty, !text.utf8.contains(0) else {
            throw SettingFault("must have a text for \(key)")
        }
        return text
    }

    private static func list(_ node: JSON5Node) throws(SettingFault) -> [String] {
        guard case .array(let nodes) = node.value else {
            throw SettingFault("must have a list in brackets for rights")
        }
        var texts: [String] = []
        for node in nodes { texts.append(try text(node, "each of rights")) }
        return texts
    }

    /// The written form.
    var written: String {
        var members = [
            ("issuer", issuer), ("audience", audience), ("app", app), ("file", file),
            ("user", user),
        ].map { "\($0): \(JSONText.quoted($1))" }
        if let device { members.append("device: \(JSONText.quoted(device))") }
        if let rights {
            members.append("rights: [\(rights.map(JSONText.quoted).joined(separator: ", "))]")
        }
        return "{\(members.joined(separator: ", "))}"
    }
}
