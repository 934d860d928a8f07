// What can be an entry of historyTopics of apps.

import Testing

@testable import Configuration

@Suite struct `Filters of topics with history` {
    @Test(arguments: [
        "a", "#", "+", "plant/+/alarm", "log/#", "/", "a//b", "+/+", "a/$b", "größe/#",
    ])
    func `are topic filters`(filter: String) {
        #expect(HistoryFilters.fault(of: filter) == nil)
    }

    @Test(arguments: [
        ("$SYS/#", "own topics"), ("$u/bob", "own topics"), ("$share/g/a", "own topics"),
        ("a+", "no topic filter"), ("+a/b", "no topic filter"), ("a/#/b", "no topic filter"),
        ("a#", "no topic filter"), ("#/", "no topic filter"), ("a\u{0}", "no topic filter"),
        (String(repeating: "x", count: 1_025), "more than 1024 bytes"),
    ])
    func `that keep nothing or break the rules are refused`(filter: String, reason: String) {
        #expect(HistoryFilters.fault(of: filter)?.contains(reason) == true)
    }

    private let certificate = "tls: {certificateFile: '/c.pem', keyFile: '/k.pem'}"

    @Test func `are read and written with their app, and bounded`() throws {
        func load(_ list: String) throws -> LoadedConfiguration {
            let app = "{app: 'plant', historyTopics: \(list)}"
            return try LoadedConfiguration(
                text: Array("{\(certificate), apps: [\(app)]}".utf8), path: "m.json5")
        }
        let apps = try load("['plant/+/alarm', 'log/#']").settings.apps
        #expect(apps.first?.historyTopics == ["plant/+/alarm", "log/#"])
        #expect(
            apps.first?.written == #"{app: "plant", historyTopics: ["plant/+/alarm", "log/#"]}"#)
        let many = repeatElement("'a'", count: HistoryFilters.countMaximum + 1)
        for list in ["'a'", "[1]", "['']", "['$SYS/#']", "[\(many.joined(separator: ","))]"] {
            #expect(throws: (any Error).self) { try load(list) }
        }
    }
}
