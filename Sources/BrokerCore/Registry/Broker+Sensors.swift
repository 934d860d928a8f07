// Sensors behind a gateway: sessions whose connections are channels of another's connection. They
// are sessions like all others; only what they may do follows from the gateway, and is looked at
// again when that changes. How channels are carried is the dialect's matter.

import BrokerTerms

extension Broker {
    /// Judges a gateway's word for a user. The user bears the gateway's rights, in which `%u` and
    /// `%d` stand for the user.
    mutating func authenticate(
        _ user: UnsafeRawBufferPointer, attachedBy gateway: ConnectionID
    ) throws(ConnectRefusal) -> Identity {
        guard let gatewaySession = session(of: gateway), allows(.attach(user: user), gatewaySession)
        else {
            throw ConnectRefusal(reason: .notAuthorized)
        }
        return Identity(
            app: registry.users[sessions[gatewaySession].user].app, user: Array(user),
            access: Access(
                source: .gateway(gateway), rights: live.accesses[access(of: gatewaySession)].rights,
                expiresUnixSeconds: .max))
    }

    /// Counts a sensor in or out at its gateway. One that is gone has no sensors any more.
    mutating func countSensor(of source: Access.Source, _ step: Int) {
        guard case .gateway(let gateway) = source, let gatewaySession = session(of: gateway)
        else { return }
        live.connectedSessions[connectedIndex(of: gatewaySession)].countSensors(step)
    }

    /// The rights of a gateway have changed, or those of any of them: its sensors bear the new
    /// ones, and those that it may not attach any more are detached.
    mutating func refreshSensors(of changed: ConnectionID?, in step: inout Step) {
        if let changed {
            guard let gatewaySession = session(of: changed),
                live.connectedSessions[connectedIndex(of: gatewaySession)].sensorCount > 0
            else { return }
        }
        workload.charge(live.accesses.count / CoreLimits.looksPerWork)
        for access in live.accesses.places where live.accesses.contains(access) {
            guard case .gateway(let gateway) = live.accesses[access].source,
                changed == nil || gateway == changed, let gatewaySession = session(of: gateway)
            else { continue }
            let sensor = session(of: access)
            let name = registry.users[sessions[sensor].user].name
            let isAllowed = name.withUnsafeBytes { allows(.attach(user: $0), gatewaySession) }
            guard isAllowed else {
                close(sensor, .notAuthorized, willFate: .removed, in: &step)
                continue
            }
            renewAuthority(of: sensor)
            let rights = live.accesses[self.access(of: gatewaySession)].rights
            guard live.change(rights, of: access) else { continue }
            dropForbiddenSubscriptions(sensor, in: &step)
        }
    }
}
