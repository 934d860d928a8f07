// The repository as the hygiene tests see it: its files as text. It knows paths and lines, no
// rules.
import Foundation
import Testing

/// The files of this repository, found from where this file was compiled.
enum Repository {
    /// The folder that holds Package.swift.
    static let root = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// One text file.
    struct File {
        /// Relative to the root, as in `Sources/Primitives/Instant.swift`.
        let path: String
        let lines: [Substring]

        /// The folder below `Sources` or `Tests`: the name of the target.
        var target: String { String(path.split(separator: "/").dropFirst().first ?? "") }
    }

    /// All files below these folders whose names end in one of `endings`; folders that do not exist
    /// are passed over.
    static func files(in folders: [String], endings: [String]) throws -> [File] {
        try folders.flatMap { folder in
            let names = FileManager.default.subpaths(atPath: root.appending(path: folder).path)
            return try (names ?? []).sorted()
                .filter { name in endings.contains { name.hasSuffix($0) } }
                .map { try file("\(folder)/\($0)") }
        }
    }

    /// One file by its path from the root.
    static func file(_ path: String) throws -> File {
        let text = try String(contentsOf: root.appending(path: path), encoding: .utf8)
        return File(
            path: path, lines: text.split(separator: "\n", omittingEmptySubsequences: false))
    }

    /// All Swift and C sources, tests included.
    static func code() throws -> [File] {
        try files(
            in: ["Sources", "Tests", "Bench", "Examples", "Firmware-Samples"],
            endings: [".swift", ".c", ".h"])
    }

    /// Names at the top level, without what .gitignore names and without git's own.
    static func topLevelNames() throws -> Set<String> {
        let ignored = try file(".gitignore").lines.map { $0.hasSuffix("/") ? $0.dropLast() : $0 }
        let names = try FileManager.default.contentsOfDirectory(atPath: root.path)
        return Set(names).subtracting(ignored.map(String.init)).subtracting([".git"])
    }
}

/// Fails with every place at once, and with what to do about it.
func expectNone(
    _ violations: [String], remedy: String, sourceLocation: SourceLocation = #_sourceLocation
) {
    if !violations.isEmpty {
        Issue.record(
            "\(violations.joined(separator: "\n"))\n\(remedy)", sourceLocation: sourceLocation)
    }
}
