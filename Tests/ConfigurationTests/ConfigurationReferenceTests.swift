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
        for text in [text, uncommented(text)] {
            let loaded = try LoadedConfiguration(text: Array(text.utf8), path: "martlet.json5")
            #expect(loaded.settings.queues.policy == .refuse)
        }
    }

    /// The sample with the keys that are comments.
    private func uncommented(_ sample: String) -> String {
        sample.replacing(#/(?m)^ +// ([a-zA-Z0-9]+: .*,)$/#, with: { "\($0.1)" })
    }

    @Test func `the sample file has every key`() throws {
        let sample = page.deletingLastPathComponent().appending(path: "martlet.json5")
        let text = uncommented(try String(contentsOf: sample, encoding: .utf8))
        var section = ""
        var keys: Set<String> = []
        for line in text.split(separator: "\n") {
            guard let match = line.firstMatch(of: #/^ *([a-zA-Z0-9]+): (.*)$/#) else {
                if line.hasPrefix("    }") { section = "" }
                continue
            }
            if match.2 == "{" {
                section = "\(match.1)."
            } else {
                keys.insert("\(section)\(match.1)")
            }
        }
        #expect(keys == Set(SettingTable.all.map(\.key)))
        // What is a comment is a default, except examples of keys that have none.
        let plain = try LoadedConfiguration(
            text: Array(String(contentsOf: sample, encoding: .utf8).utf8))
        let whole = try LoadedConfiguration(text: Array(text.utf8))
        #expect(
            Set(whole.settingsChanged(from: plain).map(\.key)) == [
                "apps", "cluster.address", "cluster.authorityFile", "cluster.certificateFile",
                "cluster.keyFile", "cluster.node", "cluster.passwordFile", "cluster.servers",
                "cluster.systemPasswordFile", "cluster.systemUser", "cluster.user",
                "cluster.webAddress", "files.address", "jwt.issuers",
                "jwt.keys", "tls.clientApp", "tls.clientAuthorityFile",
                "tls.crlFile",
                "tls.pskFile", "web.allowedOrigins",
            ])
    }

    @Test func `the configurations of the pages are valid`() throws {
        let folder = page.deletingLastPathComponent()
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            .filter { $0.hasSuffix(".md") }
        var count = 0
        for name in names {
            let text = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
            for block in text.matches(of: #/(?s)```json5\n(.*?)```/#) {
                // A page may show some keys only, without those in front of them.
                let keys = block.1.replacing("…, ", with: "")
                let text = keys.contains(#/(?m)^\{/#) ? String(keys) : "{ \(keys) }"
                count += 1
                #expect(throws: Never.self, "\(name): \(text)") {
                    try LoadedConfiguration(
                        text: Array(text.utf8), path: name,
                        overrides: ["certificate", "key"].map {
                            SettingOverride(assignment: "tls.\($0)File=\($0).pem")
                        })
                }
            }
        }
        #expect(count > 8)
    }

    @Test func `every key is documented with a reason and keys are unique`() {
        #expect(SettingTable.all.allSatisfy { $0.reason.count > 15 && $0.reason.hasSuffix(".") })
        #expect(Set(SettingTable.all.map(\.key)).count == SettingTable.all.count)
    }
}
