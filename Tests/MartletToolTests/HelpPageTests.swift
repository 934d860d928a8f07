// The help pages name every command and option.
import CommandLineOptions
import Testing

@testable import martlet

@Suite struct HelpPageTests {
    private func missing<Rules: OptionRules>(
        _ topic: HelpTopic, _ rules: Rules.Type
    ) -> [String] {
        OptionParser<Rules>.namesMissing(inHelp: topic.page)
    }

    @Test func `the page of a verb names every option of its commands`() {
        #expect(missing(.send, SendOption.self) == [])
        #expect(missing(.listen, ListenOption.self) == [])
        #expect(missing(.recall, RevisionOption.self) == [])
        #expect(missing(.replace, RevisionOption.self) == [])
        #expect(missing(.presence, PresenceOption.self) == [])
        #expect(missing(.group, GroupOption.self) == [])
        #expect(missing(.token, TokenMintOption.self) == [])
        #expect(missing(.token, TokenOption.self) == [])
        #expect(missing(.session, SessionOption.self) == [])
        // Its commands end no session, and refuse these.
        #expect(missing(.queue, SessionOption.self) == ["--will", "--no-will"])
        #expect(missing(.user, AppOption.self) == [])
        #expect(missing(.history, HistoryOption.self) == [])
        #expect(missing(.history, HistoryMarkOption.self) == [])
        #expect(missing(.conversations, ConversationsOption.self) == [])
        #expect(missing(.applied, AppliedOption.self) == [])
        #expect(missing(.app, AppOption.self) == [])
        #expect(missing(.explain, ExplainOption.self) == [])
        #expect(missing(.backup, BackupOption.self) == [])
        #expect(missing(.stats, StatsOption.self) == [])
        #expect(missing(.operator, OperatorOption.self) == [])
        #expect(missing(.dashboard, DashboardOption.self) == [])
        #expect(missing(.listeners, ListenersOption.self) == [])
        #expect(missing(.refusals, RefusalsOption.self) == [])
        #expect(missing(.reload, ReloadOption.self) == [])
        #expect(missing(.logLevel, ReloadOption.self) == [])
    }

    @Test func `the overview and the page of its verb name every command`() throws {
        for command in Command.allCases {
            let parts = command.rawValue.split(separator: " ")
            let topic = try #require(HelpTopic(rawValue: String(parts[0])), "\(command)")
            for page in [HelpPages.overview, topic.page] {
                // One line may stand for several commands: martlet queue (show | purge).
                let lines = page.split(separator: "\n").map {
                    $0.split { " ()|".contains($0) }
                }
                let isThere = lines.contains { words in
                    words.first == "martlet" && words.dropFirst().first == parts[0]
                        && (parts.count == 1 || words.contains(parts[1]))
                }
                #expect(isThere, "martlet \(command.rawValue)")
            }
        }
    }

    @Test func `no page is wider than a terminal of a hundred columns`() {
        for page in [HelpPages.overview] + HelpTopic.allCases.map(\.page) {
            for line in page.split(separator: "\n") { #expect(line.count <= 98, "\(line)") }
        }
    }
}
