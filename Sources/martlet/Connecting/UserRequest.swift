// One request of a user: the login, the request, the end of the connection.

import CommandLineOptions
import Glibc
import MartletClient

/// A request of a user, who logs in for it and disconnects.
enum UserRequest {
    private static let timeoutSecondsDefault: UInt64 = 60

    static func run<Rules: ConnectionRules, Value>(
        _ options: ParsedOptions<Rules>, deviceDefault: String,
        _ body: (Client) async throws -> Value
    ) async throws -> Value {
        var settings = try options.clientSettings(deviceDefault: "\(deviceDefault)-\(getpid())")
        // A transient session, which receives none of the user's waiting messages.
        settings.sessionExpirySeconds = 0
        settings.inboxWindow = 1
        let seconds = try options.seconds(.timeout) ?? timeoutSecondsDefault
        return try await CommandStop.run(settings, seconds: seconds) { client, _ in
            try await client.connect()
            return try await body(client)
        }
    }
}
