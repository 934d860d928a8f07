// The commands that a page shows, run as printed against a real broker, and what they print
// compared with the page.

import Foundation
import TestSurroundings
import Testing

/// The blocks of a page, and the commands in those without a language.
///
/// A line that begins with `$ ` is a command, and goes on in the next line after a backslash or
/// within parentheses. The lines below it are its output, where `…` stands for anything.
struct PrintedCommands {
    struct Step {
        var command: String
        var output: [String] = []

        var isUnfinished: Bool {
            command.hasSuffix("\\")
                || command.count { $0 == "(" } > command.count { $0 == ")" }
        }
    }

    let page: String
    private let blocks: [(language: Substring, text: String)]
    let steps: [Step]

    /// - Parameter page: the name of a page of docs/operating, without its ending.
    init(page: String) throws {
        self.page = page
        let text = try String(
            contentsOf: SourceTree.root.appending(path: "docs/operating/\(page).md"),
            encoding: .utf8)
        let parts = text.split(separator: "```", omittingEmptySubsequences: false)
        blocks = parts.enumerated().compactMap { index, part in
            guard index % 2 == 1 else { return nil }
            let lines = part.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false)
            return (lines[0], String(lines[1]))
        }
        var steps: [Step] = []
        for block in blocks where block.language.isEmpty {
            for line in block.text.split(separator: "\n") {
                if steps.last?.isUnfinished == true {
                    steps[steps.count - 1].command += "\n" + line
                } else if line.hasPrefix("$ ") {
                    steps.append(Step(command: String(line.dropFirst(2))))
                } else if !steps.isEmpty {
                    steps[steps.count - 1].output.append(String(line))
                }
            }
        }
        self.steps = steps
    }

    /// The blocks in a language.
    func programs(_ language: String) -> [String] {
        blocks.filter { $0.language == language }.map(\.text)
    }

    /// Runs the commands in one shell, and more behind them.
    ///
    /// - Parameters:
    ///   - directory: where they run; the programs of the page lie there.
    ///   - replacements: what a page cannot know, such as the ports of the broker.
    ///   - optional: the beginning of lines that may be missing on the page.
    ///   - last: further steps.
    func run(
        in directory: String, replacing replacements: [(String, String)],
        environment: [String: String] = [:], optional: String? = nil, then last: [Step] = []
    ) async throws {
        let all = steps + last
        // What is in the background ends with the shell: each has a process group.
        var script = """
            set -m
            trap 'for group in $(jobs -p); do kill -KILL -- -$group || true; done' EXIT
            cd \(directory)

            """
        for (index, step) in all.enumerated() {
            let command = replacements.reduce(step.command) { $0.replacing($1.0, with: $1.1) }
            script += "echo '@@\(index)'\n\(command)\n"
        }
        script += "echo '@@\(all.count)'\n"
        let path = "\(ChildProcess.programs.path):/usr/sbin:/usr/bin:/bin"
        let shell = try ChildProcess(
            "/bin/bash", ["-ec", script],
            environment: ["PATH": path].merging(environment) { $1 })
        #expect(try await shell.exit(within: 150) == .code(0), "\(shell.text)")
        var printed = [[String]](repeating: [], count: all.count + 1)
        var current = all.count
        for line in shell.lines {
            if line.hasPrefix("@@"), let number = Int(line.dropFirst(2)) {
                current = number
            } else if optional.map(line.hasPrefix) != true {
                printed[current].append(line)
            }
        }
        for (index, step) in all.enumerated() {
            // Answers of several exchanges come in any order.
            let (real, shown) = (printed[index].sorted(), step.output.sorted())
            #expect(
                real.count == shown.count && zip(real, shown).allSatisfy(Self.matches),
                "\(page): \(step.command)\nprinted\n\(printed[index].joined(separator: "\n"))")
        }
    }

    /// Whether a line is what the page prints.
    private static func matches(_ line: String, _ printed: String) -> Bool {
        let parts = printed.split(separator: "…", omittingEmptySubsequences: false)
        guard parts.count > 1 else { return line == printed }
        guard line.hasPrefix(parts[0]), line.hasSuffix(parts[parts.count - 1]) else {
            return false
        }
        var rest = line.dropFirst(parts[0].count)
        for part in parts.dropFirst().dropLast() {
            guard let place = rest.range(of: part) else { return false }
            rest = rest[place.upperBound...]
        }
        return true
    }
}
