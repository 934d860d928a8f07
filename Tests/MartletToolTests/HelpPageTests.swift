// The help page is written by hand; it must not forget anything.
import CommandLineOptions
import Testing

@testable import martlet

@Suite struct HelpPageTests {
    private func missing<Rules: OptionRules>(_ rules: Rules.Type) -> [String] {
        OptionParser<Rules>.namesMissing(inHelp: MartletProgram.helpPage)
    }

    @Test func `it names every command and every option`() {
        #expect(missing(SendOption.self) == [])
        #expect(missing(ListenOption.self) == [])
        #expect(missing(PresenceOption.self) == [])
        #expect(missing(GroupOption.self) == [])
        #expect(missing(TokenMintOption.self) == [])
        #expect(missing(UserAddOption.self) == [])
        #expect(missing(AppOption.self) == [])
        #expect(missing(StatsOption.self) == [])
        for command in Command.allCases {
            #expect(MartletProgram.helpPage.contains("martlet \(command.rawValue)"))
        }
    }

    @Test func `it fits a terminal`() {
        let lines = MartletProgram.helpPage.split(
            separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.allSatisfy { $0.count <= 90 })
    }
}
