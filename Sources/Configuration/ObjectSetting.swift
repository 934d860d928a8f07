// Lists of objects in the configuration: keys of web tokens, what apps have otherwise.

import JSON5

/// What an object of a list means.
protocol ObjectSetting: Sendable {
    /// Reads the written form.
    init(_ node: JSON5Node) throws(SettingFault)
    /// The written form.
    var written: String { get }
    /// What is wrong with it beside those before it; nil for nothing.
    func fault(beside others: [Self]) -> String?
}

extension ObjectSetting {
    func fault(beside others: [Self]) -> String? { nil }
}

extension Setting {
    /// A list of objects. A fault names the entry, counted from 1.
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
}
