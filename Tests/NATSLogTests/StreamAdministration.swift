// What an operator does to streams in these tests.

import Foundation
import TestSurroundings
@testable import NATSLog

struct StreamAdministration {
    private let connection: JetStreamConnection

    init(_ servers: NATSServers) throws {
        let settings = settings(servers)
        connection = try Self.insist { () throws(JetStreamError) in
            try JetStreamConnection(settings, credentials: settings.credentials) { _ in }
        }
    }

    func delete(_ stream: String) throws {
        try succeed("$JS.API.STREAM.DELETE.\(stream)", "", done: JetStreamFollower.absent)
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

    /// - Parameter done: the error that says that an earlier attempt has succeeded, whose answer
    ///   came too late.
    private func succeed(_ subject: String, _ question: String, done: Int? = nil) throws {
        var attempts = 0
        try Self.insist { () throws(JetStreamError) -> Void in
            attempts += 1
            let answer = try connection.ask(subject, question)
            guard let error = answer.error else { return }
            guard case .refused(let code, let text) = error else { throw error }
            if attempts > 1, code == done { return }
            // No leader answers (JSClusterNotAvailErr, JSClusterNotLeaderErr).
            throw [10_008, 10_009].contains(code) ? JetStreamError.leaderless(text) : error
        }
    }

    /// Repeats what servers do not answer in time, or while they elect a leader.
    private static func insist<Value>(
        _ attempt: () throws(JetStreamError) -> Value
    ) throws -> Value {
        let end = Date(timeIntervalSinceNow: 60 * Double(Sanitizer.patience))
        while true {
            do throws(JetStreamError) {
                return try attempt()
            } catch {
                guard error.isTemporary, Date() < end else { throw error }
                _ = poll(nil, 0, 100)
            }
        }
    }
}
