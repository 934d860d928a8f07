// The operators' page of settings, which is generated from the program's own table.
import Configuration
import Foundation
import Testing

@Suite struct ConfigurationReferenceTests {
    private let page = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "docs/operating/configuration.md")

    @Test func `the page in the repository is the one that the table generates`() throws {
        if ProcessInfo.processInfo.environment["MARTLET_UPDATE_DOCS"] == "1" {
            try Data(SettingTable.referencePage.utf8).write(to: page)
        }
        #expect(
            try String(contentsOf: page, encoding: .utf8) == SettingTable.referencePage,
            "Run the tests once with MARTLET_UPDATE_DOCS=1, and read the difference.")
    }

    @Test func `the example on the page is a valid configuration`() throws {
        let parts = SettingTable.referencePage.split(separator: "```")
        let example = try #require(parts.first { $0.hasPrefix("json5") }).dropFirst(5)
        let loaded = try LoadedConfiguration(text: Array(example.utf8), path: "example")
        #expect(loaded.settings.queues.policy == .oldest)
    }

    @Test func `the sample file is a valid configuration, also with its commented keys`() throws {
        let sample = page.deletingLastPathComponent().appending(path: "martlet.json5")
        let text = try String(contentsOf: sample, encoding: .utf8)
        for text in [text, text.replacing(#/(?m)^ +// ([a-zA-Z]+: .*,)$/#, with: { "\($0.1)" })] {
            let loaded = try LoadedConfiguration(text: Array(text.utf8), path: "martlet.json5")
            #expect(loaded.settings.queues.policy == .refuse)
        }
    }

    @Test func `every key is documented with a reason and keys are unique`() {
        #expect(SettingTable.all.allSatisfy { $0.reason.count > 15 && $0.reason.hasSuffix(".") })
        #expect(Set(SettingTable.all.map(\.key)).count == SettingTable.all.count)
    }
}
