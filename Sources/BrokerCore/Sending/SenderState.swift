// What else is known of what a session sends, which few sessions have: the identifiers of QoS 2
// that are not released, sends whose connection ended before their fate was known, named refusals,
// and ids of the application's own.

import BrokerTerms
import Primitives

/// The part of a sender's memory that few senders need.
struct SenderState: ~Copyable, EmptyInitializable {
    /// Identifiers of QoS 2 publications that are under way or not released (MQTT).
    var identifiers = PacketIdentifiers()
    /// QoS 2 publications whose connection ended while they were under way: told when they come
    /// again.
    var interrupted = Outbox()
    /// The numbers of those, by their identifiers.
    var interruptedNumbers: [UInt16: UInt64] = [:]
    /// Receivers of a list that were refused, by the numbers of sends that are not answered or, in
    /// MRT, not seen.
    var refusals: [UInt64: [Refusal]] = [:]
    /// Which receivers of answered QoS 2 publications were refused, by identifier, for repeats. How
    /// many they were is in ``identifiers``.
    private(set) var answeredNames: [UInt16: [Refusal]] = [:]
    private var answeredNameCount = 0
    /// What it sent lately under ids of the application's own (MQTT), in the order of numbers.
    var recentSends: [RecentSend] = []
    /// Refused receivers that recent sends name.
    var recentNameCount = 0
    /// The ids of sends that are not answered.
    var sendTags: [SendTag] = []

    /// Names that are kept for repeats. A client that never releases would have 2 KB of them kept
    /// for each of its publications; past this a repeat is told how many there were.
    private static let answeredNamesMaximum = 4_096

    /// Names that recent sends of one session keep: 2 KB. Past this a repeat is told how many
    /// receivers were refused.
    static let recentNamesMaximum = 256

    /// Keeps as many recent sends as the window is long, and those whose fate is not known. The
    /// memory of the others is given back.
    mutating func trimRecentSends(to window: Int) {
        var excess = recentSends.count - window
        guard excess > 0 else { return }
        var kept: [RecentSend] = []
        kept.reserveCapacity(window)
        for send in recentSends {
            if excess > 0, send.isComplete {
                excess -= 1
                recentNameCount -= send.refusals.count
            } else {
                kept.append(send)
            }
        }
        recentSends = kept
    }

    mutating func removeRecentSend(at place: Int) {
        recentNameCount -= recentSends.remove(at: place).refusals.count
    }

    /// A QoS 2 publication has an answer, and keeps its identifier until it is released.
    mutating func answer(
        _ identifier: UInt16, _ reason: ReasonCode, refusedCount: UInt32, named: [Refusal]
    ) {
        identifiers[identifier] = .answered(reason)
        identifiers.setRefused(max(refusedCount, UInt32(named.count)), of: identifier)
        guard !named.isEmpty, answeredNameCount + named.count <= Self.answeredNamesMaximum
        else { return }
        answeredNameCount += named.count
        answeredNames[identifier] = named
    }

    /// An identifier may name something else.
    mutating func free(_ identifier: UInt16) {
        identifiers[identifier] = nil
        guard !answeredNames.isEmpty else { return }
        answeredNameCount -= answeredNames.removeValue(forKey: identifier)?.count ?? 0
    }

    /// The place of what was sent lately under a number.
    func place(ofRecent number: UInt64) -> Int? {
        var (low, high) = (0, recentSends.count)
        while low < high {
            let middle = (low + high) / 2
            if recentSends[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low < recentSends.count && recentSends[low].number == number ? low : nil
    }

    /// The names of an entry that leaves the outbox.
    mutating func takeRefusals(of entry: OutboxEntry) -> [Refusal] {
        entry.namesRefusals ? refusals.removeValue(forKey: entry.number) ?? [] : []
    }

    var isEmpty: Bool {
        identifiers.count == 0 && refusals.isEmpty && recentSends.isEmpty && sendTags.isEmpty
    }
}

/// The QoS 2 identifiers of one sender that name something, one byte each: what became of it. They
/// stand in pages of 64, sorted, so that all 65,535 take at most 82 KB and one takes 112 bytes. A
/// page with a publication of which receivers were refused has 160 bytes more, so that all take
/// 246 KB.
struct PacketIdentifiers {
    enum State: Equatable {
        /// It is not answered.
        case underWay
        /// It was answered, and the client has not released it.
        case answered(ReasonCode)
    }

    private struct Page {
        var number: UInt16
        var count: UInt16 = 0
        /// 0 for an identifier that is free.
        var marks = InlineArray<64, UInt8>(repeating: 0)
        /// How many receivers of each answered publication were refused, 65,535 also where there
        /// were more; empty where none was.
        var refused: [UInt16] = []
    }

    private static let pageCount: UInt16 = 64
    private static let underWay: UInt8 = 1
    /// What is added to a reason, so that none is 0 or `underWay`: the highest is 0xA2.
    private static let reasonOffset: UInt8 = 2

    private var pages: [Page] = []
    /// Identifiers in use.
    private(set) var count = 0
    /// Those that were answered.
    private(set) var answeredCount = 0
    /// Those that were answered with a refusal which their client may not have got.
    private(set) var refusedCount = 0

    subscript(identifier: UInt16) -> State? {
        get {
            let place = lowerBound(of: identifier / Self.pageCount)
            guard place < pages.count, pages[place].number == identifier / Self.pageCount else {
                return nil
            }
            return Self.state(pages[place].marks[Int(identifier % Self.pageCount)])
        }
        set {
            let number = identifier / Self.pageCount
            let place = lowerBound(of: number)
            if place == pages.count || pages[place].number != number {
                if newValue == nil { return }
                pages.insert(Page(number: number), at: place)
            }
            let slot = Int(identifier % Self.pageCount)
            tally(Self.state(pages[place].marks[slot]), page: place, -1)
            pages[place].marks[slot] = Self.mark(newValue)
            if !pages[place].refused.isEmpty { pages[place].refused[slot] = 0 }
            tally(newValue, page: place, 1)
            if pages[place].count == 0 { removePage(place) }
        }
    }

    /// How many receivers of the publication that an identifier names were refused; 65,535 where
    /// there were more.
    func refused(of identifier: UInt16) -> UInt32 {
        let place = lowerBound(of: identifier / Self.pageCount)
        guard place < pages.count, pages[place].number == identifier / Self.pageCount,
            !pages[place].refused.isEmpty
        else { return 0 }
        return UInt32(pages[place].refused[Int(identifier % Self.pageCount)])
    }

    /// Notes how many receivers were refused of the publication that an identifier in use names.
    mutating func setRefused(_ count: UInt32, of identifier: UInt16) {
        guard count > 0 else { return }
        let place = lowerBound(of: identifier / Self.pageCount)
        precondition(
            place < pages.count && pages[place].number == identifier / Self.pageCount,
            "identifier \(identifier) names nothing")
        if pages[place].refused.isEmpty {
            pages[place].refused = [UInt16](repeating: 0, count: Int(Self.pageCount))
        }
        pages[place].refused[Int(identifier % Self.pageCount)] = UInt16(clamping: count)
    }

    /// Calls `body` with each identifier in use, in their order.
    func forEach(_ body: (UInt16, State) -> Void) {
        for place in pages.indices {
            for slot in 0..<Int(Self.pageCount) {
                guard let state = Self.state(pages[place].marks[slot]) else { continue }
                body(pages[place].number * Self.pageCount + UInt16(slot), state)
            }
        }
    }

    /// Frees the identifiers of the last page, and gives them.
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

    private mutating func removePage(_ place: Int) {
        pages.remove(at: place)
        // What a client used once, it need not hold for ever.
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
