// The conversations of a user who has logged in. Each is a group, whose members send to it through
// MQTT, MRT or JSON.

/// A conversation by its token, which is the id of its group.
struct Conversation: Decodable {
    let token: String
    let label: String
}

/// The requests of a user.
struct Conversations {
    let server: Server
    let token: String

    private struct List: Decodable { let conversations: [Conversation] }

    func create(_ label: String) async throws -> Conversation {
        try await server.request(
            "POST", "conversations/create", ["label": label], token: token)
    }

    func list() async throws -> [Conversation] {
        let answer: List = try await server.request("GET", "conversations", token: token)
        return answer.conversations
    }
}
