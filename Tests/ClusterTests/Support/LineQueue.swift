// The lines that a program of a test prints.

import Foundation
import TestSurroundings

/// The lines of a program, with a bound for each.
final class LineQueue: @unchecked Sendable {
    private let condition = NSCondition()
    private var lines: [String] = []
    private var hasEnded = false

    init(_ handle: FileHandle) {
        Thread { [self] in
            var rest = Data()
            while true {
                let data = handle.availableData
                if data.isEmpty { break }
                rest += data
                while let feed = rest.firstIndex(of: UInt8(ascii: "\n")) {
                    let line = String(decoding: rest[..<feed], as: UTF8.self)
                    rest = Data(rest[(feed + 1)...])
                    condition.withLock {
                        lines.append(line)
                        condition.broadcast()
                    }
                }
            }
            condition.withLock {
                hasEnded = true
                condition.broadcast()
            }
        }.start()
    }

    func next(seconds: Double = 130) throws -> String {
        let end = Date(timeIntervalSinceNow: seconds * Double(Sanitizer.patience))
        return try condition.withLock {
            while lines.isEmpty {
                guard !hasEnded, condition.wait(until: end) else {
                    throw ClusterFailure(description: "the program says nothing")
                }
            }
            return lines.removeFirst()
        }
    }
}
