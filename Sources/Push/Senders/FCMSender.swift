// Firebase Cloud Messaging, HTTP v1, as Google documents it: "FCM HTTP v1 error codes", "Using
// OAuth 2.0 for server to server applications". One access token serves all messages.

import JSON5
import Primitives
import Relay
import WakeTemplates

package struct FCMSender {
    package enum Access {
        /// Ask for a token.
        case wanted
        /// The answer is awaited.
        case asked
        case ready(String)
    }

    private let settings: FCMSettings
    private var token = ""
    /// Requests with a later tag carry the token.
    private var tokenTag: UInt64 = 0
    private var validUntil: UInt64 = 0
    private var isAsked = false

    package init(_ settings: FCMSettings) { self.settings = settings }

    package func access(now: Moment) -> Access {
        if isAsked { return .asked }
        return now.unixSeconds < validUntil ? .ready(token) : .wanted
    }

    /// The request for an access token.
    package mutating func tokenRequest(now: Moment) -> TransferRequest {
        isAsked = true
        let seconds = now.unixSeconds
        let assertion = settings.key.token(
            keyID: nil,
            claims: [
                ("iss", .text(settings.account)),
                ("scope", .text("https://www.googleapis.com/auth/firebase.messaging")),
                ("aud", .text(settings.tokenURL)), ("iat", .number(seconds)),
                ("exp", .number(seconds + 3_600)),
            ])
        let grant = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
        var request = TransferRequest(
            url: settings.tokenURL, authorityFile: settings.authorityFile,
            timeoutMilliseconds: 1_000 * settings.timeoutSeconds, fields: [],
            body: Array("grant_type=\(grant)&assertion=\(assertion)".utf8))
        request.contentType = "application/x-www-form-urlencoded"
        request.isOperators = true
        return request
    }

    /// The answer to the request for an access token.
    ///
    /// - Parameter tag: the tag of the last request that was made before.
    /// - Returns: why there is none; nil if there is one.
    package mutating func accept(
        token answer: DestinationAnswer, after tag: UInt64, now: Moment
    ) -> String? {
        isAsked = false
        switch answer.result {
        case .failed(let reason): return reason
        case .answered(let status, _):
            guard status == 200, let text = answer.node?["access_token"]?.text, !text.isEmpty,
                text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F })
            else {
                let word = DestinationAnswer.word(answer.node?["error"]?.text)
                return word.isEmpty ? "status \(status)" : word
            }
            let seconds = answer.node?["expires_in"]?.number ?? 3_600
            let margin = min(PushLimits.accessTokenMarginSeconds, seconds / 2)
            token = text
            tokenTag = tag
            let lifetime = min(seconds, PushLimits.accessTokenSecondsMaximum) - margin
            validUntil = now.unixSeconds + max(lifetime, PushLimits.accessTokenSecondsMinimum)
            return nil
        }
    }

    /// The request for a wake-up, or the outcome where none can be made.
    package func request(
        for wake: Wake, _ content: WakeContent, token: String, now: Moment
    ) -> Result<TransferRequest, SendFault> {
        var message = content.content.setting("token", .text(wake.target.address))
        // FCM keeps a message for four weeks unless it is told another time.
        let lifetime = wake.expiry > now.unixMilliseconds ? wake.expiry - now.unixMilliseconds : 0
        let android = message["android"] ?? .object([])
        if android["ttl"] == nil {
            message = message.setting(
                "android", android.setting("ttl", .text("\(lifetime / 1_000)s")))
        }
        guard content.content.json.count <= PushLimits.fcmPayloadByteCountMaximum else {
            return .failure(
                SendFault(.refused("PayloadTooLarge", isFinal: true), isOfContent: true))
        }
        let body = JSON5Node.object([("message", message)]).json
        var request = TransferRequest(
            url: "\(settings.url)/v1/projects/\(settings.project)/messages:send",
            authorityFile: settings.authorityFile,
            timeoutMilliseconds: 1_000 * settings.timeoutSeconds,
            fields: ["authorization: Bearer \(token)"], body: body)
        request.isMultiplexed = true
        request.isOperators = true
        return .success(request)
    }

    /// What an answer to the request `tag` means.
    package mutating func outcome(_ answer: DestinationAnswer, of tag: UInt64) -> SendOutcome {
        guard case .answered(let status, let retryAfter) = answer.result else {
            if case .failed(let reason) = answer.result { return AttemptResult.failure(reason) }
            preconditionFailure("\(answer.result)")
        }
        if status == 200 { return .delivered }
        let error = answer.node?["error"]
        var word = DestinationAnswer.word(error?["status"]?.text)
        if case .array(let details)? = error?["details"]?.value {
            for detail in details {
                let code = DestinationAnswer.word(detail["errorCode"]?.text)
                if !code.isEmpty { word = code }
            }
        }
        let reason = word.isEmpty ? "status \(status)" : word
        switch (status, word) {
        // Another 404 is one of a proxy, of a wrong URL, or of another project.
        case (_, "UNREGISTERED"): return .gone(reason)
        // The target is alive, and belongs to another project than the service account.
        case (400, _), (_, "SENDER_ID_MISMATCH"): return .refused(reason, isFinal: true)
        case (401, _), (403, _):
            // The access token may have ended early. Requests that were under way at that moment
            // are refused as well, and say nothing about the token that followed.
            if tag > tokenTag { validUntil = 0 }
            return .failed(reason, retryAfterSeconds: retryAfter, isDestination: true)
        // Without a time of its own a minute, as Google asks for.
        case (429, _):
            return .failed(
                reason, retryAfterSeconds: retryAfter == 0 ? 60 : retryAfter, isDestination: true)
        default:
            return .failed(reason, retryAfterSeconds: retryAfter, isDestination: true)
        }
    }
}
