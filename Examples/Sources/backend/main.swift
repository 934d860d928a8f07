// A back end: sends a command to a user's device and waits until the device has carried it out.
//
//     backend USER WORD…       for example: backend boiler valve open
//
// Exit status: 0 done, 2 refused by the device, 3 no answer within 30 seconds, 1 any other error.

import Foundation
import MartletClient
import Shared

let arguments = Array(CommandLine.arguments.dropFirst())
guard arguments.count >= 2 else {
    report("usage: backend USER WORD…")
    exit(1)
}
let name = UUID().uuidString

do {
    let client = try await connect(device: "backend-\(name.prefix(8))")
    var command = OutgoingMessage(
        to: .user(arguments[0]), text: ([name] + arguments.dropFirst()).joined(separator: " "),
        grade: .once)
    // A command that the device cannot receive in time must not be carried out later.
    command.expirySeconds = 30
    try await client.send(command)
    report("accepted by the broker")

    let answer = await withTaskGroup(of: String?.self) { group in
        group.addTask {
            for await event in client.events {
                guard case .message(let message) = event, message.from == arguments[0],
                    case .text(let text, _) = message.content, text.hasPrefix(name)
                else { continue }
                client.acknowledge(message)
                return String(text.dropFirst(name.count + 1))
            }
            return nil
        }
        group.addTask {
            try? await Task.sleep(for: .seconds(30))
            return nil
        }
        defer { group.cancelAll() }
        return await group.next() ?? nil
    }
    // This session has a name of its own and is not needed again.
    await client.close(endingSession: true)
    report("the device says: \(answer ?? "nothing")")
    exit(answer == "done" ? 0 : answer == nil ? 3 : 2)
} catch {
    fail(error)
}
