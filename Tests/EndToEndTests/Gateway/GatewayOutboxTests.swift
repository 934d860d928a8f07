// A full gateway: the broker stalls, or the devices do not read. Then it is killed, or cut from the
// broker. It acknowledges nothing, so nothing may be lost.

import Foundation
import MartletClient
import TestSurroundings
import Testing
import class Threads.Locked

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct GatewayOutboxTests {
        private enum Trouble: CaseIterable {
            case killed, cut
        }

        private static let names = (0..<16).map { "plant7-\($0)" }
        /// Messages of each device in a step: more than its outbox holds.
        private static let messageCount = 160
        private static let commandCount = 12

        private func gateway(
            _ fleet: LineFleet, _ wire: Wire, _ broker: TestBroker
        ) async throws -> ChildProcess {
            let child = try ChildProcess(
                "martlet-gateway", fleet.options,
                environment: [
                    "MARTLET_SERVER": "tls://localhost:\(wire.port)",
                    "MARTLET_CA": broker.authority,
                    "MARTLET_TOKEN": try broker.token(
                        "gate", rights: ["attach:plant7-*", "send:*"]),
                ])
            _ = try await child.line(with: "event=broker_connected")
            return child
        }

        @Test(.needsPseudoTerminals)
        func `a full gateway loses and duplicates nothing when it is killed or cut`()
            async throws
        {
            let broker = try await TestBroker("limits.sendWindow=128")
            let bob = try await broker.client("bob")
            let inbox = Inbox()
            let filling = Task { await inbox.fill(from: bob) }
            defer { filling.cancel() }
            let wire = try Wire(to: broker.tlsPort, isNarrow: true)
            let fleet = try LineFleet(Self.names, isTerminal: true, outboxByteCount: 120_000)
            defer { fleet.end() }
            var gateway = try await gateway(fleet, wire, broker)
            defer { gateway.signal(SIGKILL) }
            try await fleet.wait("all devices") { $0.connected == Self.names.count }
            var (sent, commands) = (0, 0)
            for trouble in Trouble.allCases {
                // Towards the broker: it stands still, until devices cannot write any more.
                broker.process.signal(SIGSTOP)
                fleet.send(Self.messageCount)
                sent += Self.messageCount
                try await fleet.wait("a gateway that is full") {
                    $0.outboxFull == Self.names.count && $0.heldBack > Self.names.count / 2
                }
                try await interrupt(trouble, &gateway, wire)
                broker.process.signal(SIGCONT)
                if trouble == .killed {
                    gateway = try await self.gateway(fleet, wire, broker)
                }
                let sum = sent * Self.names.count
                try await fleet.wait("results") { $0.resolved == sum }
                // Towards the devices: none reads, until the gateway holds what is for them.
                fleet.setDeaf(true)
                for number in commands..<commands + Self.commandCount {
                    for name in Self.names {
                        let text = LineFleet.text("command", number)
                        bob.send(OutgoingMessage(to: .user(name), text: text, grade: .once)) {
                            if case .failure(let error) = $0 { Issue.record("\(error)") }
                        }
                    }
                }
                commands += Self.commandCount
                poll(nil, 0, 500)
                try await interrupt(trouble, &gateway, wire)
                if trouble == .killed {
                    gateway = try await self.gateway(fleet, wire, broker)
                }
                fleet.setDeaf(false)
                let wanted = commands
                try await fleet.wait("commands") { report in
                    report.received.values.allSatisfy { $0.count >= wanted }
                }
            }
            let wanted = sent
            try await inbox.wait { $0.count >= wanted * Self.names.count }
            let report = await fleet.report()
            #expect(report.refusals == [])
            for name in Self.names {
                #expect(
                    inbox.all.beginning(with: "\(name) ")
                        == (0..<sent).map { LineFleet.text(name, $0) })
                #expect(
                    report.received[name] == (0..<commands).map { LineFleet.text("command", $0) })
            }
        }

        private func interrupt(
            _ trouble: Trouble, _ gateway: inout ChildProcess, _ wire: Wire
        ) async throws {
            let count = gateway.lines.count
            switch trouble {
            case .killed:
                gateway.signal(SIGKILL)
                _ = try await gateway.exit()
            case .cut:
                wire.cut()
                _ = try await gateway.line(with: "event=broker_lost", from: count)
            }
        }
    }
}
