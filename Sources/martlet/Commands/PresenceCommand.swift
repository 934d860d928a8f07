// `martlet presence`: whether a user is connected, since when, and with which devices.

import CommandLineOptions
import Glibc
import JSON5
import MartletClient

enum PresenceOption: String, ConnectionRules {
    case server, ca, token, device, timeout, json

    var shape: OptionShape { self == .json ? .flag : .value }
    var letter: Character? { self == .timeout ? "W" : nil }
}

enum PresenceCommand {
    private static let timeoutSecondsDefault: UInt64 = 60

    static func run(_ arguments: ArraySlice<String>) async throws {
        let options = try OptionParser<PresenceOption>.options(arguments, positionalMaximum: 1)
        guard let user = options.positionals.first else {
            throw UsageError("missing USER: martlet presence USER")
        }
        var settings = try options.clientSettings(deviceDefault: "presence-\(getpid())")
        settings.sessionExpirySeconds = 0
        settings.inboxWindow = 1
        let seconds = try options.seconds(.timeout) ?? timeoutSecondsDefault
        let presence = try await CommandStop.run(settings, seconds: seconds) { client, _ in
            try await client.connect()
            return try await client.presence(of: user)
        }
        StandardStream.output.print(
            options.has(.json) ? json(user, presence) : text(user, presence))
    }

    private static func text(_ user: String, _ presence: Presence) -> String {
        let since = presence.since.map { " since \(timestamp(unixMilliseconds: $0))" } ?? ""
        let named = presence.devices.filter { !$0.isEmpty }.map(printable)
        let devices = named.isEmpty ? "" : ", devices: \(named.joined(separator: ", "))"
        return "\(printable(user)) is \(presence.isOnline ? "online" : "offline")\(since)\(devices)"
    }

    private static func json(_ user: String, _ presence: Presence) -> String {
        let devices = presence.devices.map(JSONText.quoted).joined(separator: ",")
        let since = presence.since.map { "\"\($0)\"" } ?? "null"
        return
            #"{"user":\#(JSONText.quoted(user)),"online":\#(presence.isOnline),"since":\#(since),"#
            + #""devices":[\#(devices)]}"#
    }

    /// UTC to the second [RFC 3339].
    private static func timestamp(unixMilliseconds: UInt64) -> String {
        var seconds = time_t(unixMilliseconds / 1000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        var text = [CChar](repeating: 0, count: 32)
        let count = strftime(&text, text.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
        return String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
