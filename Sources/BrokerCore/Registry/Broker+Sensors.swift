// Sensors of a gateway: sessions whose connections are channels of the gateway's connection. They
// differ from other sessions in one point: their rights depend on the gateway, and are updated when
// the gateway's rights change. The dialect carries the channels.

import BrokerTerms

extension Broker {
    /// Authenticates a user that a gateway attaches. The user gets the gateway's rights, in which
    /// `%u` and `%d` stand for the user and its device.
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

    /// Changes the number of a gateway's sensors by `step`. Does nothing if the gateway has
    /// disconnected.
    mutating func countSensor(of source: Access.Source, _ step: Int) {
        guard case .gateway(let gateway) = source, let gatewaySession = session(of: gateway)
        else { return }
        live.connectedSessions[connectedIndex(of: gatewaySession)].countSensors(step)
    }

    /// Gives the sensors of a gateway, or of all gateways if `changed` is nil, the gateway's
    /// current rights. Detaches sensors that it may not attach any more.
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
