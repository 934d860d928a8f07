// A controller: carries out commands that its user receives, and answers each. A command is the
// text `NAME valve open` or `NAME valve close`, where NAME is the name of the command. The answer
// goes to the sender: `NAME done` or `NAME refused`.
//
//     controller [COMMANDS]      ends after so many commands; runs until it is stopped by default

import MartletClient
import Shared

let maximum = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? .max

/// Moves the valve; false for a command that this controller does not know.
func carryOut(_ words: [Substring]) -> Bool {
    guard words == ["valve", "open"] || words == ["valve", "close"] else { return false }
    report("the valve is \(words[1] == "open" ? "open" : "closed")")
    return true
}

do {
    let client = try await connect(device: "controller")
    report("ready")
    var count = 0
    for await event in client.events {
        guard case .message(let message) = event, message.kind == .unicast,
            case .text(let text, _) = message.content
        else { continue }
        let words = text.split(separator: " ")
        guard let name = words.first else { continue }
        let isDone = carryOut(Array(words.dropFirst()))
        // Once: the back end receives one answer, even if device, network or broker fail.
        try await client.send(
            OutgoingMessage(
                to: .user(message.from), text: "\(name) \(isDone ? "done" : "refused")",
                grade: .once))
        // Asking for the next message acknowledges this one. A controller that ends before that
        // receives the command again, so a command must be harmless when it is carried out twice.
        count += 1
        if count == maximum {
            client.acknowledge(message)
            break
        }
    }
    await client.close()
} catch {
    fail(error)
}
