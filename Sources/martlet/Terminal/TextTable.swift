// A table for people: a line of titles, then rows, with aligned columns. Fields may come from
// untrusted clients and are escaped.

import CommandLineOptions

/// Prints rows under their titles, in pages: a column is as wide as its fields in this page and the
/// pages before.
struct TextTable {
    private let titles: [String]
    private var widths: [Int]
    private var rows: [[String]] = []
    private var isBegun = false

    /// - Parameter titles: one for each column, in capitals.
    init(_ titles: String...) { self.init(titles) }

    init(_ titles: [String]) {
        self.titles = titles
        widths = titles.map(\.count)
    }

    /// Takes a row; an empty field is shown as a dash.
    mutating func add(_ fields: [String]) {
        precondition(
            fields.count == titles.count,
            "a row of \(fields.count) fields in a table of \(titles.count) columns")
        let fields = fields.map { $0.isEmpty ? "-" : printable($0) }
        for (column, field) in fields.enumerated() {
            widths[column] = max(widths[column], field.count)
        }
        rows.append(fields)
    }

    /// The lines since the last page, titles first; empty if there are none.
    mutating func takePage() -> [String] {
        guard !rows.isEmpty else { return [] }
        defer {
            rows.removeAll()
            isBegun = true
        }
        return ((isBegun ? [] : [titles]) + rows).map(line)
    }

    /// Prints the lines that `takePage` returns; false if standard output is closed.
    mutating func printPage() -> Bool {
        takePage().allSatisfy { StandardStream.output.print($0) }
    }

    private func line(_ fields: [String]) -> String {
        var line = ""
        for (field, width) in zip(fields, widths) {
            if !line.isEmpty { line += "  " }
            line += field + String(repeating: " ", count: width - field.count)
        }
        while line.last == " " { line.removeLast() }
        return line
    }
}

/// Names and values of one object, one on each line.
func textSheet(_ rows: KeyValuePairs<String, String>) -> String {
    let width = (rows.map(\.key.count).max() ?? 0) + 1
    return rows.map { name, value in
        let padding = String(repeating: " ", count: width - name.count)
        return "\(name):\(padding)\(value.isEmpty ? "-" : printable(value))"
    }.joined(separator: "\n")
}

/// A number and its noun: `1 message`, `2 messages`.
func counted(_ count: some BinaryInteger, _ noun: String) -> String {
    "\(count) \(noun)\(count == 1 ? "" : "s")"
}

/// A duration in the largest unit that fits twice: `95 s`, `3 h`, `40 d`.
func duration(seconds: UInt64) -> String {
    for (unit, size) in [("d", 86_400), ("h", 3_600), ("min", 60)] as [(String, UInt64)]
    where seconds >= 2 * size {
        return "\(seconds / size) \(unit)"
    }
    return "\(seconds) s"
}
