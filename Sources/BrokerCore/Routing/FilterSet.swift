// The topic filters of an app's settings, of which is asked only whether one matches.

import Primitives

/// What the tree of such filters leads to. The targets mean nothing.
enum SettingsFilter {}

/// Filters of the settings for one purpose, such as the topics that have history.
struct FilterSet: ~Copyable {
    private var filters: [[UInt8]] = []
    private var tree = TopicTree<SettingsFilter>()

    var isEmpty: Bool { filters.isEmpty }

    /// Takes over the filters of the settings. The same ones are not compiled again.
    mutating func replace(with filters: [[UInt8]]) {
        guard self.filters != filters else { return }
        self.filters = filters
        tree = TopicTree<SettingsFilter>()
        for (position, filter) in filters.enumerated() {
            filter.withUnsafeBytes {
                guard tree.target(of: $0) == nil else { return }
                tree.insert($0, target: Index(place: UInt32(position)))
            }
        }
    }

    /// Whether a filter matches a topic by the rules of MQTT 4.7. Costs one comparison without
    /// filters; each use has a bound for them (``CoreLimits/historyFiltersMaximum``).
    func matches(_ topic: RawSpan) -> Bool {
        guard !filters.isEmpty else { return false }
        var matched = ContiguousArray<Index<SettingsFilter>>()
        _ = topic.withUnsafeBytes { tree.match($0, into: &matched) }
        return !matched.isEmpty
    }
}
