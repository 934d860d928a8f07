// The example of docs/SDK.md: it compiles, it runs, and the page contains exactly this code.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(1 * Sanitizer.patience))) struct ExampleTests {
        @Test func `the first example of the SDK's page works`() async throws {
            let broker = try await TestBroker()
            try broker.addUsers("bob")
            let (address, file) = ("tls://localhost:\(broker.tlsPort)", broker.authority)
            let token = try broker.token("alice")
            // The example:
            var settings = ClientSettings(
                server: try ServerAddress(address), credential: .token(token))
            settings.device = "pump"
            settings.trust = .authorityFile(file)
            let client = try Client(settings)
            try await client.connect()

            try await client.send(OutgoingMessage(to: .user("bob"), text: "hello"))

            let bob = try await broker.client("bob")
            try await bob.send(OutgoingMessage(to: .user("alice"), text: "hello yourself"))
            for await event in client.events {
                if case .message(let message) = event {
                    #expect(message.from == "bob")
                    await client.close()
                }
            }
        }

        @Test func `the page shows the code that is tested`() throws {
            let test = try String(contentsOfFile: #filePath, encoding: .utf8)
            let page = try String(
                contentsOf: SourceTree.root.appending(path: "docs/SDK.md"), encoding: .utf8)
            let block = try #require(page.firstMatch(of: /```swift\n((?:.*\n)*?)```/)?.output.1)
            // What the test has to know better: where its broker is, and when to end.
            let lines = block.split(separator: "\n").map { line in
                line.replacing(#""tls://broker.example:8883""#, with: "address")
                    .replacing(#""ca.pem""#, with: "file").drop { $0 == " " }
            }
            for line in lines where !line.contains("print(") && line != "}" {
                #expect(test.contains(line), "\(line)")
            }
            #expect(lines.count > 8)
        }
    }
}
