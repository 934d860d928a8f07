// Filters of the topics of an app that have history, as `historyTopics` of `apps` lists them.

import JSON5

enum HistoryFilters {
    /// As many as the broker compares with each publication.
    static let countMaximum = 64
    /// As many bytes as a topic with history may have.
    static let byteCountMaximum = 1_024

    static func read(_ node: JSON5Node) throws(SettingFault) -> [String] {
        guard case .array(let elements) = node.value else {
            throw SettingFault("must be a list, not \(node.kindName)")
        }
        guard elements.count <= countMaximum else {
            throw SettingFault("has \(elements.count) filters; \(countMaximum) are allowed")
        }
        var filters: [String] = []
        for (index, element) in elements.enumerated() {
            do throws(SettingFault) {
                let filter = try Setting.nonEmptyText(element)
                if let fault = fault(of: filter) { throw SettingFault(fault) }
                filters.append(filter)
            } catch {
                throw SettingFault("has an entry \(index + 1) that \(error.message)")
            }
        }
        return filters
    }

    /// The reason for which a text is no filter of topics with history; nil if it is one.
    static func fault(of filter: String) -> String? {
        guard filter.utf8.count <= byteCountMaximum else {
            return "has more than \(byteCountMaximum) bytes"
        }
        if filter.utf8.first == UInt8(ascii: "$") {
            return "begins with $: the broker's own topics have no history"
        }
        let levels = filter.utf8.split(
            separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        for (position, level) in levels.enumerated() {
            let isHash = level.elementsEqual("#".utf8)
            let isLast = position == levels.count - 1
            let hasWildcard = level.contains { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") }
            if level.contains(0) || hasWildcard && level.count > 1 || isHash && !isLast {
                return "is no topic filter: \"\(filter)\""
            }
        }
        return nil
    }
}
