// Objects in the configuration, and lists of them: keys of web tokens, settings of apps.

import JSON5

/// An object of a list.
protocol ObjectSetting: Sendable {
    /// Reads the written form.
    init(_ node: JSON5Node) throws(SettingFault)
    /// The written form.
    var written: String { get }
    /// Its error beside the objects before it; nil for none.
    func fault(beside others: [Self]) -> String?
}

extension ObjectSetting {
    func fault(beside others: [Self]) -> String? { nil }
}

extension Setting {
    /// A list of objects. An error names the entry, counted from 1.
    static func objects<Element: ObjectSetting>(
        _ key: String, at path: Path<[Element]>, reload: ReloadEffect, _ reason: String
    ) -> Setting {
        Setting(
            key: key, domain: "list of objects", reload: reload, reason: reason,
            written: { "[\($0[keyPath: path].map(\.written).joined(separator: ", "))]" },
            assign: { node, settings throws(SettingFault) in
                guard case .array(let elements) = node.value else {
                    throw SettingFault("must be a list, not \(node.kindName)")
                }
                var list: [Element] = []
                for (index, node) in elements.enumerated() {
                    do throws(SettingFault) {
                        let element = try Element(node)
                        if let fault = element.fault(beside: list) { throw SettingFault(fault) }
                        list.append(element)
                    } catch {
                        throw SettingFault("entry \(index + 1) \(error.message)")
                    }
                }
                settings[keyPath: path] = list
            })
    }

    /// The members of an object.
    static func members(of node: JSON5Node) throws(SettingFault) -> [JSON5Node.Member] {
        guard case .object(let members) = node.value else {
            throw SettingFault("must be an object in braces, not \(node.kindName)")
        }
        return members
    }

    /// Reads the members of an object. An error names the member.
    static func readMembers(
        of node: JSON5Node, _ read: (String, JSON5Node) throws(SettingFault) -> Void
    ) throws(SettingFault) {
        for member in try members(of: node) {
            do throws(SettingFault) {
                try read(member.key, member.node)
            } catch {
                throw SettingFault("has \(member.key), which \(error.message)")
            }
        }
    }
}
