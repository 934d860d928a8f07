// Signed requests (Standard Webhooks): to the URLs of webhook targets, to a service that sends text
// messages, and to the hook that is asked for contents.

import CommandLineOptions
import JSON5
import Primitives
import Relay
import WakeTemplates

package enum RequestSender {
    /// The request for a wake-up, or the outcome where none can be made.
    package static func request(
        for wake: Wake, _ content: WakeContent, _ settings: RequestSettings, now: Moment
    ) -> Result<TransferRequest, SendFault> {
        let isSMS = wake.target.kind == .sms
        let url = isSMS ? settings.url : wake.target.address
        guard let destination = WebDestination(url), !destination.hasUser else {
            return .failure(SendFault(.refused("no-url", isFinal: true)))
        }
        if isSMS, !settings.permits(number: wake.target.address) {
            return .failure(SendFault(.refused("number-not-allowed", isFinal: true)))
        }
        guard destination.isEncrypted || settings.isPlainAllowed || isSMS else {
            return .failure(SendFault(.refused("plain-url", isFinal: true)))
        }
        var data = facts(of: wake)
        if isSMS {
            data.append(("to", .text(wake.target.address)))
            // A receiver takes the last of equal members: none of the content may be one of these.
            data += content.content.members.filter { !factNames.contains($0.key) }
                .map { ($0.key, $0.node) }
        } else {
            data.append(("content", content.content))
        }
        var request = signed(
            url, type: isSMS ? "wake.sms" : "wake", data: data, identifier: wake.identifier,
            settings, now: now)
        request.isOperators = isSMS
        return .success(request)
    }

    /// The question to the hook. Its identifier is not that of the wake-up: a back end that is both
    /// hook and target may keep one table of what it has seen.
    package static func question(
        for wake: Wake, _ hook: HookSettings, now: Moment
    ) -> TransferRequest {
        var data = facts(of: wake)
        data.append(("kind", .text(wake.target.kind.rawValue)))
        if !wake.text.isEmpty { data.append(("b", .text(wake.text))) }
        if let push = try? JSON5Parser.parse(wake.push, isOfOthers: true) {
            data.append(("push", push))
        }
        var request = signed(
            hook.request.url, type: "wake.question", data: data,
            identifier: wake.identifier + "-question", hook.request, now: now)
        request.isOperators = true
        return request
    }

    /// The names in `data` that are the relay's, whether a wake-up has all of them or not.
    private static let factNames: Set<String> = [
        "user", "from", "time", "count", "expires", "device", "language", "group", "reference",
        "test", "to",
    ]

    /// The members of `data` that all requests about a wake-up have, without the target's address.
    private static func facts(of wake: Wake) -> [(String, JSON5Node)] {
        var data: [(String, JSON5Node)] = [
            ("user", .text(wake.user)), ("from", .text(wake.from)), ("time", .number(wake.time)),
            ("count", .number(wake.count)), ("expires", .number(wake.expiry)),
        ]
        for (name, text) in [
            ("device", wake.target.device), ("language", wake.target.language),
            ("group", wake.group), ("reference", wake.reference),
        ] where !text.isEmpty { data.append((name, .text(text))) }
        if wake.isTest { data.append(("test", JSON5Node(.boolean(true)))) }
        return data
    }

    private static func signed(
        _ url: String, type: String, data: [(String, JSON5Node)], identifier: String,
        _ settings: RequestSettings, now: Moment
    ) -> TransferRequest {
        let body = JSON5Node.object([
            ("id", .text(identifier)), ("type", .text(type)),
            ("timestamp", .text(LogTime.text(unixMilliseconds: now.unixMilliseconds))),
            ("data", .object(data)),
        ]).json
        return TransferRequest.signed(
            url, body: body, identifier: identifier, seconds: now.unixSeconds,
            secrets: settings.secrets, authorityFile: settings.authorityFile,
            timeoutMilliseconds: settings.timeoutMilliseconds)
    }

    /// What an answer of a target or of the service means.
    ///
    /// - Parameter isOfTarget: whether the URL is a target's: then what it answers says nothing of
    ///   other targets of its host, which other users have named.
    package static func outcome(
        _ answer: DestinationAnswer, isOfTarget: Bool = false
    ) -> SendOutcome {
        switch answer.result {
        case .failed(AttemptResult.addressRefusal) where isOfTarget:
            // The rules change with a restart, and names with time: it is tried a few times.
            return .refused(AttemptResult.addressRefusal, isFinal: false)
        // The host took the connection, so what hangs is what the URL names on it.
        case .failed(let reason) where isOfTarget && answer.wasConnected: return .hung(reason)
        case .failed(let reason): return AttemptResult.failure(reason)
        case .answered(let status, let retryAfter):
            switch status {
            case 200..<300: return .delivered
            case 410: return .gone("status 410")
            case _ where answer.result.isFault:
                return .failed(
                    "status \(status)", retryAfterSeconds: retryAfter, isDestination: !isOfTarget)
            default: return .refused("status \(status)", isFinal: false)
            }
        }
    }

    /// What the hook's answer means: `{"send":false}`, `{"content":{…}}`, or `{}` for the template.
    package static func answer(_ answer: DestinationAnswer) -> HookAnswer {
        func silence(_ reason: String) -> HookAnswer {
            .silent(reason, isWell: !answer.result.isFault)
        }
        switch answer.result {
        case .failed(let reason): return silence(reason)
        case .answered(let status, _):
            if status == 204 { return .template }
            guard status == 200 else { return silence("status \(status)") }
            guard let node = answer.node, case .object = node.value else {
                return silence("no-json")
            }
            if let send = node["send"] {
                guard case .boolean(let isWanted) = send.value else { return silence("no-json") }
                if !isWanted { return .drop }
            }
            guard let content = node["content"] else { return .template }
            guard case .object = content.value else { return silence("no-content") }
            return .content(content)
        }
    }
}
