// A whole relay for wake-ups: one thread until it is stopped, beside that of the client; and what
// other processes ask of its record.

import ClientProgram
import CommandLineOptions
import JSON5
import MartletClient
import Primitives
import Relay
import WakeTemplates

/// A relay for wake-ups until it is stopped, or cannot continue.
public enum PushProcess {
    /// Runs it on the calling thread.
    public static func run(
        _ settings: PushSettings, _ control: RelayControl
    ) throws(RelayFailure) -> RelayEnd {
        try run(settings, control, hasBroker: true)
    }

    /// - Parameter hasBroker: false for a relay whose inputs come from a test.
    package static func run(
        _ settings: PushSettings, _ control: RelayControl, hasBroker: Bool
    ) throws(RelayFailure) -> RelayEnd {
        try RelayProcess.run(settings.relay, control, hasBroker: hasBroker) { record, session in
            PushRelay(settings, record: record, session: session, waker: control.waker)
        }
    }
}

/// What people ask of a relay's record, whether it runs or not.
public enum PushQuestions {
    /// The log, one line for each entry, oldest first.
    ///
    /// - Parameter user: nil for all users.
    public static func log(
        _ settings: PushSettings, user: String?
    ) throws(RecordFailure) -> [String] {
        let stored = try RecordFile<PushRecord>.content(of: settings.relay.stateFile)
        var log = WakeLog(
            perTargetMaximum: settings.logPerTargetMaximum, countMaximum: settings.logMaximum)
        for entry in stored.log { log.add(entry) }
        return log.all.filter { user == nil || $0.key.isOf(user!) }.map(\.line)
    }

    /// Dead letters, one line for each, with its number first.
    public static func deadLetters(
        _ settings: PushSettings
    ) throws(RecordFailure) -> [String] {
        try RecordFile<PushRecord>.content(of: settings.relay.stateFile).deadLetters.map(\.line)
    }

    /// Asks the relay to send dead letters again; one that does not run does it at its next start.
    ///
    /// - Parameter number: nil for all.
    /// - Returns: how many; nil if there is none of this number.
    public static func resend(
        _ settings: PushSettings, number: UInt64?
    ) throws(RecordFailure) -> Int? {
        let letters = try RecordFile<PushRecord>.content(of: settings.relay.stateFile).deadLetters
        let sequences = letters.map(\.wake.sequence).filter { number == nil || $0 == number }
        guard !sequences.isEmpty else { return nil }
        try ResendRequest(stateFile: settings.relay.stateFile).write(sequences)
        return sequences.count
    }

    /// What a target of each kind would be sent for a sample, one line for each.
    ///
    /// - Parameters:
    ///   - kind: the name of a kind; nil for all that the configuration speaks to.
    ///   - push: JSON as a sender gives it; nil for none.
    /// - Throws: a usage error, if the kind or the JSON is none.
    public static func sample(
        _ settings: PushSettings, kind: String?, push: String?
    ) throws(UsageError) -> [String] {
        let kinds: [WakeKind]
        if let kind {
            guard let known = WakeKind(rawValue: kind) else {
                let names = WakeKind.allCases.map(\.rawValue).joined(separator: ", ")
                throw UsageError("--kind must be one of \(names)")
            }
            kinds = [known]
        } else {
            kinds = WakeKind.allCases.filter { settings.speaks($0) && $0.hasContent }
        }
        var pushed: [UInt8] = []
        if let push {
            guard let node = try? JSON5Parser.parse(Array(push.utf8)), case .object = node.value
            else { throw UsageError("--push must be a JSON object") }
            pushed = node.json
        }
        return kinds.map { kind in
            let wake = Wake(
                sequence: 1, user: "bob",
                target: PushTarget(id: 1, device: "phone", kind: kind, address: "", language: "en"),
                identifier: "", from: "alice", group: "crew", time: 1_795_687_335_120, count: 3,
                expiry: 1_796_292_135_120, reference: "", push: pushed, text: "hello",
                isTest: false)
            let content = WakeContents.make(
                wake, answer: nil, template: settings.templates[kind] ?? WakeContents.builtIn(kind),
                badge: 0)
            return "\(kind.rawValue) " + String(decoding: content.content.json, as: UTF8.self)
        }
    }

    /// The key of one device for datagrams, as hexadecimal digits; nil if the file has none.
    public static func deviceKey(
        _ settings: PushSettings, user: String, device: String
    ) -> String? {
        settings.udp?.key.deviceKey(user: user, device: device).map { byte in
            (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }.joined()
    }
}

extension DeadLetter {
    /// A line for people and scripts.
    fileprivate var line: String {
        "number=\(wake.sequence) time=\(LogTime.text(unixMilliseconds: time)) "
            + "user=\(quoted(wake.user.utf8)) id=\(wake.target.id) "
            + "kind=\(wake.target.kind.rawValue) count=\(wake.count) cause=\(cause.name) "
            + "reason=\(quoted(reason.utf8))"
    }
}

extension LogEntry {
    /// A line for people and scripts.
    fileprivate var line: String {
        "time=\(LogTime.text(unixMilliseconds: time)) user=\(quoted(key.user.utf8)) id=\(key.id) "
            + "kind=\(kind.rawValue) step=\(step.name) number=\(sequence) count=\(count)"
            + (detail.isEmpty ? "" : " detail=\(quoted(detail.utf8))")
    }
}
