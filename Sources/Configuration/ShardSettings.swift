// The apps of a shard, as written in the configuration:
//
//     {name: "north", apps: ["plant", "home"]}

import JSON5

/// A shard beside the default one, and its apps.
public struct ShardSettings: ObjectSetting, Hashable, Sendable {
    /// The name of the shard that has the apps of no other shard, and its store in the data
    /// directory.
    public static let defaultName = "default"
    /// Shards beside the default one: every event loop enters the core of each, and each has a
    /// thread for its store, which syncs on its own.
    public static let countMaximum = 15
    /// It is the name of a directory and the value of a label of the metrics.
    static let nameByteCountMaximum = 32
    /// The bound of every id (docs/PROTOCOL.md).
    private static let appByteCountMaximum = 64

    public var name: String
    public var apps: [String]

    public init(name: String = "", apps: [String] = []) {
        self.name = name
        self.apps = apps
    }

    /// Reads the written form: an object with `name` and `apps`.
    init(_ node: JSON5Node) throws(SettingFault) {
        self.init()
        try Setting.readMembers(of: node) { key, node throws(SettingFault) in
            switch key {
            case "name": name = try Self.name(node)
            case "apps": apps = try Self.apps(node)
            default: throw SettingFault("is unknown; known are name, apps")
            }
        }
        guard !name.isEmpty else { throw SettingFault("must have name, the name of the shard") }
        guard !apps.isEmpty else { throw SettingFault("must have apps, one at least") }
    }

    private static func name(_ node: JSON5Node) throws(SettingFault) -> String {
        let name = try Setting.nonEmptyText(node)
        let isName = name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                UInt8(ascii: "-"):
                true
            default: false
            }
        }
        guard isName, !name.hasPrefix("-"), name.utf8.count <= nameByteCountMaximum else {
            throw SettingFault(
                "must have at most \(nameByteCountMaximum) small letters, digits and hyphens, and "
                    + "no hyphen first, not \(JSONText.quoted(name))")
        }
        guard name != defaultName else {
            throw SettingFault(
                "must not be \(JSONText.quoted(defaultName)), the shard of all other apps")
        }
        return name
    }

    private static func apps(_ node: JSON5Node) throws(SettingFault) -> [String] {
        guard case .array(let elements) = node.value else {
            throw SettingFault("must be a list, not \(node.kindName)")
        }
        var apps: [String] = []
        for (index, element) in elements.enumerated() {
            do throws(SettingFault) {
                let app = try Setting.nonEmptyText(element)
                guard app.utf8.count <= appByteCountMaximum, !app.contains(where: "/+#".contains)
                else {
                    throw SettingFault(
                        "is no name of an app: 1 to \(appByteCountMaximum) bytes without /, + "
                            + "and #")
                }
                guard !has(app, among: apps) else {
                    throw SettingFault("is \(JSONText.quoted(app)) once more")
                }
                apps.append(app)
            } catch {
                throw SettingFault("has entry \(index + 1), which \(error.message)")
            }
        }
        return apps
    }

    /// Apps are the same if their bytes are.
    private static func has(_ app: String, among apps: [String]) -> Bool {
        apps.contains { $0.utf8.elementsEqual(app.utf8) }
    }

    func fault(beside others: [Self]) -> String? {
        if others.contains(where: { $0.name == name }) {
            return "names the shard \(JSONText.quoted(name)) once more"
        }
        for other in others {
            if let app = apps.first(where: { Self.has($0, among: other.apps) }) {
                return "has the app \(JSONText.quoted(app)), which the shard "
                    + "\(JSONText.quoted(other.name)) has"
            }
        }
        return nil
    }

    /// The written form.
    var written: String {
        let apps = apps.map { JSONText.quoted($0) }.joined(separator: ", ")
        return "{name: \(JSONText.quoted(name)), apps: [\(apps)]}"
    }
}
