// Requests of Standard Webhooks: the id, the time of the attempt, and a signature for each secret.

extension TransferRequest {
    /// A signed request.
    ///
    /// - Parameters:
    ///   - identifier: the receiver recognises the event by it: the same in each attempt.
    ///   - seconds: the time of the attempt, in Unix seconds.
    ///   - secrets: one, or two during a change.
    package static func signed(
        _ url: String, body: [UInt8], identifier: String, seconds: UInt64,
        secrets: [WebhookSecret], authorityFile: String?, timeoutMilliseconds: Int
    ) -> TransferRequest {
        let signatures = secrets.map {
            $0.signature(identifier: identifier, seconds: seconds, body: body)
        }
        return TransferRequest(
            url: url, authorityFile: authorityFile, timeoutMilliseconds: timeoutMilliseconds,
            fields: [
                "webhook-id: \(identifier)", "webhook-timestamp: \(seconds)",
                "webhook-signature: \(signatures.joined(separator: " "))",
            ], body: body)
    }
}
