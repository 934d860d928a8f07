// What a user's target may not have of the connections that the operator's requests have opened.

import Foundation
import TestSurroundings
import Testing

@testable import Push

@Suite(.serialized, .enabled(if: TestDestination.isThere, TestDestination.reasonOfAbsence))
struct SharedConnectionTests {
    private let keys = TestKeys()

    /// The hook is asked first, so its connection is there, and kept.
    @Test func `a user's target on the operator's host is refused on an open connection too`()
        throws
    {
        let destination = try TestDestination(
            "hook", ["--plan", #"hook=200:{"content":{"x":1}}"#, Fixture.secretText])
        let base = "http://127.0.0.1:\(destination.port)"
        var settings = try keys.settings(
            """
            webhook: { secretFiles: ["DIR/secret"], allowHttp: true },
            hook: { url: "\(base)/hook", secretFiles: ["DIR/secret"] },
            """)
        settings.relay.privateNetworks = []
        let relay = TestRelay(settings)
        relay.accept(
            Fixture.request("eve", address: { _ in "\(base)/admin?delete=all" }, time: unixNow))
        _ = try destination.lines.line("path=/hook step=200")
        let deadline = Date() + 60
        func isRefused(_ steps: [String]) -> Bool {
            steps.contains { $0.hasSuffix("address-not-allowed") }
        }
        var steps: [String] = []
        while !isRefused(steps), Date() < deadline {
            steps = (try? relay.record().log.map { "\($0.step.name) \($0.detail)" }) ?? []
        }
        #expect(isRefused(try relay.stop()))
        #expect(!destination.lines.all.contains { $0.contains("path=/admin") })
    }
}
