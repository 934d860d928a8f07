// Wake-ups with real programs: a device that sleeps, a relay, and the death of the broker.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct WakeTests {
        private func broker() async throws -> TestBroker {
            try await TestBroker(#"apps=[{app: "demo", wake: {relay: "push"}}]"#)
        }

        /// The next text for the relay.
        private func told(_ relay: Client) async throws -> String {
            while true {
                let message = try await relay.nextMessage()
                relay.acknowledge(message)
                if case .brokerEvent(let json) = message.kind { return json }
            }
        }

        @Test func `a relay is told who sleeps, removes a target, and is told the end`()
            async throws
        {
            let broker = try await broker()
            let relay = try await broker.client("push")
            let alice = try await broker.client("alice")
            let bob = try await broker.client("bob")
            let target = WakeTarget(kind: .udp, address: "127.0.0.1:7000", language: "de")
            let id = try await bob.setWakeTarget(target)
            let listed = try await bob.wakeTargets()
            #expect(listed.map(\.id) == [id] && listed.map(\.target) == [target])
            await bob.close()
            var message = OutgoingMessage(to: .user("bob"), text: "open")
            message.push = #"{"badge":1}"#
            _ = try await alice.send(message)
            let request = try await told(relay)
            #expect(
                request.hasPrefix(#"{"event":"WAKE_REQUEST","user":"bob","targets":[{"id":\#(id),"#)
            )
            #expect(request.contains(#""from":"alice","push":{"badge":1}"#))
            #expect(try await relay.wakeTargets(of: "bob").map(\.id) == [id])
            #expect(try await relay.removeWakeTarget(id, of: "bob"))
            #expect(try await told(relay).contains("WAKE_WITHDRAWN"))
            #expect(try await !relay.removeWakeTarget(id, of: "bob"))
        }

        @Test func `a request survives a kill, and the command line has targets`() async throws {
            let broker = try await broker()
            await (try await broker.client("push")).close()
            await (try await broker.client("bob")).close()
            func martlet(_ arguments: String..., isRefused: Bool = false) async throws -> String {
                let child = try ChildProcess(
                    "martlet",
                    ["wake"] + arguments + ["--data", broker.directory, "--app", "demo"])
                #expect(try await (child.exit() != .code(0)) == isRefused, "\(child.text)")
                return child.text
            }
            let none = try await martlet("test", "--user", "bob", isRefused: true)
            #expect(none.contains("no relay was told"), "\(none)")
            #expect(try await martlet("remove", "--user", "bob", "--id", "9").contains("no target"))
            let set = try await martlet(
                "set", "--user", "bob", "--kind", "sms-webhook", "--address", "+4930123456")
            #expect(set.contains("of bob is set"))
            #expect(try await martlet("list", "--user", "bob").contains("+4930123456"))
            let alice = try await broker.client("alice")
            _ = try await alice.send(OutgoingMessage(to: .user("bob"), text: "open"))
            await alice.close()
            try await broker.killNow()
            try await broker.start()
            let relay = try await broker.client("push")
            #expect(try await told(relay).contains(#""address":"+4930123456""#))
            #expect(try await martlet("test", "--user", "bob").contains("1 target"))
            #expect(try await told(relay).contains(#""test":true"#))
        }

        @Test func `targets without wake-ups are refused`() async throws {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            await #expect(throws: MartletError.self) {
                try await bob.setWakeTarget(WakeTarget(kind: .fcm, address: "token"))
            }
        }
    }
}
