// Registration and login with a password, at the REST interface of the broker
// (docs/operating/source-systems.md).

import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Makes requests of JSON.
struct Server {
    let address: URL

    /// An answer with another status than 200.
    struct Refusal: Error {
        let status: Int
        let text: String
    }

    /// - Parameter token: nil before the login.
    func request<Answer: Decodable>(
        _ method: String, _ path: String, _ content: [String: String]? = nil, token: String? = nil
    ) async throws -> Answer {
        var request = URLRequest(url: address.appending(path: path))
        request.httpMethod = method
        if let content {
            request.httpBody = try JSONEncoder().encode(content)
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        }
        if let token {
            request.setValue("Bearer \(token)", forHTTPHeaderField: "Authorization")
        }
        let (data, response) = try await URLSession.shared.data(for: request)
        let status = (response as? HTTPURLResponse)?.statusCode ?? 0
        guard status == 200 else {
            throw Refusal(status: status, text: String(decoding: data, as: UTF8.self))
        }
        return try JSONDecoder().decode(Answer.self, from: data)
    }
}

/// Who uses the program.
struct Auth {
    let server: Server

    private struct Registered: Decodable { let success: Bool }
    private struct LoggedIn: Decodable { let jwt: String }

    func register(_ username: String, password: String) async throws {
        let _: Registered = try await server.request(
            "POST", "auth/register", ["username": username, "password": password])
    }

    /// The token for all other requests.
    func login(_ username: String, password: String) async throws -> String {
        let answer: LoggedIn = try await server.request(
            "POST", "auth/login", ["username": username, "password": password])
        return answer.jwt
    }
}
