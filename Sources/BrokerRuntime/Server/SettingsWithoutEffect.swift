// What an operator has configured and nobody notices that it does nothing, or more than it should:
// logged at the start, after a reload, and when a node of a cluster begins to lead a shard. It
// refuses nothing.

import BrokerCore
import Configuration

/// The settings of a broker beside what its cores have.
struct SettingsWithoutEffect {
    let settings: BrokerSettings
    let shards: Shards
    let log: LogWriter

    /// Logs interfaces that no listener serves, and all that ``report(of:)`` does for the shards
    /// that are served here.
    func report() {
        for app in settings.apps {
            for interface in app.interfaces {
                let part: WebParts = interface == .leanmessage ? .json : .api
                if !settings.listeners.contains(where: { $0.parts.contains(part) }) {
                    report(app.app, "interfaces: no listener serves \(interface.rawValue)")
                }
            }
        }
        for (place, core) in shards.cores.enumerated() where core.takesEvents { report(of: place) }
    }

    /// Logs, of the apps of one shard, relays whose user nobody is, relays whose user somebody else
    /// may be, apps that do not exist, and listeners that admit anonymous clients to one that does
    /// not.
    func report(of place: Int) {
        func isHere(_ app: String) -> Bool { shards.map.place(ofApp: Array(app.utf8)) == place }
        let broker = shards.cores[place]
        let anonymousApp = DevelopmentSetup.app
        if settings.listeners.contains(where: \.anonymous), isHere(anonymousApp),
            !broker.look({ $0.hasApp(Array(anonymousApp.utf8)) })
        {
            report(
                anonymousApp,
                "listeners: there is no app \(anonymousApp), so clients without credentials are "
                    + "refused")
        }
        for shard in settings.shards where shard.name == shards.map.names[place] {
            for app in shard.apps where !broker.look({ $0.hasApp(Array(app.utf8)) }) {
                report(app, "shards: there is no app \(app) yet; it will be in \(shard.name)")
            }
        }
        for app in settings.apps where isHere(app.app) {
            let relays = [("wake", app.wake?.relay), ("events", app.events?.relay)]
            for case (let key, let relay?) in relays {
                report(relay: relay, of: app.app, key, in: broker)
            }
        }
    }

    private func report(
        relay: String, of app: String, _ key: String, in broker: SharedBroker
    ) {
        let (name, appName) = (Array(relay.utf8), Array(app.utf8))
        if !broker.look({ $0.hasUser(name, app: appName) }) {
            report(app, "\(key).relay: no user \(relay) is known yet, so nobody is told")
        }
        // Users who register by themselves have a password of their name.
        if broker.look({ $0.hasPassword(name, app: appName) }) {
            log.write(
                .warning, .relayExposed,
                fields: [
                    "app": .text(app), "user": .text(relay),
                    "detail": .text(
                        "\(key).relay: the user has a password, which a stranger may have "
                            + "registered; relays log in with tokens"),
                ])
        }
    }

    private func report(_ app: String, _ detail: String) {
        log.write(
            .warning, .settingWithoutEffect,
            fields: ["app": .text(app), "detail": .text(detail)])
    }
}

extension BrokerServer {
    var withoutEffect: SettingsWithoutEffect {
        SettingsWithoutEffect(settings: settings, shards: shards, log: log)
    }
}
