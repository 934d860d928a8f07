// Operations on the broker itself: its listeners, and whom it refused.

import Administration
import BrokerTerms
import Configuration

extension AdministrationService {
    func listListeners() -> ListListeners.Reply {
        let now = Int64(clock.moment().unixMilliseconds / 1_000)
        return ListListeners.Reply(
            listeners: listeners.settings.enumerated().map { tag, listener in
                let certificate = listeners.contexts[tag]
                let expires = certificate?.certificateExpiryUnixSeconds
                return ListListeners.Listener(
                    address: listener.address, scheme: listener.transport.rawValue,
                    parts: listener.transport.isWeb ? listener.parts.writtenNames : [],
                    connectionCount: listeners.connectionCount(tag: tag),
                    certificateSubject: certificate?.certificateSubject,
                    certificateExpiresUnixSeconds: expires.map { UInt64(clamping: $0) },
                    certificateDays: expires.map { UInt64(clamping: ($0 - now) / 86_400) })
            })
    }

    func listRefusals(_ request: ListRefusals) -> ListRefusals.Reply {
        let limit = min(request.limit ?? ListRefusals.countDefault, ListRefusals.countMaximum)
        return log.refusals(after: request.after, limit: Int(limit))
    }
}
