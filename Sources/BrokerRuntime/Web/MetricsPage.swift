// The text of the metrics between the administration thread, which writes it, and the event loops,
// which answer with it.

import NetTransport
import Primitives
import Threads

/// The metrics as text. The administration thread writes them when a loop asks; loops
/// answer all requests of a second with one text, because writing it takes about a millisecond.
final class MetricsPage: Sendable {
    private struct State {
        /// In the order of the forms.
        var texts = PrometheusText.Form.allCases.map { _ in [UInt8]() }
        /// When the text is too old.
        var end = Instant(milliseconds: 0)
        /// A bit for each loop that waits.
        var waitingLoops: UInt64 = 0
    }

    private let state = Locked(State())
    private let administrator = Locked<LoopHandle?>(nil)

    /// - Parameter thread: writes the text.
    func setWriter(_ thread: LoopHandle) { administrator.withLock { $0 = thread } }

    /// The text, if it is new enough. Otherwise the loop is woken when there is one.
    func text(at now: Instant, for loop: UInt8, as form: PrometheusText.Form) -> [UInt8]? {
        let text: [UInt8]? = state.withLock { state in
            if now < state.end { return state.texts[form.index] }
            state.waitingLoops |= 1 << UInt64(loop)
            return nil
        }
        if text == nil { administrator.withLock { $0 }?.wake() }
        return text
    }

    var isAwaited: Bool { state.withLock { $0.waitingLoops != 0 } }

    /// Takes new texts. Returns the loops that wait for them, a bit each.
    func replace(until end: Instant, with text: (PrometheusText.Form) -> [UInt8]) -> UInt64 {
        let texts = PrometheusText.Form.allCases.map(text)
        return state.withLock { state in
            state.texts = texts
            state.end = end
            defer { state.waitingLoops = 0 }
            return state.waitingLoops
        }
    }
}
