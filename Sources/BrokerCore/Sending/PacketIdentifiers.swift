// The QoS 2 identifiers of a sender, from its publication until the client releases it.

import BrokerTerms

/// The QoS 2 identifiers of one sender that are in use, with one byte for the state of each. They
/// are stored in sorted pages of 64, so that all 65,535 take at most 82 KB and one takes 112 bytes.
/// A page with a publication that has refused receivers has 160 bytes more, so that all take at
/// most 246 KB.
struct PacketIdentifiers {
    enum State: Equatable {
        /// The publication has no answer.
        case underWay
        /// The publication was answered, and the client has not released it.
        case answered(ReasonCode)
    }

    private struct Page {
        var number: UInt16
        var count: UInt16 = 0
        /// 0 for a free identifier.
        var marks = InlineArray<64, UInt8>(repeating: 0)
        /// The number of refused receivers of each answered publication, at most 65,535; empty if
        /// there are none.
        var refused: [UInt16] = []
    }

    private static let pageCount: UInt16 = 64
    private static let underWay: UInt8 = 1
    /// Added to a reason, so that no mark is 0 or `underWay`. The highest reason is 0xA2.
    private static let reasonOffset: UInt8 = 2

    private var pages: [Page] = []
    /// Number of identifiers in use.
    private(set) var count = 0
    /// Number of identifiers with an answer.
    private(set) var answeredCount = 0
    /// Number of identifiers that were answered with a refusal, which the client may not have
    /// received.
    private(set) var refusedCount = 0

    subscript(identifier: UInt16) -> State? {
        get {
            let pageIndex = lowerBound(of: identifier / Self.pageCount)
            guard pageIndex < pages.count, pages[pageIndex].number == identifier / Self.pageCount
            else {
                return nil
            }
            return Self.state(pages[pageIndex].marks[Int(identifier % Self.pageCount)])
        }
        set {
            let number = identifier / Self.pageCount
            let pageIndex = lowerBound(of: number)
            if pageIndex == pages.count || pages[pageIndex].number != number {
                if newValue == nil { return }
                pages.insert(Page(number: number), at: pageIndex)
            }
            let slot = Int(identifier % Self.pageCount)
            tally(Self.state(pages[pageIndex].marks[slot]), page: pageIndex, -1)
            pages[pageIndex].marks[slot] = Self.mark(newValue)
            if !pages[pageIndex].refused.isEmpty { pages[pageIndex].refused[slot] = 0 }
            tally(newValue, page: pageIndex, 1)
            if pages[pageIndex].count == 0 { removePage(pageIndex) }
        }
    }

    /// The number of refused receivers of the publication with an identifier; 65,535 if there were
    /// more.
    func refused(of identifier: UInt16) -> UInt32 {
        let pageIndex = lowerBound(of: identifier / Self.pageCount)
        guard pageIndex < pages.count, pages[pageIndex].number == identifier / Self.pageCount,
            !pages[pageIndex].refused.isEmpty
        else { return 0 }
        return UInt32(pages[pageIndex].refused[Int(identifier % Self.pageCount)])
    }

    /// Sets the number of refused receivers of the publication with an identifier. Precondition: it
    /// is in use.
    mutating func setRefused(_ count: UInt32, of identifier: UInt16) {
        guard count > 0 else { return }
        let pageIndex = lowerBound(of: identifier / Self.pageCount)
        precondition(
            pageIndex < pages.count && pages[pageIndex].number == identifier / Self.pageCount,
            "identifier \(identifier) names nothing")
        if pages[pageIndex].refused.isEmpty {
            pages[pageIndex].refused = [UInt16](repeating: 0, count: Int(Self.pageCount))
        }
        pages[pageIndex].refused[Int(identifier % Self.pageCount)] = UInt16(clamping: count)
    }

    /// Calls `body` with each identifier in use, in ascending order.
    func forEach(_ body: (UInt16, State) -> Void) {
        for pageIndex in pages.indices {
            for slot in 0..<Int(Self.pageCount) {
                guard let state = Self.state(pages[pageIndex].marks[slot]) else { continue }
                body(pages[pageIndex].number * Self.pageCount + UInt16(slot), state)
            }
        }
    }

    /// Frees the identifiers of the last page. Returns them.
    mutating func removeLastPage() -> [UInt16] {
        guard let page = pages.last else { return [] }
        var removed: [UInt16] = []
        for slot in 0..<Self.pageCount where Self.state(page.marks[Int(slot)]) != nil {
            removed.append(page.number * Self.pageCount + slot)
        }
        for identifier in removed { self[identifier] = nil }
        return removed
    }

    private mutating func tally(_ state: State?, page: Int, _ change: Int) {
        guard let state else { return }
        count += change
        if change > 0 { pages[page].count += 1 } else { pages[page].count -= 1 }
        guard case .answered(let reason) = state else { return }
        answeredCount += change
        if reason.isFailure { refusedCount += change }
    }

    private mutating func removePage(_ pageIndex: Int) {
        pages.remove(at: pageIndex)
        // Releases memory that the client needed only once.
        if pages.isEmpty {
            pages = []
        } else if pages.capacity > 16, pages.count * 4 < pages.capacity {
            pages = pages.withUnsafeBufferPointer { Array($0) }
        }
    }

    private func lowerBound(of number: UInt16) -> Int {
        var low = 0
        var high = pages.count
        while low < high {
            let middle = (low + high) / 2
            if pages[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low
    }

    private static func state(_ mark: UInt8) -> State? {
        switch mark {
        case 0: nil
        case underWay: .underWay
        default: ReasonCode(rawValue: mark - reasonOffset).map { .answered($0) }
        }
    }

    private static func mark(_ state: State?) -> UInt8 {
        switch state {
        case nil: 0
        case .underWay?: underWay
        case .answered(let reason)?: reason.rawValue + reasonOffset
        }
    }
}
