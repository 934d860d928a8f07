// Options that every program of this package has.

import CommandLineOptions
import Foundation
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(1 * Sanitizer.patience))) struct VersionTests {
        @Test(arguments: ["martletd", "martlet", "martlet-gateway", "martlet-bench", "martlet-sim"])
        func `every program names its version and prints its help`(program: String) async throws {
            let version = try ChildProcess(program, ["--version"])
            #expect(try await version.exit() == .code(0))
            #expect(version.text == "\(program) \(ProgramVersion.text)")
            var pages: Set<String> = []
            for option in ["--help", "-h"] {
                let help = try ChildProcess(program, [option])
                #expect(try await help.exit() == .code(0))
                #expect(help.text.contains("--version") && help.text.contains("--help"))
                pages.insert(help.text)
            }
            #expect(pages.count == 1)
        }
    }
}
