// Other rules for a running bridge. Messages under way keep their form and receiver; both sessions
// get the subscriptions of the new rules before they lose those of the old ones.

import ClientProgram
import Primitives

extension MessageBridge {
    /// Takes the rules, the dead letters and the time between totals of other settings. Waits for
    /// the MQTT broker's answer to a request, because it belongs to the present rules. Martlet's
    /// answers name their requests, so these may be open.
    package mutating func reload(_ settings: BridgeSettings) { nextSettings = settings }

    /// The file could not be read, or has faults: the present rules stay.
    package mutating func keepRules(because fault: String) {
        log("reload_failed", "detail=\(quoted(fault.utf8))")
    }

    mutating func applyReload(_ now: Instant) {
        guard let next = nextSettings, !isDraining else { return }
        if foreignSubscriptions.isAnythingAsked {
            if reloadDeadline == .never {
                reloadDeadline = now.advanced(byMilliseconds: BridgeLimits.reloadMilliseconds)
            }
            guard now >= reloadDeadline else { return }
            foreign.closed("no answer to a request, for which a reload waits", now: now)
            takeForeignEvents(now)
        }
        reloadDeadline = .never
        nextSettings = nil
        subscriptionIdentifier =
            subscriptionIdentifier % BridgeLimits.subscriptionIdentifierMaximum + 1
        let needsRestart = settings.keysForRestart(comparedTo: next)
        settings.rules = next.rules
        settings.totalsSeconds = next.totalsSeconds
        scheduleTotals(now)
        foreignSubscriptions.replace(rules.foreignWants, earlier: base.foreignFilters.keys)
        martletSubscriptions.replace(rules.martletWants, earlier: base.martletFilters.keys)
        let keys = needsRestart.isEmpty ? "" : " restart_for=\(needsRestart.joined(separator: ","))"
        log(
            "reloaded",
            "to_martlet=\(rules.inward.count) to_mqtt=\(rules.outward.count)\(keys)")
    }
}

extension BridgeSettings {
    /// The keys of the file that differ and that a running bridge does not change.
    fileprivate func keysForRestart(comparedTo next: BridgeSettings) -> [String] {
        let (old, new) = (foreign, next.foreign)
        let changes = [
            ("mqtt.server", old.server != new.server), ("mqtt.version", old.version != new.version),
            ("mqtt.clientId", old.clientIdentifier != new.clientIdentifier),
            ("mqtt.user", old.user != new.user), ("mqtt.password", old.password != new.password),
            ("mqtt.keepAliveSeconds", old.keepAliveSeconds != new.keepAliveSeconds),
            ("mqtt.sessionExpirySeconds", old.sessionExpirySeconds != new.sessionExpirySeconds),
            ("mqtt.inFlight", old.inFlightMaximum != new.inFlightMaximum),
            ("martlet.server", martlet.servers != next.martlet.servers),
            ("martlet.token", martlet.token != next.martlet.token),
            ("martlet.device", martlet.device != next.martlet.device),
            ("martlet.keepAliveSeconds", martlet.keepAliveSeconds != next.martlet.keepAliveSeconds),
            ("martlet.inFlight", martlet.inFlightMaximum != next.martlet.inFlightMaximum),
            ("stateFile", stateFile != next.stateFile),
            ("packetMaximumBytes", packetMaximum != next.packetMaximum),
        ]
        return changes.filter(\.1).map(\.0)
    }
}
