// The effects of one event loop of a primary, from the core until they may leave. They leave in the
// order of the decisions.

import BrokerCore

/// The effects of one loop that wait.
struct GatedLoop: ~Copyable {
    /// The effects of one turn.
    private final class Entry {
        /// Nil if the lease is enough.
        var mark: UInt64?
        var effects = LoopEffects()
    }

    /// Nil for a single broker, whose effects do not wait here.
    private let gate: ClusterGate?
    private var waiting: [Entry] = []
    private var spare: [Entry] = []
    private var byteCount = 0

    init(_ gate: ClusterGate?) { self.gate = gate }

    /// Whether so much waits that the loop reads no more.
    var isFull: Bool { byteCount > ClusterLimits.gatedByteCountMaximum }

    /// Takes the effects of a turn.
    mutating func add(_ effects: inout LoopEffects) {
        guard !effects.isEmpty else { return }
        let entry = spare.popLast() ?? Entry()
        // A delivery, as a read, needs the lease only. All else tells somebody what was decided:
        // a deposed primary's list of receivers is stale.
        let isPlain = effects.effects.elements.allSatisfy {
            if case .deliver = $0 { true } else { false }
        }
        entry.mark = isPlain ? nil : gate?.takeMark()
        swap(&entry.effects, &effects)
        byteCount += Self.byteCount(of: entry)
        waiting.append(entry)
    }

    /// Moves the first effects that may leave now into an empty buffer; false if none may.
    mutating func takeFirst(into effects: inout LoopEffects) -> Bool {
        guard let first = waiting.first, gate?.mayLeave(first.mark) ?? true else { return false }
        waiting.removeFirst()
        byteCount -= Self.byteCount(of: first)
        swap(&first.effects, &effects)
        if spare.count < ClusterLimits.spareEffectsMaximum { spare.append(first) }
        return true
    }

    /// Waits for a moment until all may leave, for a loop that stops.
    func awaitLast() {
        guard let gate, !waiting.isEmpty else { return }
        _ = gate.waitBriefly(lastMark, milliseconds: ClusterLimits.lastConfirmationMilliseconds)
    }

    /// The mark of the last effects that need a confirmation: later ones have a higher one.
    var lastMark: UInt64? { waiting.last { $0.mark != nil }?.mark }

    private static func byteCount(of entry: Entry) -> Int {
        entry.effects.bytes.count + entry.effects.effects.count * MemoryLayout<Effect>.stride
    }
}
