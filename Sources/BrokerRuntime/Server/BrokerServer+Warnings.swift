// What an operator has configured and nobody notices that it does nothing, or more than it should:
// logged at the start, and after a reload. It refuses nothing.

import BrokerCore
import Configuration

extension BrokerServer {
    /// Logs relays whose user nobody is, relays whose user somebody else may be, interfaces that no
    /// listener serves, and listeners that admit anonymous clients to an app that does not exist.
    func reportWithoutEffect() {
        let anonymousApp = DevelopmentSetup.app
        if settings.listeners.contains(where: \.anonymous),
            !shards[anonymousApp].look({ $0.hasApp(Array(anonymousApp.utf8)) })
        {
            reportWithoutEffect(
                anonymousApp,
                "listeners: there is no app \(anonymousApp), so clients without credentials are "
                    + "refused")
        }
        for shard in settings.shards {
            // The core of a standby is empty.
            guard let core = shard.apps.first.map({ shards[$0] }), core.enter({ $0.leads }) else {
                continue
            }
            for app in shard.apps where !core.look({ $0.hasApp(Array(app.utf8)) }) {
                reportWithoutEffect(
                    app, "shards: there is no app \(app) yet; it will be in \(shard.name)")
            }
        }
        for app in settings.apps {
            let relays = [("wake", app.wake?.relay), ("events", app.events?.relay)]
            for case (let key, let relay?) in relays where !isKnown(relay, app: app.app) {
                reportWithoutEffect(
                    app.app, "\(key).relay: no user \(relay) is known yet, so nobody is told")
            }
            for case (let key, let relay?) in relays where hasPassword(relay, app: app.app) {
                log.write(
                    .warning, .relayExposed,
                    fields: [
                        "app": .text(app.app), "user": .text(relay),
                        "detail": .text(
                            "\(key).relay: the user has a password, which a stranger may have "
                                + "registered; relays log in with tokens"),
                    ])
            }
            for interface in app.interfaces {
                let part: WebParts = interface == .leanmessage ? .json : .api
                if !settings.listeners.contains(where: { $0.parts.contains(part) }) {
                    reportWithoutEffect(
                        app.app, "interfaces: no listener serves \(interface.rawValue)")
                }
            }
        }
    }

    private func isKnown(_ user: String, app: String) -> Bool {
        shards[app].look { $0.hasUser(Array(user.utf8), app: Array(app.utf8)) }
    }

    /// Users who register by themselves have a password of their name.
    private func hasPassword(_ user: String, app: String) -> Bool {
        shards[app].look { $0.hasPassword(Array(user.utf8), app: Array(app.utf8)) }
    }

    private func reportWithoutEffect(_ app: String, _ detail: String) {
        log.write(
            .warning, .settingWithoutEffect,
            fields: ["app": .text(app), "detail": .text(detail)])
    }
}
