// Registers a user, logs in, creates a conversation and lists all of them:
//
//     conversations URL USER PASSWORD LABEL

import Foundation

let words = CommandLine.arguments.dropFirst()
guard words.count == 4, let address = URL(string: words[1]) else {
    print("usage: conversations URL USER PASSWORD LABEL")
    exit(64)
}
let (user, password, label) = (words[2], words[3], words[4])
let server = Server(address: address)
let auth = Auth(server: server)
do {
    try await auth.register(user, password: password)
} catch let refusal as Server.Refusal where refusal.status == 409 {
    // It was registered by an earlier run.
}
let token = try await auth.login(user, password: password)
let conversations = Conversations(server: server, token: token)
_ = try await conversations.create(label)
for conversation in try await conversations.list() {
    print("\(conversation.token) \(conversation.label)")
}
