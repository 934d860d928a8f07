// Apple's push service, as Apple documents it: "Sending notification requests to APNs",
// "Handling notification responses from APNs", "Establishing a token-based connection to APNs".

import JSON5
import Primitives
import Relay
import WakeTemplates

package struct APNsSender {
    private struct ProviderToken {
        var text: String
        var madeAt: UInt64
    }

    private let profiles: [APNsSettings]
    private var tokens: [Int: ProviderToken] = [:]

    package init(_ profiles: [APNsSettings]) { self.profiles = profiles }

    /// The profile that the control keys of the content name; nil if there is none. One that a
    /// sender names and that is not there stands for the first.
    private func profileIndex(_ content: WakeContent) -> Int? {
        let first = profiles.isEmpty ? nil : 0
        let named: Int?
        if let name = content.profile {
            named = profiles.firstIndex { $0.name == name }
        } else if let team = content.team {
            named = profiles.firstIndex { $0.teamID == team }
        } else {
            return first
        }
        return named ?? (content.isOfSender ? first : nil)
    }

    /// The request, or the outcome where none can be made.
    package mutating func request(
        for wake: Wake, _ content: WakeContent, now: Moment
    ) -> Result<TransferRequest, SendFault> {
        guard let index = profileIndex(content) else {
            return .failure(SendFault(.refused("unknown-profile", isFinal: true)))
        }
        guard wake.target.address.utf8.allSatisfy(Self.isHexadecimal), !wake.target.address.isEmpty
        else { return .failure(SendFault(.gone("BadDeviceToken"))) }
        let body = content.content.json
        guard body.count <= PushLimits.apnsPayloadByteCountMaximum else {
            return .failure(
                SendFault(.refused("PayloadTooLarge", isFinal: true), isOfContent: true))
        }
        let profile = profiles[index]
        let server = wake.target.isSandbox ? profile.sandboxURL : profile.productionURL
        var fields = [
            "apns-id: \(Self.uuid(wake.identifier))", "apns-expiration: \(wake.expiry / 1_000)",
            "apns-priority: \(profile.priority)", "apns-topic: \(profile.topic)",
            "apns-push-type: \(profile.pushType)",
        ]
        if case .token = profile.proof {
            fields.append("authorization: bearer \(token(index, now: now))")
        }
        var request = TransferRequest(
            url: "\(server)/3/device/\(wake.target.address)", authorityFile: profile.authorityFile,
            timeoutMilliseconds: 1_000 * profile.timeoutSeconds, fields: fields, body: body)
        request.isMultiplexed = true
        request.isOperators = true
        if case .certificate(let identity) = profile.proof { request.identity = identity }
        return .success(request)
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte | 0x20)
    }

    /// The first 128 bits of an identifier, which ends in 32 hexadecimal digits, as a UUID.
    static func uuid(_ identifier: String) -> String {
        let digits = Array(identifier.suffix(32))
        var parts: [String] = []
        var start = 0
        for count in [8, 4, 4, 4, 12] {
            parts.append(String(digits[start..<start + count]))
            start += count
        }
        return parts.joined(separator: "-")
    }

    /// A token that is young enough.
    private mutating func token(_ index: Int, now: Moment) -> String {
        guard case .token(let key, let keyID, let teamID, let minutes) = profiles[index].proof
        else { preconditionFailure("profile \(index) has no key") }
        let seconds = now.unixSeconds
        if let token = tokens[index], seconds >= token.madeAt,
            seconds - token.madeAt < UInt64(minutes) * 60
        {
            return token.text
        }
        let text = key.token(
            keyID: keyID, claims: [("iss", .text(teamID)), ("iat", .number(seconds))])
        tokens[index] = ProviderToken(text: text, madeAt: seconds)
        return text
    }

    /// What an answer means.
    package func outcome(_ answer: DestinationAnswer) -> SendOutcome {
        guard case .answered(let status, let retryAfter) = answer.result else {
            if case .failed(let reason) = answer.result { return AttemptResult.failure(reason) }
            preconditionFailure("\(answer.result)")
        }
        let word = DestinationAnswer.word(answer.node?["reason"]?.text)
        let reason = word.isEmpty ? "status \(status)" : word
        switch status {
        case 200: return .delivered
        // Without a reason it is not Apple's answer.
        case 410 where !word.isEmpty: return .gone(reason)
        case 400 where word == "BadDeviceToken": return .gone(reason)
        // The request is wrong, and stays wrong.
        case 400, 404, 405, 413: return .refused(reason, isFinal: true)
        // Too many for this one token.
        case 429 where word == "TooManyRequests":
            return .failed(reason, retryAfterSeconds: retryAfter, isDestination: false)
        // 403: the relay's proof is not accepted. 429: too many tokens. 5xx: Apple's own.
        default:
            return .failed(reason, retryAfterSeconds: retryAfter, isDestination: true)
        }
    }

    /// Whether an answer says that the relay's token is too old or from the future: the clock is
    /// off.
    ///
    /// - Returns: how far, in seconds, positive if the relay's clock is ahead; nil for another
    ///   answer.
    package func clockOffset(_ answer: DestinationAnswer, now: Moment) -> Int? {
        guard case .answered(403, _) = answer.result,
            ["ExpiredProviderToken", "InvalidProviderToken"].contains(
                answer.node?["reason"]?.text ?? "")
        else { return nil }
        return answer.serverSeconds == 0 ? 0 : Int(now.unixSeconds) - answer.serverSeconds
    }
}

/// An outcome without a request.
package struct SendFault: Error, Hashable {
    package let outcome: SendOutcome
    /// Whether another content may be taken.
    package let isOfContent: Bool

    init(_ outcome: SendOutcome, isOfContent: Bool = false) {
        self.outcome = outcome
        self.isOfContent = isOfContent
    }
}
