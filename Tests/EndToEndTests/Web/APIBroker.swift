// A broker with the HTTP API, and an operator of each role.

import Administration
import Foundation
import TestSurroundings
import Testing

/// A broker with the HTTP API and an operator of each role.
final class APIBroker {
    let broker: TestBroker
    let http: UInt16
    let https: UInt16
    /// By role.
    let tokens: [OperatorRole: String]

    init(_ settings: String..., faults: DiskFaults? = nil) async throws {
        broker = try await TestBroker(
            settings: settings, faults: faults,
            listeners: ["https://localhost:0", "http://localhost:0"])
        http = try await broker.port("http")
        https = try await broker.port("https")
        let client = try AdministrationClient(dataDirectory: broker.directory)
        var tokens: [OperatorRole: String] = [:]
        for role in OperatorRole.allCases {
            tokens[role] = try client.send(AddOperator(operator: role.rawValue, role: role)).token
        }
        self.tokens = tokens
    }

    var own: String { tokens[.own, default: ""] }
}
