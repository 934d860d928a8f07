// Lists, shows and deletes retained messages for an operator. There may be a million of them, so
// they are read in slices: no message waits for more than one.

import Primitives

/// A retained message, as an operator sees it.
public struct RetainedDescription: Hashable, Sendable {
    public var topic: [UInt8]
    /// The user who published it.
    public var sender: [UInt8]
    public var grade: Grade
    /// The type, for a message that is not arbitrary bytes.
    public var type: UInt8?
    /// The first bytes of its content, without the type; empty if they were not requested.
    public var content: [UInt8]
    public var contentByteCount: Int
    /// Bytes that count towards the limit of the app.
    public var byteCount: Int
    /// The time of the publication in Unix milliseconds.
    public var unixMilliseconds: UInt64
    /// `.never` for a message without an expiry.
    public var deadline: Instant
}

/// A search for an app's retained messages that match a filter, in the order of their places. A
/// topic that has a retained message all the time is met once, however often it is replaced.
public struct RetainedSearch: Sendable {
    fileprivate let app: [UInt8]
    fileprivate let filter: [UInt8]
    fileprivate let levels: FilterLevels
    private let countMaximum: Int
    /// The messages that were found; empty if they are deleted.
    public fileprivate(set) var found: [RetainedDescription] = []
    /// The number of messages that were found or deleted.
    public fileprivate(set) var count = 0
    fileprivate var byteCount = 0
    /// The place that was read last.
    fileprivate var place: UInt32?
    fileprivate var isAtEnd = false

    /// Messages that are read at a time: about a millisecond.
    static let sliceCount = 4_096
    /// Messages that are deleted at a time: each is a change of a batch.
    static let deletionSliceCount = 1_000
    /// Bytes of topics and senders in a page: in JSON a byte may become six, and a reply has 4 MiB.
    fileprivate static let byteCountMaximum = 256 << 10

    /// - Parameters:
    ///   - filter: a valid topic filter.
    ///   - cursor: ``next`` of the previous page; nil for the first page.
    ///   - countMaximum: the maximum number of messages, at least 1.
    public init(app: [UInt8], matching filter: [UInt8], after cursor: UInt32?, countMaximum: Int) {
        self.app = app
        self.filter = filter
        levels = FilterLevels(filter)
        place = cursor
        self.countMaximum = countMaximum
    }

    /// The place after which the next page begins; nil if all were read. It is valid until the
    /// broker ends.
    public var next: UInt32? { isAtEnd ? nil : place }

    fileprivate var isOver: Bool { isAtEnd || room == 0 || byteCount >= Self.byteCountMaximum }

    fileprivate var room: Int { countMaximum - count }
}

/// The levels of a topic filter, to compare it with single topics (MQTT 5.0 section 4.7).
struct FilterLevels {
    /// Without a `#` at the end; nil for `+`.
    private var levels: [[UInt8]?] = []
    private var endsWithHash = false

    init(_ filter: [UInt8]) {
        for level in filter.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            levels.append(level.elementsEqual("+".utf8) ? nil : Array(level))
        }
        if let last = levels.last, last == Array("#".utf8) {
            endsWithHash = true
            levels.removeLast()
        }
    }

    /// Whether the filter may match more than one topic.
    var hasWildcards: Bool { endsWithHash || levels.contains(nil) }

    /// Whether the filter matches the topic with these levels. A wildcard in the first level does
    /// not match a topic that begins with `$` [MQTT-4.7.2-1].
    func match(_ topic: TopicLevels) -> Bool {
        var rest = topic
        var depth = 0
        while let level = rest.next() {
            let isWildcard = depth == levels.count || levels[depth] == nil
            if depth == levels.count, !endsWithHash { return false }
            if isWildcard, depth == 0, level.bytes.first == UInt8(ascii: "$") { return false }
            if depth == levels.count { return true }
            if let wanted = levels[depth], !level.bytes.elementsEqual(wanted) { return false }
            depth += 1
        }
        return depth == levels.count
    }
}

extension Broker {
    /// Reads the next slice of the retained messages. Returns false when the page is complete.
    public func advance(_ search: inout RetainedSearch, at moment: Moment) -> Bool {
        for index in slice(of: &search, atMost: .max, at: moment) {
            search.found.append(description(of: index, contentMaximum: 0))
            search.count += 1
        }
        return !search.isOver
    }

    /// Deletes the messages in the next slice, as a publication without a payload does: nothing is
    /// sent to subscribers. Returns false when the maximum number is deleted, or nothing is left.
    public mutating func deleteRetained(_ search: inout RetainedSearch, at moment: Moment) -> Bool {
        for index in slice(of: &search, atMost: RetainedSearch.deletionSliceCount, at: moment) {
            let app = retention.retained[index].app
            _ = retention.retained[index].block.withUnsafeBytes {
                registry.removeRetained(topic: MessageBlock($0).address, app: app)
            }
            forgetRetained(index)
            search.count += 1
        }
        search.byteCount = 0
        return !search.isOver
    }

    /// The retained message of a topic; nil if there is none.
    ///
    /// - Parameter contentMaximum: bytes of its content.
    public func retainedMessage(
        of topic: [UInt8], app name: [UInt8], contentMaximum: Int, at moment: Moment
    ) -> RetainedDescription? {
        guard let app = app(named: name),
            let index = topic.withUnsafeBytes({ registry.apps[app].retained.value(of: $0) }),
            retention.retained[index].deadline > moment.instant
        else { return nil }
        return description(of: index, contentMaximum: contentMaximum)
    }

    /// The matches in the next slice, at most so many.
    private func slice(
        of search: inout RetainedSearch, atMost maximum: Int, at moment: Moment
    ) -> [Index<Retained>] {
        guard let app = app(named: search.app) else {
            search.isAtEnd = true
            return []
        }
        guard search.levels.hasWildcards else {
            search.isAtEnd = true
            let topic = search.filter.withUnsafeBytes { registry.apps[app].retained.value(of: $0) }
            guard let topic, search.place == nil,
                retention.retained[topic].deadline > moment.instant
            else { return [] }
            return [topic]
        }
        var found: [Index<Retained>] = []
        var readCount = 0
        for index in retention.retained.places.after(search.place) {
            if readCount == RetainedSearch.sliceCount || found.count == min(maximum, search.room)
                || search.byteCount >= RetainedSearch.byteCountMaximum
            {
                return found
            }
            readCount += 1
            search.place = index.place
            guard retention.retained.contains(index), retention.retained[index].app == app,
                retention.retained[index].deadline > moment.instant
            else { continue }
            retention.retained[index].block.withUnsafeBytes {
                let block = MessageBlock($0)
                guard search.levels.match(TopicLevels(block.address)) else { return }
                search.byteCount += block.address.count + block.sender.count
                found.append(index)
            }
        }
        search.isAtEnd = true
        return found
    }

    private func description(
        of index: Index<Retained>, contentMaximum: Int
    ) -> RetainedDescription {
        let deadline = retention.retained[index].deadline
        return retention.retained[index].block.withUnsafeBytes {
            let block = MessageBlock($0)
            let hasType = !block.marks.contains(.raw)
            let content = hasType ? block.payload.dropFirst() : block.payload[...]
            return RetainedDescription(
                topic: Array(block.address), sender: Array(block.sender), grade: block.grade,
                type: hasType ? block.payload.first : nil,
                content: Array(content.prefix(contentMaximum)), contentByteCount: content.count,
                byteCount: $0.count, unixMilliseconds: block.time, deadline: deadline)
        }
    }
}
