// The history of a run as text. It is recorded only on request, since a run can be repeated.

import Primitives

/// The subject of a line of the history.
enum Subject: Hashable, Sendable {
    case message(Int)
    case client(Int)
    case broker
}

/// The lines of one run.
final class History {
    let isRecording: Bool
    /// Receives every line at once, so that it is known even if the run traps.
    private let listener: ((String) -> Void)?
    var now = Instant(milliseconds: 0)
    private(set) var lines: [HistoryLine] = []

    init(isRecording: Bool, listener: ((String) -> Void)? = nil) {
        self.isRecording = isRecording
        self.listener = listener
    }

    func note(_ subject: Subject, _ text: @autoclosure () -> String) {
        guard isRecording else { return }
        let line = HistoryLine(time: now, subject: subject, text: text())
        lines.append(line)
        listener?(line.description)
    }
}

struct HistoryLine: Sendable {
    let time: Instant
    let subject: Subject
    let text: String

    /// The line as text, with the time in seconds.
    var description: String {
        let thousandths = "\(1_000 + time.milliseconds % 1_000)".dropFirst()
        let who =
            switch subject {
            case .message(let message): "message \(message)"
            case .client(let client): "client \(client)"
            case .broker: "broker"
            }
        return "\(time.milliseconds / 1_000).\(thousandths)  \(who): \(text)"
    }
}
