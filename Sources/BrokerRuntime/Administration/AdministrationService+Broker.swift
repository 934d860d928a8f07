// Operations on the broker itself: its listeners, whom it refused, its configuration and its log.

import Administration
import BrokerTerms
import Configuration

extension AdministrationService {
    func listListeners() -> ListListeners.Reply {
        let now = Int64(clock.moment().unixSeconds)
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
        let limit = request.limit ?? ListRefusals.countDefault
        return log.refusals(after: request.after, limit: limit)
    }

    func listLogLines(_ request: ListLogLines) -> ListLogLines.Reply {
        let page = log.feed.page(
            after: request.after, limit: request.limit ?? ListLogLines.countDefault,
            unixMilliseconds: clock.moment().unixMilliseconds)
        return ListLogLines.Reply(lines: page.lines.map(ListLogLines.Line.init), last: page.last)
    }

    func reload() throws(AdministrationRefusal) -> ReloadConfiguration.Reply {
        log.write(.info, .administration, fields: ["request": "configuration.reload"])
        switch reloads.ask() {
        case .applied(let changed, let needsRestart, let files):
            return ReloadConfiguration.Reply(
                changed: changed, needsRestart: needsRestart, files: files)
        case .refused(let errors):
            throw AdministrationRefusal(
                .payloadFormatInvalid, "nothing was changed: \(errors)")
        case nil:
            throw AdministrationRefusal(.serverShuttingDown, "the broker is stopping")
        }
    }

    func setLevel(_ request: SetLogLevel) throws(AdministrationRefusal) -> SetLogLevel.Reply {
        guard let level = LogLevel(rawValue: request.level) else {
            throw AdministrationRefusal(
                .payloadFormatInvalid,
                "the level must be one of \(SetLogLevel.levels.joined(separator: ", ")), not "
                    + "\"\(request.level)\"")
        }
        // Before the change: with the new level the line might be left out.
        log.write(
            .warning, .administration,
            fields: ["request": "log.level", "level": .text(level.rawValue)])
        return SetLogLevel.Reply(previous: log.change(level: level).rawValue)
    }
}
