// `martlet recall` and `martlet replace`: take a message back, or give it a new text.

import CommandLineOptions
import JSON5
import MartletClient

enum RevisionOption: String, ConnectionRules {
    case server, ca, token, device, timeout, json
    case reference, detail, type

    var shape: OptionShape { self == .json ? .flag : .value }
    var letter: Character? { self == .timeout ? "W" : nil }
}

enum RecallCommand {
    static func run(_ arguments: ArraySlice<String>) async throws {
        let options = try OptionParser<RevisionOption>.options(arguments, positionalMaximum: 1)
        if options.has(.type) { throw UsageError("--type is for martlet replace") }
        let (message, _) = try options.sentMessage(isFollowed: false)
        let result = try await options.revise { client in
            try await client.recall(message, detail: options[.detail] ?? "")
        }
        result.print(isJSON: options.has(.json), done: "withdrawn from")
    }
}

enum ReplaceCommand {
    static func run(_ arguments: ArraySlice<String>) async throws {
        let options = try OptionParser<RevisionOption>.options(arguments, positionalMaximum: 2)
        let (message, text) = try options.sentMessage(isFollowed: true)
        let type = UInt8(try options.integer(.type, in: 0...255) ?? 0)
        let result = try await options.revise { client in
            try await client.replace(
                message, text: text ?? "", type: type, detail: options[.detail] ?? "")
        }
        result.print(isJSON: options.has(.json), done: "replaced for")
    }
}

extension ParsedOptions<RevisionOption> {
    /// The message that the command line names, and the text behind it.
    fileprivate func sentMessage(
        isFollowed: Bool
    ) throws(UsageError) -> (message: SentMessage, text: String?) {
        var words = positionals[...]
        let text = isFollowed ? words.popLast() : nil
        if isFollowed, text == nil { throw UsageError("missing TEXT") }
        guard let digits = self[.reference] else {
            guard let identifier = words.first else {
                throw UsageError(
                    "missing \(isFollowed ? "TEXT" : "MESSAGE-ID"): a message is named by its own "
                        + "id or by --reference")
            }
            return (.messageID(identifier), text)
        }
        guard words.isEmpty else {
            throw UsageError("MESSAGE-ID and --reference exclude each other")
        }
        guard let reference = MessageReference(digits) else {
            throw UsageError("--reference has 16 hexadecimal digits, not \"\(digits)\"")
        }
        return (.reference(reference), text)
    }

    fileprivate func revise(
        _ body: @escaping @Sendable (Client) async throws -> RevisionResult
    ) async throws -> RevisionResult {
        try await UserRequest.run(self, deviceDefault: "revise") { client in
            do {
                return try await body(client)
            } catch MartletError.refused(.topicNameInvalid, _) {
                throw CommandFailure(
                    "you sent no such message with --reference, --receipt or --collapse, or it "
                        + "has expired",
                    .refused(reason: ReasonCode.topicNameInvalid.rawValue))
            }
        }
    }
}

extension RevisionResult {
    fileprivate func print(isJSON: Bool, done: String) {
        if isJSON {
            let names = lateUsers.map(JSONText.quoted).joined(separator: ",")
            StandardStream.output.print(
                #"{"withdrawn":\#(withdrawnCount),"late":\#(lateCount),"lateUsers":[\#(names)]}"#)
            return
        }
        StandardStream.output.print("\(done) \(counted(UInt64(withdrawnCount), "user"))")
        guard lateCount > 0 else { return }
        var names = lateUsers.map(printable).joined(separator: ", ")
        if lateUsers.count < Int(lateCount) { names += names.isEmpty ? "…" : ", …" }
        StandardStream.output.print(
            "too late for \(counted(UInt64(lateCount), "user")), who are told: \(names)")
    }
}
