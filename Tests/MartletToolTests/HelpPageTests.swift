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
        #expect(missing(AppOption.self) == [])
        #expect(missing(UserAddOption.self) == [])
        #expect(missing(StatsOption.self) == [])
        #expect(missing(TokenMintOption.self) == [])
        #expect(missing(TokenOption.self) == [])
        #expect(missing(SessionOption.self) == [])
        #expect(missing(RightsOption.self) == [])
        // One line may stand for several commands: martlet queue (show | purge).
        let words = MartletProgram.helpPage.split { " ()|\n".contains($0) }
        for word in Command.allCases.flatMap({ $0.rawValue.split(separator: " ") }) {
            #expect(words.contains(word), "martlet … \(word)")
        }
    }
}
