// What an operator has configured and nobody notices that it does nothing: logged at the start, and
// after a reload. It refuses nothing.

import BrokerCore
import Configuration

extension BrokerServer {
    /// Logs relays whose user nobody is, interfaces that no listener serves, and listeners that
    /// admit anonymous clients to an app that does not exist.
    func reportWithoutEffect() {
        let anonymousApp = DevelopmentSetup.app
        if settings.listeners.contains(where: \.anonymous),
            !shared.look({ $0.hasApp(Array(anonymousApp.utf8)) })
        {
            reportWithoutEffect(
                anonymousApp,
                "listeners: there is no app \(anonymousApp), so clients without credentials are "
                    + "refused")
        }
        for app in settings.apps {
            let relays = [("wake", app.wake?.relay), ("events", app.events?.relay)]
            for case (let key, let relay?) in relays where !isKnown(relay, app: app.app) {
                reportWithoutEffect(
                    app.app, "\(key).relay: no user \(relay) is known yet, so nobody is told")
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
        shared.look { $0.hasUser(Array(user.utf8), app: Array(app.utf8)) }
    }

    private func reportWithoutEffect(_ app: String, _ detail: String) {
        log.write(
            .warning, .settingWithoutEffect,
            fields: ["app": .text(app), "detail": .text(detail)])
    }
}
