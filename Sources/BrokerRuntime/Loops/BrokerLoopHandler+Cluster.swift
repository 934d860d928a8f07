// The effects of the cores of a cluster's node in one event loop: each waits for the lease of its
// own shard, and those of a shard that another node serves tell clients where it is.

import BrokerCore
import BrokerTerms
import Dialects
import NetTransport
import Primitives

extension BrokerLoopHandler {
    /// Carries out the effects of a core: in a cluster, those that may leave.
    mutating func carryOut(
        of core: SharedBroker, _ gated: GatedLoop, _ loop: inout some BrokerLoop & ~Copyable
    ) {
        guard isGated else { return carryOutAll(of: core, &loop) }
        if gated.isOfStandby {
            if gated.hasForgotten { closeConnections(of: core, gated, &loop) }
            gated.hasForgotten = false
            gated.hasClosed = false
            // What filled the loop was dropped.
            if gated.tellFull() { for handle in shared.loopHandles { handle.wake() } }
            return carryOutRefusals(of: core, &loop)
        }
        encoder.serverReference = []
        gated.add(&effects)
        while gated.takeFirst(into: &effects) { carryOutAll(of: core, &loop) }
        if gated.tellFull() { for handle in shared.loopHandles { handle.wake() } }
        if gated.isClosing != gated.hasClosed { closeAll(of: core, gated, &loop) }
    }

    /// Closes the connections of a shard that another node is to serve, when they have their last
    /// output.
    private mutating func closeAll(
        of core: SharedBroker, _ gated: GatedLoop, _ loop: inout some BrokerLoop & ~Copyable
    ) {
        guard gated.isClosing else {
            gated.hasClosed = false
            return
        }
        guard gated.isEmpty else { return }
        gated.hasClosed = true
        closeConnections(of: core, gated, &loop)
        core.enter { $0.closedLoopCount += 1 }
    }

    private mutating func closeConnections(
        of core: SharedBroker, _ gated: GatedLoop, _ loop: inout some BrokerLoop & ~Copyable
    ) {
        guard let others else { return }
        // What waits to be refused comes after it.
        var refusals = LoopEffects()
        swap(&refusals, &effects)
        defer { swap(&refusals, &effects) }
        let place = others.all.firstIndex { $0.gated === gated }.map { $0 + 1 } ?? 0
        for connection in others.connections(at: place, of: loopIndex)
        where decoder.conversations[connection] != nil {
            effects.effects.append(.close(connection, .useAnotherServer))
        }
        carryOutAll(of: core, &loop)
    }

    /// Tells clients of a shard whose core is empty where its primary is.
    mutating func carryOutRefusals(
        of core: SharedBroker, _ loop: inout some BrokerLoop & ~Copyable
    ) {
        guard !effects.isEmpty else { return }
        let primary = core.primaryAddresses.client
        encoder.serverReference = primary
        for effect in effects.effects.elements {
            guard case .refuse(let connection, let reason, _) = effect else { continue }
            connectionLog.takeRedirection(connection, reason)
            connectionLog.explain(
                connection,
                primary.isEmpty
                    ? "this node is a standby of the app's shard, and no primary is known"
                    : "this node is a standby of the app's shard; the primary is "
                        + String(decoding: primary, as: UTF8.self))
        }
        carryOutAll(of: core, &loop)
    }

    /// Ends a pass over all cores of a cluster's node.
    mutating func endCarryingOut(_ loop: inout some BrokerLoop & ~Copyable) {
        guard isGated else { return }
        answerHeldPings(in: &loop)
        holdInput(&loop)
    }

    /// What the effects for a connection wait in.
    func gate(of connection: ConnectionID) -> GatedLoop {
        others?.gate(of: connection, first: gated) ?? gated
    }

    /// Answers the pings of all protocols that came without a lease, as far as there is one now.
    mutating func answerHeldPings(in loop: inout some BrokerLoop & ~Copyable) {
        guard !decoder.heldPings.isEmpty || sockets.hasHeldPings || loop.hasHeldPings else {
            return
        }
        let (others, gated) = (others, gated)
        func mayEmit(_ connection: ConnectionID) -> Bool {
            (others?.gate(of: connection, first: gated) ?? gated).mayEmit
        }
        decoder.answerHeldPings(through: &loop, where: mayEmit)
        sockets.answerHeldPings(in: &loop, where: mayEmit)
        loop.answerHeldPings(where: mayEmit)
    }

    /// Reads no more from the connections of a core while too many of its effects wait for the
    /// lease of a cluster's node.
    mutating func holdInput(_ loop: inout some BrokerLoop & ~Copyable) {
        let before = fullCoreCount
        fullCoreCount = gated.holdsInput ? 1 : 0
        for shard in others?.all ?? [] where shard.gated.holdsInput { fullCoreCount += 1 }
        holdsInput = isDrained || fullCoreCount > 0
        // Those of a core that is still full are held again when they are read.
        guard fullCoreCount < before || fullCoreCount == 0, !held.isEmpty else { return }
        for connection in held { loop.resumeReading(connection, from: .handler) }
        held.removeAll()
    }
}
