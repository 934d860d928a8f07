// The report of an import: a line for each thing that was taken, changed, or cannot be taken.

/// What became of the parts of another broker.
struct ImportReport {
    enum Verdict: String, Encodable {
        /// As it was.
        case taken
        /// Taken, with a difference that the line tells.
        case changed
        /// Not taken; the line tells why.
        case refused
        /// Means nothing here, and nothing is lost.
        case ignored

        fileprivate var printed: String {
            switch self {
            case .taken: "taken"
            case .changed: "changed"
            case .refused: "NOT TAKEN"
            case .ignored: "ignored"
            }
        }
    }

    struct Line: Encodable {
        var verdict: Verdict
        /// Where it stands: `FILE:LINE`, or a file alone.
        var place: String
        var text: String

        /// For a terminal: names in files may have control characters.
        var printed: String {
            "\(verdict.printed)\t\(printable(place))\t\(printable(text))"
        }
    }

    private(set) var lines: [Line] = []

    mutating func add(_ verdict: Verdict, at place: String, _ text: String) {
        lines.append(Line(verdict: verdict, place: place, text: text))
    }

    /// Marks a line as not taken, with the reason.
    mutating func refuse(at index: Int, _ reason: String) {
        let line = lines[index]
        lines[index] = Line(verdict: .refused, place: line.place, text: "\(line.text): \(reason)")
    }

    /// Marks a line as changed, with the difference.
    mutating func change(at index: Int, _ difference: String) {
        let line = lines[index]
        lines[index] = Line(
            verdict: .changed, place: line.place, text: "\(line.text); \(difference)")
    }

    func count(_ verdict: Verdict) -> Int { lines.count { $0.verdict == verdict } }

    /// One line on the whole.
    var summary: String {
        "\(count(.taken)) taken, \(count(.changed)) changed, \(count(.refused)) not taken, "
            + "\(count(.ignored)) without a meaning here"
    }
}
