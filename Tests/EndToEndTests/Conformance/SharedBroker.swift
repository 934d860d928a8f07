// One broker for all tests of a suite, because starting it takes longer than most of them. It must
// end in order, with a sound store.

import Foundation
import Testing
import WireFormat

/// What the tests of a suite know of its broker.
struct SharedBroker: Sendable {
    /// The plain port, on which a client id is a user.
    let port: UInt16
    let directory: String

    /// A variable of dev.env.
    func variable(_ name: String) throws -> String {
        let text = try String(contentsOfFile: "\(directory)/dev.env", encoding: .utf8)
        for line in text.split(separator: "\n") where line.hasPrefix("export \(name)=") {
            return String(line.dropFirst("export \(name)=".count))
        }
        throw TestFailure("dev.env has no \(name)")
    }

    @TaskLocal static var current: SharedBroker?
}

/// Runs a suite with a broker.
struct SharedBrokerTrait: SuiteTrait, TestScoping {
    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let broker = try await TestBroker()
        let shared = SharedBroker(port: broker.plainPort, directory: broker.directory)
        try await SharedBroker.$current.withValue(shared) { try await function() }
        try await broker.stop()
        _ = try await broker.verifyStore()
    }
}

extension Trait where Self == SharedBrokerTrait {
    static var sharedBroker: SharedBrokerTrait { SharedBrokerTrait() }
}

extension EndToEndTests {
    /// What MQTT says, tested on a running broker. Above each test stand the statements that it
    /// proves; `docs/CONFORMANCE.md` is made from them.
    @Suite(.sharedBroker) struct MQTTConformance {
        static let everyVersion: [MQTT.Version] = [.v31, .v311, .v5]
        /// Those that tell a client whether its session was there.
        static let laterVersions: [MQTT.Version] = [.v311, .v5]
    }
}
