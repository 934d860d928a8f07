// The log lines of refused requests to the HTTP API and to interfaces of other systems.

import BrokerTerms
import NetTransport

extension LogWriter {
    /// Writes a refused request, with the fields of a refused login.
    func writeRefusal(
        _ event: LogEventName, of peer: SocketAddress, user: String, reason: ReasonCode,
        _ detail: String
    ) {
        write(
            .warning, event,
            fields: [
                "address": .text("\(peer)"), "user": .text(user),
                "device": "", "reason": .text(reason.name.description),
                "code": .number(reason.rawValue),
                "subject": "", "detail": .text(detail),
            ])
    }
}
