// Where the commands of operators go: to the admin socket of a broker on this machine, or to the
// HTTP API of one on another.

import Administration
import CommandLineOptions
import JSON5
import WireFormat

/// A connection to a broker that an operator administers. One request at a time.
enum AdministrationConnection: ~Copyable {
    case socket(AdministrationClient)
    case http(HTTPAdministrationClient)

    /// Whether the broker may be on another machine.
    var isRemote: Bool {
        switch self {
        case .socket: false
        case .http: true
        }
    }

    /// Where its HTTP API is, with a slash at the end; nil for the admin socket.
    var webAddress: String? {
        switch self {
        case .socket: nil
        case .http(let client): client.server + "/"
        }
    }

    /// Makes a request and waits for its reply.
    borrowing func send<Request: AdministrationRequest>(
        _ request: Request
    ) throws(AdministrationError) -> Request.Reply {
        switch self {
        case .socket(let client): try client.send(request)
        case .http(let client): try client.send(request)
        }
    }

    /// Makes requests and waits for their replies, in order. On the admin socket, messages among
    /// them share a commit.
    ///
    /// - Parameter requests: at most ``AdministrationLine/requestsTogetherMaximum``.
    borrowing func send<Request: AdministrationRequest>(
        all requests: [Request]
    ) throws(AdministrationError) -> [Result<Request.Reply, AdministrationRefusal>] {
        switch self {
        case .socket(let client): return try client.send(all: requests)
        case .http(let client):
            var results: [Result<Request.Reply, AdministrationRefusal>] = []
            for request in requests {
                do throws(AdministrationError) {
                    results.append(.success(try client.send(request)))
                } catch {
                    guard case .refused(let refusal) = error else { throw error }
                    results.append(.failure(refusal))
                }
            }
            return results
        }
    }

    /// How many of these users one request can mint tokens for; at least one.
    borrowing func mintCount(of users: ArraySlice<String>) -> Int {
        switch self {
        case .socket: return min(users.count, MintTokens.userCountMaximum)
        case .http:
            var room = WebLimits.contentByteCountMaximum - Self.mintByteCountBesidesUsers
            var count = 0
            for user in users {
                // With a comma.
                room -= JSONText.quoted(user).utf8.count + 1
                if room < 0, count > 0 { break }
                count += 1
            }
            return count
        }
    }

    /// Room for the members of a request for tokens besides its users: 64 rights of 255 bytes.
    private static let mintByteCountBesidesUsers = 16_384
}

extension ParsedOptions where Rules: AdministrationRules {
    /// The broker of `--server` or `--data`; without them that of `MARTLET_DATA`, and then that of
    /// `MARTLET_SERVER`.
    func administration() throws -> AdministrationConnection {
        guard !(has(.server) && has(.data)) else {
            throw UsageError(
                "--data and --server exclude each other")
        }
        let isLocal = has(.data) || environment("MARTLET_DATA") != nil
        guard let server = self[.server] ?? (isLocal ? nil : httpServerOfEnvironment) else {
            return .socket(
                try AdministrationClient(
                    dataDirectory: try needed(
                        .data, variable: "MARTLET_DATA",
                        meaning: "the broker's data directory, or --server its HTTP API")))
        }
        guard HTTPAdministrationClient.takes(server) else {
            throw UsageError(
                "operators use the HTTP API: --server must be https://HOST:PORT, not \"\(server)\"")
        }
        return .http(
            try HTTPAdministrationClient(
                server: server,
                token: try needed(
                    .token, variable: "MARTLET_TOKEN", meaning: "the operator's token"),
                authorityFile: self[.ca] ?? environment("MARTLET_CA")))
    }

    /// `MARTLET_SERVER` is also for users, with another scheme.
    var httpServerOfEnvironment: String? {
        environment("MARTLET_SERVER").flatMap { HTTPAdministrationClient.takes($0) ? $0 : nil }
    }
}
