// Clients with several addresses, of which one is dead, one is a standby's and one the primary's.

import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(2 * Sanitizer.patience))) struct ServerListTests {
        /// A broker and what stands before it in a list.
        private struct Site {
            let broker: TestBroker
            let standby: AnsweringServer
            let stranger: AnsweringServer
            /// Where nobody listens.
            let dead: ReservedPort
            /// A dead server, the standby, and the broker.
            let servers: String

            /// - Parameter name: what the standby names; nil for the broker.
            init(naming name: ((AnsweringServer) -> String)? = nil) async throws {
                broker = try await TestBroker()
                stranger = try AnsweringServer([0])
                let named = name?(stranger) ?? "localhost:\(broker.plainPort)"
                let body = [0x9C, 0] + Array(named.utf8)
                standby = try AnsweringServer([0x20, UInt8(body.count)] + body)
                dead = try ReservedPort()
                servers =
                    "tcp://localhost:\(dead),tcp://localhost:\(standby.port),"
                    + "tcp://localhost:\(broker.plainPort)"
            }

            func client(_ user: String) throws -> Client {
                try Client(
                    ClientSettings(
                        servers: try ServerAddress.list(servers),
                        credential: .token(try broker.token(user))))
            }
        }

        @Test func `a client finds the broker behind a dead server and a standby`() async throws {
            let site = try await Site()
            let client = try site.client("alice")
            let terms = try await within(seconds: 20, "a connection") { try await client.connect() }
            #expect(terms.server.port == site.broker.plainPort)
            #expect(site.standby.clientCount == 1)
            await client.close()
        }

        @Test func `a client does not follow a standby to a server outside of its list`()
            async throws
        {
            let site = try await Site { "localhost:\($0.port)" }
            let client = try site.client("alice")
            let terms = try await within(seconds: 20, "a connection") { try await client.connect() }
            #expect(terms.server.port == site.broker.plainPort)
            #expect(site.standby.clientCount == 1 && site.stranger.clientCount == 0)
            await client.close()
        }

        @Test func `commands take several servers, and say what each has answered`() async throws {
            let site = try await Site()
            try site.broker.addUsers("bob")
            var environment = try site.broker.environment("alice")
            environment["MARTLET_DATA"] = nil
            environment["MARTLET_SERVER"] = site.servers
            let sent = try ChildProcess(
                "martlet", ["send", "--to", "bob", "hello"], environment: environment)
            #expect(try await sent.exit() == .code(0), "\(sent.text)")
            let two = site.servers.split(separator: ",").prefix(2).joined(separator: ",")
            let refused = try ChildProcess(
                "martlet", ["send", "--to", "bob", "hello", "--server", two],
                environment: environment)
            #expect(try await refused.exit() == .code(5))
            #expect(refused.text.contains("refused"), "\(refused.text)")
            #expect(
                refused.text.contains(
                    "tcp://localhost:\(site.standby.port): use-another-server (0x9C), "
                        + "localhost:\(site.broker.plainPort)"), "\(refused.text)")
            let mixed = try ChildProcess(
                "martlet", ["listen", "--server", "tls://a,tcp://b"], environment: environment)
            #expect(try await mixed.exit() == .code(1))
        }

        @Test func `a gateway finds the broker`() async throws {
            let site = try await Site()
            let gateway = try ChildProcess(
                "martlet-gateway",
                ["--server", site.servers, "--line", "plant7-1=tcp://127.0.0.1:1"],
                environment: ["MARTLET_TOKEN": try site.broker.token("gate")])
            defer { gateway.signal(SIGKILL) }
            let standby = try await gateway.line(with: "event=broker_refused")
            #expect(
                standby.contains(
                    "server=tcp://localhost:\(site.standby.port) reason=use-another-server "
                        + "code=156 named=\"localhost:\(site.broker.plainPort)\""))
            let line = try await gateway.line(with: "event=broker_connected")
            #expect(line.contains("server=tcp://localhost:\(site.broker.plainPort)"))
        }

        @Test func `a bridge finds the broker`() async throws {
            let site = try await Site()
            let mosquitto = try await Mosquitto()
            let servers = site.servers.split(separator: ",").map { "\"\($0)\"" }
            let bridge = try await TestBridge(
                site.broker, port: mosquitto.port,
                martlet: "server: [\(servers.joined(separator: ", "))],",
                rules: #"toMqtt: [{ from: { inbox: "*" }, to: "martlet/{from}" }],"#)
            let line = try await bridge.process!.line(with: "event=martlet_connected")
            #expect(line.contains("server=tcp://localhost:\(site.broker.plainPort)"))
            let lost = try await bridge.process!.line(
                with: "event=martlet_lost", "server=tcp://localhost:\(site.standby.port)")
            #expect(lost.contains("use-another-server, localhost:\(site.broker.plainPort)"))
        }
    }
}
