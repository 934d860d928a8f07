// Applies new settings and files to a running broker. All of them are read and checked before any
// is applied: a refused reload changes nothing, and no reload drops a valid session.

import BrokerCore
import Configuration
import Credentials
import NetTransport
import Primitives

extension BrokerServer {
    /// Applies new settings. Keys that need a restart keep their values; the log lists them.
    ///
    /// - Parameters:
    ///   - old: the configuration that was read last; nil if none was read since the start.
    ///   - start: the configuration at the start. Keys that need a restart have its values.
    /// - Returns: what came of it; if the new configuration is invalid, nothing was changed.
    func reload(
        _ new: LoadedConfiguration, from old: LoadedConfiguration? = nil,
        startedWith start: LoadedConfiguration
    ) -> ReloadOutcome {
        var watched = self.files
        let files = watched.takeChanges()
        do throws(StartError) {
            try checkApps(of: new.settings)
            try apply(Self.reloadable(new.settings, keeping: settings))
        } catch {
            refuse("\(error)")
            return .refused("\(error)")
        }
        log.change(level: settings.log.level, format: settings.log.format)
        let changed = new.settingsChanged(from: old ?? start)
        // A key that was changed and changed back needs no restart.
        let waiting = new.settingsChanged(from: start).filter { $0.reload == .restart }
        log.write(
            .info, .configurationReloaded,
            fields: [
                "changed": .text(changed.map(\.key).joined(separator: " ")),
                "needs_restart": .text(waiting.map(\.key).joined(separator: " ")),
                "files": .text(files.joined(separator: " ")),
            ])
        return .applied(
            changed: changed.map(\.key), needsRestart: waiting.map(\.key), files: files)
    }

    /// Refuses shards with which the next start would be refused.
    private func checkApps(of new: BrokerSettings) throws(StartError) {
        let map = ShardMap(new.shards)
        for (core, name) in zip(shards.cores, shards.map.names) {
            // A store that is closed is checked when it is opened.
            guard let apps = core.appNames else { continue }
            if let fault = ShardLayout.moved(apps, in: name, to: map) { throw .shards(fault) }
        }
    }

    /// Logs that the new configuration was refused, and why.
    func refuse(_ detail: String) {
        log.write(.error, .configurationRefused, fields: ["detail": .text(detail)])
    }

    /// Reads certificates, keys and lists again if one of their files has changed.
    func renewChangedFiles() {
        let changed = files.takeChanges()
        guard !changed.isEmpty else { return }
        do throws(StartError) {
            try apply(settings)
        } catch {
            refuse("\(error)")
            return
        }
        log.write(
            .info, .configurationReloaded, fields: ["files": .text(changed.joined(separator: " "))])
    }

    /// The new settings that a running broker can apply; the old ones for all other keys.
    private static func reloadable(
        _ new: BrokerSettings, keeping old: BrokerSettings
    ) -> BrokerSettings {
        var settings = new
        settings.dataDirectory = old.dataDirectory
        settings.listeners = old.listeners
        settings.shards = old.shards
        settings.loops = old.loops
        settings.store = old.store
        settings.limits.connections = old.limits.connections
        settings.limits.authenticationSeconds = old.limits.authenticationSeconds
        settings.limits.packetMaximum = old.limits.packetMaximum
        settings.limits.pendingLogins = old.limits.pendingLogins
        settings.limits.handshakes = old.limits.handshakes
        return settings
    }

    /// Checks all settings and files, then applies them.
    private func apply(_ new: BrokerSettings) throws(StartError) {
        let watched = FileWatch(new.watchedFiles)
        let material = try TrustMaterial(new)
        try listenerSet.renewContexts(new, preSharedKeys: trust.preSharedKeys)
        trust.replace(with: material)
        settings = new
        sharedSettings.withLock { $0 = new }
        files = watched
        rates.change(ClientRates.Values(new))
        listenerSet.web.change(new)
        web.interfaces.change(new)
        connectionLimiter.change(maximumPerAddress: new.limits.connectionsPerAddress)
        let moment = clock.moment()
        let vouchers = material.vouchers
        let ended = shards.cores.reduce(0) { sum, core in
            sum
                + core.enter { state in
                    state.broker.limits = CoreLimits(new)
                    return state.broker.replaceTrust(
                        vouchers, at: core.local(moment), effects: &state.effects)
                }
        }
        if ended > 0 {
            log.write(.warning, .credentialsWithdrawn, fields: ["connections": .number(ended)])
        }
        reportExpiry(at: moment)
        withoutEffect.report()
    }

    // MARK: - Expiry

    /// Once a day, logs which certificates and revocation lists expire soon, and renews old keys of
    /// session tickets.
    func keepDaily() {
        let moment = clock.moment()
        guard moment.instant >= nextDailyRound else { return }
        nextDailyRound = moment.instant.advanced(bySeconds: 86_400)
        reportExpiry(at: moment)
        do throws(StartError) {
            try loadTicketKeys()
        } catch {
            refuse("\(error)")
        }
    }

    private func reportExpiry(at moment: Moment) {
        let expiry = TrustExpiry(listeners: listenerSet, trust: trust, at: moment)
        if let days = expiry.certificateDays, days <= Self.certificateWarningDays {
            report("server certificate", expiresInDays: days, at: moment)
        }
        if let days = expiry.revocationListDays, days <= Self.revocationListWarningDays {
            report("revocation list", expiresInDays: days, at: moment)
        }
    }

    private func report(_ what: String, expiresInDays days: Int64, at moment: Moment) {
        let detail = days < 0 ? "it has expired" : ""
        log.write(
            .warning, .certificateExpires,
            fields: ["what": .text(what), "days": .number(days), "detail": .text(detail)])
        for core in shards.cores {
            core.enter { state in
                state.broker.tellExpiringCertificate(
                    what, days: days, at: core.local(moment), effects: &state.effects)
            }
        }
    }

    /// Tells the apps that ask for it of the logins that were refused since the last call, which
    /// comes every few seconds: one event, whatever their number is.
    func tellRefusedLogins() {
        let found = log.refusals(after: toldRefusals, limit: RefusalRing.countMaximum)
        toldRefusals = found.last
        let refused = found.refusals.filter {
            $0.event == LogEventName.authenticationFailed.rawValue
        }
        guard let newest = refused.last else { return }
        let moment = clock.moment()
        for core in shards.cores {
            core.enter { state in
                state.broker.tellRefusedLogins(
                    UInt64(refused.count), newest: newest.user ?? "",
                    address: newest.address ?? "", code: newest.code ?? 0,
                    at: core.local(moment), effects: &state.effects)
            }
        }
    }

    /// Certificates of 90 days are usually renewed after 60 days. Fewer than 30 days left mean that
    /// the renewal failed.
    private static let certificateWarningDays: Int64 = 30
    /// Revocation lists are published every few days or weeks. Three days leave a weekend to fix
    /// the publication.
    private static let revocationListWarningDays: Int64 = 3
}

extension BrokerSettings {
    /// All files that are read again when they change.
    var watchedFiles: Set<String> {
        let tls = [
            tls.certificateFile, tls.keyFile, tls.clientAuthorityFile, tls.crlFile, tls.pskFile,
        ]
        let own = listeners.flatMap { [$0.certificateFile, $0.keyFile] }
        return Set(
            (tls + own).compactMap { $0 } + jwt.keys.map(\.file) + jwt.issuers.map(\.file))
    }
}

/// Whole days until expiry, for the log and the statistics; negative after expiry.
struct TrustExpiry {
    /// For the server certificate that expires first; nil without TLS.
    let certificateDays: Int64?
    /// For the revocation list that expires first; nil without one.
    let revocationListDays: Int64?
}

extension TrustExpiry {
    init(listeners: ListenerSet, trust: ClientTrust, at moment: Moment) {
        let now = Int64(moment.unixSeconds)
        func days(_ end: Int64) -> Int64 { Int64((Double(end - now) / 86_400).rounded(.down)) }
        certificateDays = listeners.certificateExpiryUnixSeconds.map(days)
        revocationListDays = trust.revocationListExpiryUnixSeconds.map(days)
    }
}
