// The effects of one core in one event loop of a primary, from the core until they may leave. They
// leave in the order of the decisions. Each core has a lease of its own, so that one whose log does
// not answer holds up no other.

import BrokerCore

/// The effects of one core in one loop that wait.
final class GatedLoop {
    /// The effects of one turn.
    private final class Entry {
        /// Nil if the lease is enough.
        var mark: UInt64?
        var effects: LoopEffects
        /// What it counts for in ``GatedLoop/heldByteCount``.
        var heldByteCount = 0

        init(_ effects: consuming LoopEffects) { self.effects = effects }
    }

    /// Nil for a single broker, whose effects do not wait here.
    private let gate: ClusterGate?
    /// Those from `first` on.
    private var waiting: [Entry?] = []
    private var first = 0
    private var spare: [Entry] = []
    /// Bytes of memory of the effects that wait.
    private(set) var heldByteCount = 0
    /// Whether the gate counts this loop among the full ones.
    private var isToldFull = false
    /// Whether the connections of the shard are to be closed, because another node is to serve it,
    /// and whether they were.
    var isClosing = false
    var hasClosed = false
    /// Whether connections of the shard may be left whose core was exchanged for an empty one. They
    /// would wait for ever.
    var hasForgotten = false
    /// Whether the core is that of a standby: what it says needs no lease, and what it said as the
    /// primary may not leave any more.
    var isOfStandby: Bool {
        didSet {
            guard isOfStandby, !oldValue else { return }
            hasForgotten = !hasClosed
            waiting.removeAll()
            first = 0
            heldByteCount = 0
        }
    }

    init(_ gate: ClusterGate?, isOfStandby: Bool = false) {
        self.gate = gate
        self.isOfStandby = isOfStandby
    }

    /// Whether so much waits, here or in another loop, that this loop reads no more from the
    /// connections of the core: what it reads becomes effects of any loop.
    var holdsInput: Bool { gate?.hasFullLoop ?? false }

    /// Whether anything may leave now.
    var mayEmit: Bool { gate?.mayEmit ?? true }

    private var count: Int { waiting.count - first }

    /// Whether nothing waits.
    var isEmpty: Bool { count == 0 }

    /// Takes the effects of a turn.
    func add(_ effects: inout LoopEffects) {
        guard !effects.isEmpty else { return }
        let entry: Entry
        if count < ClusterLimits.spareEffectsMaximum {
            entry = spare.popLast() ?? Entry(LoopEffects())
            swap(&entry.effects, &effects)
        } else {
            // The log does not answer, and thousands of turns may follow.
            entry = Entry(LoopEffects(copying: effects))
            effects.removeAll()
        }
        // A delivery, as a read, needs the lease only, and so does what the log has. All else tells
        // somebody what was decided: a deposed primary's list of receivers is stale.
        entry.mark = entry.effects.tellsUnstored ? gate?.takeMark() : nil
        entry.heldByteCount = entry.effects.heldByteCount + ClusterLimits.gatedEntryByteCount
        heldByteCount += entry.heldByteCount
        waiting.append(entry)
    }

    /// Moves the first effects that may leave now into an empty buffer; false if none may.
    func takeFirst(into effects: inout LoopEffects) -> Bool {
        guard first < waiting.count, let entry = waiting[first],
            gate?.mayLeave(entry.mark) ?? true
        else { return false }
        waiting[first] = nil
        first += 1
        if 2 * first >= waiting.count {
            waiting.removeFirst(first)
            first = 0
        }
        heldByteCount -= entry.heldByteCount
        swap(&entry.effects, &effects)
        if spare.count < ClusterLimits.spareEffectsMaximum { spare.append(entry) }
        return true
    }

    /// Tells the other loops whether too much waits here.
    ///
    /// - Returns: whether they have to look, because no loop is full any more.
    func tellFull() -> Bool {
        let isFull = heldByteCount > ClusterLimits.gatedByteCountMaximum
        guard isFull != isToldFull, let gate else { return false }
        isToldFull = isFull
        return gate.countFullLoop(isFull)
    }

    /// Waits for a moment until all may leave, for a loop that stops.
    func awaitLast() {
        guard let gate, count > 0 else { return }
        _ = gate.waitBriefly(lastMark, milliseconds: ClusterLimits.lastConfirmationMilliseconds)
    }

    /// The mark of the last effects that need a confirmation: later ones have a higher one.
    var lastMark: UInt64? {
        let marked = waiting[first...].last { $0?.mark != nil }
        return marked??.mark
    }
}
