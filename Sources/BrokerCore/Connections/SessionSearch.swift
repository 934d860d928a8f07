// A search for sessions, in the order of their places: it is read, and what it finds is changed, in
// slices, so that no message waits for more than one of them.

import Primitives

/// A search for the sessions of an app, for a list or for a change of all that it finds.
public struct SessionSearch: Sendable {
    fileprivate let filter: SessionFilter
    fileprivate let countMaximum: Int
    /// The place that was read last.
    fileprivate var place: UInt32?
    fileprivate var isAtEnd = false
    /// Whether a page is full before it has its maximum number.
    fileprivate var isFull = false
    /// Sessions that were found.
    public fileprivate(set) var count = 0
    /// Those of a list.
    public fileprivate(set) var descriptions: [SessionDescription] = []
    fileprivate var filterByteCount = 0
    /// Messages that were removed.
    public fileprivate(set) var messageCount: UInt64 = 0

    /// Places that are read at a time: about a tenth of a millisecond.
    static let sliceCount = 4_096
    /// Sessions that are described or changed at a time. The end of a session with many filters
    /// takes a hundred microseconds.
    static let foundPerSlice = 64
    /// Changes for the store after which a slice ends.
    static let changesPerSlice = 4_096

    /// - Parameters:
    ///   - cursor: ``next`` of the previous page; nil for the first page.
    ///   - countMaximum: the maximum number of sessions, at least 1.
    public init(matching filter: SessionFilter, after cursor: UInt32? = nil, countMaximum: Int) {
        self.filter = filter
        self.countMaximum = countMaximum
        place = cursor
    }

    /// The place after which the next page begins; nil if all sessions were read. It is valid until
    /// the broker ends.
    public var next: UInt32? { isAtEnd ? nil : place }

    /// Whether the page is complete.
    fileprivate var isOver: Bool { isAtEnd || isFull || count == countMaximum }
}

extension Broker {
    /// Describes the sessions of the next slice. Returns false when the page is complete: it has
    /// the maximum number of sessions, or ``SessionDescription/filterBytesPerPage``, or there are
    /// no more.
    public func advance(_ search: inout SessionSearch, at moment: Moment) -> Bool {
        visit(&search, at: moment) { search, session in
            if search.filterByteCount >= SessionDescription.filterBytesPerPage { return false }
            var description = description(
                of: session, filterBytesMaximum: SessionDescription.filterBytesMaximum, at: moment)
            if search.filter.user != nil { description.credential = credential(of: session) }
            search.filterByteCount += description.filters.reduce(0) { $0 + $1.count }
            search.descriptions.append(description)
            return true
        }
        return !search.isOver
    }

    /// Calls `body` for the sessions of the next slice. Returns false when the search is over.
    mutating func takeSlice(
        of search: inout SessionSearch, at moment: Moment,
        _ body: (inout Broker, inout SessionSearch, Handle<Session>) -> Void
    ) -> Bool {
        var found: [Handle<Session>] = []
        // The changes of one session may end another: places are read before.
        visit(&search, at: moment) { _, session in
            found.append(sessions.handle(session))
            return true
        }
        let changeCount = commits.pendingBatch.changeCount
        for (position, handle) in found.enumerated() {
            if position > 0,
                commits.pendingBatch.changeCount > changeCount + SessionSearch.changesPerSlice
            {
                // The rest is for the next slice.
                search.isAtEnd = false
                search.place = found[position - 1].index.place
                search.count -= found.count - position
                break
            }
            if sessions.contains(handle) { body(&self, &search, handle) }
        }
        return !search.isOver
    }

    /// Calls `body` for the sessions of the next slice, until it returns false.
    private func visit(
        _ search: inout SessionSearch, at moment: Moment,
        _ body: (inout SessionSearch, Index<Session>) -> Bool
    ) {
        guard let app = app(named: search.filter.app) else {
            search.isAtEnd = true
            return
        }
        var foundCount = 0
        func take(_ session: Index<Session>, _ search: inout SessionSearch) -> Bool {
            if matches(session, filter: search.filter, app: app, at: moment) {
                guard foundCount < SessionSearch.foundPerSlice, !search.isOver else { return false }
                guard body(&search, session) else {
                    search.isFull = true
                    return false
                }
                foundCount += 1
                search.count += 1
            }
            search.place = session.place
            return true
        }
        guard search.filter.user == nil else {
            for session in sessionsOfUser(search, app: app) where !take(session, &search) { return }
            search.isAtEnd = true
            return
        }
        for (lookCount, session) in sessions.places.after(search.place).enumerated() {
            guard lookCount < SessionSearch.sliceCount else { return }
            if !sessions.contains(session) {
                search.place = session.place
            } else if !take(session, &search) {
                return
            }
        }
        search.isAtEnd = true
    }

    /// The sessions of the user that the search names, in the order of their places, from its place
    /// on.
    private func sessionsOfUser(_ search: SessionSearch, app: Index<App>) -> [Index<Session>] {
        guard let name = search.filter.user, let user = user(named: name, app: app) else {
            return []
        }
        var found: [Index<Session>] = []
        forEachSession(of: user) { session in
            if search.place.map({ session.place > $0 }) ?? true { found.append(session) }
        }
        return found.sorted { $0.place < $1.place }
    }
}

extension SessionSearch {
    mutating func countMessages(_ count: UInt64) { messageCount += count }
}
