// The resources of a process, as reported by the kernel and by the process itself.

import Foundation

/// One moment of a broker's process.
struct ProcessGauges {
    /// Memory of its own, KiB: stack and heap.
    var anonymousKilobytes = 0
    /// Pages of files, KiB: programs, libraries, and what was touched of the store.
    var fileKilobytes = 0
    var descriptorCount = 0

    init(_ process: ChildProcess) throws {
        let path = "/proc/\(process.identifier)"
        let status = try String(contentsOfFile: path + "/status", encoding: .utf8)
        for line in status.split(separator: "\n") {
            let number = Int(line.filter(\.isNumber)) ?? 0
            if line.hasPrefix("RssAnon:") { anonymousKilobytes = number }
            if line.hasPrefix("RssFile:") { fileKilobytes = number }
        }
        descriptorCount = try FileManager.default.contentsOfDirectory(atPath: path + "/fd").count
    }
}

/// A line of a soak's table.
struct SoakSample: CustomStringConvertible {
    var minutes: Double
    var gauges: ProcessGauges
    var connected: UInt64
    var stored: UInt64
    var storeBytes: UInt64
    var milliseconds: [Double]

    func percentile(_ share: Double) -> Double {
        let sorted = milliseconds.sorted()
        return sorted.isEmpty ? .nan : sorted[Int(Double(sorted.count - 1) * share)]
    }

    static let heading =
        "| minute | anonymous, KiB | files, KiB | descriptors | connected | waiting "
        + "| store, KiB | deliveries | p50, ms | p99, ms |"

    var description: String {
        let figures = [
            String(format: "%.1f", minutes), "\(gauges.anonymousKilobytes)",
            "\(gauges.fileKilobytes)", "\(gauges.descriptorCount)", "\(connected)", "\(stored)",
            "\(storeBytes >> 10)", "\(milliseconds.count)",
            String(format: "%.1f", percentile(0.5)), String(format: "%.1f", percentile(0.99)),
        ]
        return "| " + figures.joined(separator: " | ") + " |"
    }
}
