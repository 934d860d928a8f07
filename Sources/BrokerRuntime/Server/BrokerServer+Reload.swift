// A running broker takes new settings and new files. Everything new is read and checked before
// anything old is let go: what is refused changes nothing, and no valid session is dropped.

import BrokerCore
import Configuration
import Credentials
import NetTransport
import Primitives

extension BrokerServer {
    /// Takes new settings. Keys that need a restart keep their values, and the log says which.
    ///
    /// - Parameters:
    ///   - old: what was read last; nil where that is what the broker was started with.
    ///   - start: what the broker was started with: keys that need a restart have its values.
    /// - Returns: false when nothing was changed because something new is not good.
    func reload(
        _ new: LoadedConfiguration, from old: LoadedConfiguration? = nil,
        startedWith start: LoadedConfiguration
    ) -> Bool {
        do throws(StartError) {
            try apply(Self.reloadable(new.settings, keeping: settings))
        } catch {
            refuse("\(error)")
            return false
        }
        let changed = new.settingsChanged(from: old ?? start)
        // A key that was changed and changed back is as the broker has it.
        let waiting = new.settingsChanged(from: start).filter { $0.reload == .restart }
        log.write(
            .info, .configurationReloaded,
            [
                "changed": .text(changed.map(\.key).joined(separator: " ")),
                "needs_restart": .text(waiting.map(\.key).joined(separator: " ")),
            ])
        return true
    }

    /// Says that nothing was changed, and why.
    func refuse(_ detail: String) {
        log.write(.error, .configurationRefused, ["detail": .text(detail)])
    }

    /// Takes certificates, keys and lists anew if one of their files is another than before.
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
            .info, .configurationReloaded, ["files": .text(changed.joined(separator: " "))])
    }

    /// What a running broker can take of new settings.
    private static func reloadable(
        _ new: BrokerSettings, keeping old: BrokerSettings
    ) -> BrokerSettings {
        var settings = new
        settings.dataDirectory = old.dataDirectory
        settings.listeners = old.listeners
        settings.loops = old.loops
        settings.store = old.store
        settings.limits.connections = old.limits.connections
        settings.limits.authenticationSeconds = old.limits.authenticationSeconds
        settings.limits.packetMaximum = old.limits.packetMaximum
        settings.limits.pendingLogins = old.limits.pendingLogins
        settings.limits.handshakes = old.limits.handshakes
        return settings
    }

    /// Checks everything, then changes everything.
    private func apply(_ new: BrokerSettings) throws(StartError) {
        let watched = FileWatch(new.files)
        let material = try TrustMaterial(new)
        try listenerSet.renewContexts(new, preSharedKeys: trust.preSharedKeys)
        trust.replace(with: material)
        settings = new
        files = watched
        log.change(level: new.log.level, format: new.log.format)
        rates.change(ClientRates.Values(new))
        census.change(maximumPerAddress: new.limits.connectionsPerAddress)
        let moment = clock.moment()
        let vouchers = material.vouchers
        let ended = shared.enter { state in
            state.broker.limits = CoreLimits(new)
            return state.broker.replaceTrust(vouchers, at: moment, effects: &state.effects)
        }
        if ended > 0 {
            log.write(.warning, .credentialsWithdrawn, ["connections": .number(ended)])
        }
        reportExpiry(at: moment)
    }

    // MARK: - What runs out

    /// Says once a day which certificates and revocation lists will soon be over, and renews the
    /// keys of session tickets that are old.
    func keepDaily() {
        let moment = clock.moment()
        guard moment.instant >= nextDailyRound else { return }
        nextDailyRound = moment.instant.advanced(bySeconds: 86_400)
        reportExpiry(at: moment)
        do throws(StartError) {
            try sealTickets()
        } catch {
            refuse("\(error)")
        }
    }

    private func reportExpiry(at moment: Moment) {
        let expiry = TrustExpiry(listenerSet, trust, at: moment)
        if let days = expiry.certificateDays, days <= Self.certificateWarningDays {
            log.write(
                .warning, .certificateExpires,
                ["what": "server certificate", "days": .number(days)])
        }
        if let days = expiry.revocationListDays, days <= Self.revocationListWarningDays {
            log.write(
                .warning, .certificateExpires, ["what": "revocation list", "days": .number(days)])
        }
    }

    /// Certificates of 90 days are renewed at 60: whoever has fewer than 30 left has a renewal that
    /// does not work.
    private static let certificateWarningDays: Int64 = 30
    /// Lists are published every few days or weeks; three days are a weekend to mend it.
    private static let revocationListWarningDays: Int64 = 3
}

extension BrokerSettings {
    /// All files whose content is taken anew when it changes.
    var files: Set<String> {
        let tls = [
            tls.certificateFile, tls.keyFile, tls.clientAuthorityFile, tls.crlFile, tls.pskFile,
        ]
        let own = listeners.flatMap { [$0.certificateFile, $0.keyFile] }
        return Set((tls + own).compactMap { $0 } + jwt.keys.map(\.file))
    }
}

/// Whole days that are left, for the log and the statistics; below 0 when it is over.
struct TrustExpiry {
    /// Of the server certificate that ends first; nil without TLS.
    let certificateDays: Int64?
    /// Of the revocation list that is over first; nil without one.
    let revocationListDays: Int64?

    init(_ listeners: ListenerSet, _ trust: ClientTrust, at moment: Moment) {
        let now = Int64(moment.unixMilliseconds / 1000)
        func days(_ end: Int64) -> Int64 { Int64((Double(end - now) / 86_400).rounded(.down)) }
        certificateDays = listeners.certificateExpiryUnixSeconds.map(days)
        revocationListDays = trust.revocationListExpiryUnixSeconds.map(days)
    }
}
