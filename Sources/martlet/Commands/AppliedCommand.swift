// `martlet applied`: a receiver tells the sender of a message that it did what the message asks
// for, or why not. A program that acts on messages calls it with the reference that `martlet
// listen --json` prints.

import CommandLineOptions
import MartletClient

enum AppliedOption: String, ConnectionRules {
    case server, ca, token, device, timeout, code, text, json

    var shape: OptionShape { self == .json ? .flag : .value }
    var letter: Character? { self == .timeout ? "W" : nil }
}

enum AppliedCommand {
    static func run(_ arguments: ArraySlice<String>) async throws {
        let options = try OptionParser<AppliedOption>.options(arguments, positionalMaximum: 1)
        guard let word = options.positionals.first else {
            throw UsageError("missing REFERENCE: see martlet listen --json")
        }
        guard let reference = MessageReference(word) else {
            throw UsageError("a reference has 16 hexadecimal digits, not \"\(word)\"")
        }
        let code = UInt8(try options.integer(.code, in: 0...255) ?? 0)
        try await UserRequest.run(options, deviceDefault: "applied") { client in
            try await client.reportApplied(reference, code: code, text: options[.text] ?? "")
        }
        StandardStream.output.print(options.has(.json) ? "{}" : "receipt sent")
    }
}
