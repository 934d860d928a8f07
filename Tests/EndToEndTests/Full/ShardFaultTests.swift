// Two apps in two shards of one broker: a kill loses nothing of either, and a full disk of one does
// not stop the other.

import Administration
import Foundation
import MartletClient
import TestSurroundings
import Testing

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(4 * Sanitizer.patience))) struct ShardFaultTests {
        private static let shards = #"shards=[{name: "north", apps: ["plant"]}]"#

        @Test func `a killed broker has what both shards confirmed`() async throws {
            let broker = try await TestBroker(Self.shards)
            try broker.makeApp("plant")
            let apps = ["demo", "plant"]
            var bobs: [ClientSettings] = []
            for app in apps {
                let bob = try broker.settings("bob", app: app)
                try await connected(Client(bob)).close()
                bobs.append(bob)
            }
            for round in 1...3 {
                for app in apps {
                    let alice = try await connected(Client(broker.settings("alice", app: app)))
                    for number in 1...20 {
                        try await alice.send(
                            OutgoingMessage(to: .user("bob"), text: "\(app) \(round) \(number)"))
                    }
                    await alice.close()
                }
                try await broker.killNow()
                try await broker.start()
            }
            for (app, settings) in zip(apps, bobs) {
                let bob = try await connected(Client(settings))
                let texts = try await bob.nextTexts(60)
                #expect(
                    texts == (1...3).flatMap { round in (1...20).map { "\(app) \(round) \($0)" } })
                await bob.close()
            }
            try await broker.stop()
            let check = try ChildProcess(
                "martletd",
                ["--verify-store", "--data", broker.directory, "--set", Self.shards])
            #expect(try await check.exit() == .code(0))
            #expect(check.text.contains("shard north:"))
            let blind = try ChildProcess(
                "martletd", ["--verify-store", "--data", broker.directory])
            #expect(try await blind.exit() == .code(1))
            #expect(blind.text.contains("a shard that the configuration does not name"))
        }

        @Test(.enabled(if: SmallDisk.canBeMounted, "mounting a small disk needs a privilege"))
        func `a full disk of one shard refuses its messages, and the other goes on`()
            async throws
        {
            let disk = try #require(SmallDisk(byteCount: 96 << 20))
            // The disk is full before the queue.
            let broker = try await TestBroker(
                Self.shards, "queues.bytes=\(1 << 30)", "limits.messageMaximum=65535")
            try broker.makeApp("plant")
            try await broker.stop()
            let store = "\(broker.directory)/shards/north"
            for file in try FileManager.default.contentsOfDirectory(atPath: store) {
                try FileManager.default.copyItem(
                    atPath: "\(store)/\(file)", toPath: "\(disk.path)/\(file)")
            }
            try FileManager.default.removeItem(atPath: store)
            try FileManager.default.createSymbolicLink(
                atPath: store, withDestinationPath: disk.path)
            try await broker.start()

            let bob = try broker.settings("bob", app: "plant")
            let carol = try broker.settings("carol", app: "demo")
            for settings in [bob, carol] { try await connected(Client(settings)).close() }
            let alice = try await connected(Client(broker.settings("alice", app: "plant")))
            let dave = try await connected(Client(broker.settings("dave", app: "demo")))
            let text = String(repeating: "m", count: 60_000)
            var sent = 0
            var reason: ReasonCode?
            while reason == nil, sent < 2_000 {
                reason = try await refusal(
                    OutgoingMessage(to: .user("bob"), text: text), alice)
                if reason == nil { sent += 1 }
            }
            #expect(reason == .quotaExceeded)
            #expect(sent > 10)
            _ = try await broker.process.line(
                with: "event=store_full", "state=full", "shard=north")
            for number in 1...50 {
                try await dave.send(OutgoingMessage(to: .user("carol"), text: "\(number)"))
            }
            try await broker.killNow()
            try await broker.start()
            let again = try await connected(Client(carol))
            let texts = try await again.nextTexts(50)
            #expect(texts == (1...50).map { "\($0)" })
            // What was confirmed before the disk was full is there, and makes room when it goes.
            let reader = try await connected(Client(bob))
            for _ in 1...sent { reader.acknowledge(try await reader.nextMessage()) }
            for client in [alice, dave, again, reader] { await client.close() }
            try await broker.stop()
        }

        /// Sends a message; the reason where it is refused. (In a loop of the test the compiler
        /// 6.3.1 crashes.)
        private func refusal(
            _ message: OutgoingMessage, _ client: Client
        ) async throws -> ReasonCode? {
            do {
                try await client.send(message)
            } catch MartletError.refused(let reason, _) {
                return reason
            }
            return nil
        }
    }
}

extension TestBroker {
    fileprivate func makeApp(_ app: String) throws {
        _ = try AdministrationClient(dataDirectory: directory).send(CreateApp(app: app))
    }

    /// The settings of a client over TLS, with a new token of a user of an app.
    fileprivate func settings(_ user: String, app: String) throws -> ClientSettings {
        let client = try AdministrationClient(dataDirectory: directory)
        let token = try client.send(MintTokens(app: app, users: [user])).tokens[0].token
        var settings = ClientSettings(
            server: ServerAddress(host: "localhost", port: tlsPort), credential: .token(token))
        settings.trust = .authorityFile(authority)
        settings.device = "d1"
        return settings
    }
}
