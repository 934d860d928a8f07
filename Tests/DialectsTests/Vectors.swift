// Packets by name, from Tests/Vectors.

import Foundation

/// The bytes of a whole packet.
func packet(_ name: String) -> [UInt8] {
    guard let bytes = vectors[name] else { preconditionFailure("no vector is called \(name)") }
    return bytes
}

private let vectors: [String: [UInt8]] = {
    let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    var vectors: [String: [UInt8]] = [:]
    let mqtt = ["connect", "messages", "subscriptions", "endings", "invalid"].map { "mqtt/\($0)" }
    for file in [
        "mrt-connect", "mrt-messages", "mrt-requests", "mrt-session", "mrt-invalid", "fields",
    ] + mqtt {
        let path = root.appending(path: "Tests/Vectors/\(file).txt")
        for line in try! String(contentsOf: path, encoding: .utf8).split(separator: "\n")
        where !line.hasPrefix("#") {
            let fields = line.split(separator: "\t", omittingEmptySubsequences: false)
            let digits = Array(fields[3].utf8)
            vectors[String(fields[0])] = stride(from: 0, to: digits.count, by: 2).map {
                UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)!
            }
        }
    }
    return vectors
}()
