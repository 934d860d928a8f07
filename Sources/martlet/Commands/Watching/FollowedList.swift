// Lists of the latest things, which commands print once or follow.

import Administration
import CommandLineOptions
import Glibc

/// Options of commands that print the latest things of a list.
protocol ListRules: AdministrationRules, Equatable {
    static var follow: Self { get }
    static var count: Self { get }
}

extension ListRules {
    var followLetter: Character? {
        switch self {
        case .follow: "f"
        case .count: "n"
        default: nil
        }
    }
}

extension ParsedOptions where Rules: ListRules {
    /// Prints the latest things of a list, and with `--follow` those that come.
    ///
    /// - Parameters:
    ///   - maximum: as many as the broker keeps.
    ///   - read: reads at most so many things after a number, the latest ones for nil; returns a
    ///     line for each, and the number of the last one.
    func printList(
        count countDefault: Int, maximum: Int,
        read: (_ after: UInt64?, _ limit: Int) throws -> (lines: [String], last: UInt64)
    ) throws {
        let limit = try integer(.count, in: 1...maximum) ?? countDefault
        var page = try read(nil, limit)
        while true {
            for line in page.lines {
                guard StandardStream.output.print(line) else { return }
            }
            guard has(.follow) else { return }
            // A full page is followed by the next one at once.
            if page.lines.count < maximum { sleep(1) }
            // After a start of the broker, the numbers begin again.
            page = try read(page.last, maximum)
        }
    }
}
