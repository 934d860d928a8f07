// What an operator does to streams in these tests.

import Foundation
import TestSurroundings
@testable import NATSLog

struct StreamAdministration {
    private let connection: JetStreamConnection

    init(_ servers: NATSServers) throws {
        let settings = settings(servers)
        connection = try JetStreamConnection(settings, credentials: settings.credentials) { _ in }
    }

    func delete(_ stream: String) throws {
        try succeed("$JS.API.STREAM.DELETE.\(stream)", "")
    }

    func create(_ configuration: String) throws {
        guard let name = ServerAnswer(Array(configuration.utf8))?["name"]?.text else {
            throw LogFailure(description: "\(configuration) has no name")
        }
        try succeed("$JS.API.STREAM.CREATE.\(name)", configuration)
    }

    /// Makes the leader of a stream give up its place.
    func stepDown(_ stream: String) throws {
        try succeed("$JS.API.STREAM.LEADER.STEPDOWN.\(stream)", "")
    }

    private func succeed(_ subject: String, _ question: String) throws {
        let answer = try connection.ask(subject, question)
        if let error = answer.error { throw error }
    }
}
