// The commands and programs of pages for operators and back ends, run as printed with the tools
// and libraries that the pages name.

import Foundation
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct PageCommandTests {
        /// Runs the commands of a page with a new broker; the programs of the page lie beside it.
        private func run(
            _ page: String, settings: [String] = [], programs: [String: [String]] = [:],
            stepCount: Int = 11
        ) async throws {
            let broker = try await TestBroker(
                settings: settings, listeners: ["http://localhost:0"])
            let replacements = [
                ("dev-data/dev.env", "\(broker.directory)/dev.env"),
                ("8883", "\(broker.tlsPort)"),
                ("8083", "\(try await broker.port("http"))"),
            ]
            let commands = try PrintedCommands(page: page)
            #expect(commands.steps.count >= stepCount)
            let directory = try TemporaryDirectory()
            for (language, names) in programs {
                let texts = commands.programs(language)
                try #require(texts.count == names.count)
                for (name, text) in zip(names, texts) {
                    try replacements.reduce(text) { $0.replacing($1.0, with: $1.1) }.write(
                        toFile: directory.file(name), atomically: true, encoding: .utf8)
                }
            }
            // Compiled packages of Go are kept, because they take a minute. A program may end
            // before the device, which replies and goes offline, is seen to be away.
            try await commands.run(
                in: directory.path, replacing: replacements,
                environment: [
                    "NODE_PATH": "/usr/share/nodejs",
                    "GOCACHE": SourceTree.root.appending(path: ".build/go").path,
                ], optional: "$presence/pump-7 offline")
        }

        @Test func `the commands of the quick reference print what it says`() async throws {
            try await run("quick-reference")
        }

        @Test func `the commands of conversations print what their page says`() async throws {
            try await run(
                "conversations",
                settings: [#"apps=[{app: "plant", historyTopics: ["plant/+/alarm"]}]"#])
        }

        @Test func `the commands of other systems' clients print what their page says`()
            async throws
        {
            let interfaces = #""rest", "registration", "quickblox", "diuit""#
            try await run(
                "source-systems",
                settings: [#"apps=[{app: "demo", interfaces: [\#(interfaces)]}]"#],
                stepCount: 9)
        }

        @Test func `the back ends of the tutorial send, receive and print what it says`()
            async throws
        {
            try await run(
                "back-end",
                programs: [
                    "python": ["shop.py", "inbox.py"], "js": ["shop.js"], "go": ["shop.go"],
                ])
        }
    }
}
