// One key that signs JSON Web Tokens for an app, as it is written in the configuration:
//
//     {app: "demo", kid: "2026-11", algorithm: "ES256", file: "/etc/martlet/demo-2026-11.pem"}

import JSON5

/// How tokens are signed.
public enum WebTokenAlgorithm: String, CaseIterable, Sendable {
    case rs256 = "RS256"
    case es256 = "ES256"
    case edDSA = "EdDSA"
    case hs256 = "HS256"
}

/// A key and whom it vouches for.
public struct WebTokenKeySettings: ObjectSetting, Hashable, Sendable {
    /// The app whose users it vouches for: the tokens' `iss`.
    public var app: String
    /// What the tokens' headers call it.
    public var kid: String
    /// The only algorithm it is used with, whatever a token says.
    public var algorithm: WebTokenAlgorithm
    /// A public key as PEM; for HS256 the secret's bytes.
    public var file: String

    public init(app: String, kid: String, algorithm: WebTokenAlgorithm, file: String) {
        self.app = app
        self.kid = kid
        self.algorithm = algorithm
        self.file = file
    }

    /// Reads the written form: an object with all four members and no other.
    init(_ node: JSON5Node) throws(SettingFault) {
        var texts: [String: String] = [:]
        let known = ["app", "kid", "algorithm", "file"]
        for member in try Setting.members(of: node) {
            guard known.contains(member.key) else {
                throw SettingFault(
                    "has \(member.key); known are \(known.joined(separator: ", "))")
            }
            guard case .string(let text) = member.node.value, !text.isEmpty,
                !text.utf8.contains(0)
            else { throw SettingFault("must have a text for \(member.key)") }
            texts[member.key] = text
        }
        guard let app = texts["app"], let kid = texts["kid"], let name = texts["algorithm"],
            let file = texts["file"]
        else { throw SettingFault("must have \(known.joined(separator: ", "))") }
        guard let algorithm = WebTokenAlgorithm(rawValue: name) else {
            let names = WebTokenAlgorithm.allCases.map(\.rawValue).joined(separator: ", ")
            throw SettingFault("has the algorithm \(name); known are \(names)")
        }
        self.init(app: app, kid: kid, algorithm: algorithm, file: file)
    }

    /// The written form.
    var written: String {
        let members = [
            ("app", app), ("kid", kid), ("algorithm", algorithm.rawValue), ("file", file),
        ]
        return "{\(members.map { "\($0): \(JSONText.quoted($1))" }.joined(separator: ", "))}"
    }
}
