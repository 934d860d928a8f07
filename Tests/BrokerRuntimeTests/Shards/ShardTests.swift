// A broker with several shards: each app has one core and one store, and nothing else changes for
// its clients and operators.

import Administration
import BrokerCore
import BrokerTerms
import Configuration
import Foundation
import Primitives
import QueueStore
import TestSurroundings
import Testing
import WireFormat

@testable import BrokerRuntime

@Suite("The shards of a broker")
struct ShardTests {
    private static let north = ShardSettings(name: "north", apps: ["plant", "home"])
    private static let south = ShardSettings(name: "south", apps: ["shop"])

    private func broker(
        loops: Int = 1, _ change: (inout BrokerSettings) -> Void = { _ in }
    ) throws -> RunningBroker {
        try RunningBroker {
            $0.shards = [Self.north, Self.south]
            $0.loops = loops
            change(&$0)
        }
    }

    private func connect(_ broker: RunningBroker, _ token: String) throws -> Peer {
        let peer = try Peer(port: broker.port)
        #expect(peer.login(token: token, device: "d1") == .connected)
        return peer
    }

    /// Logs a device in whose queue waits for ten minutes.
    private func log(_ peer: Peer, in token: String) -> ReasonCode? {
        peer.login(token: token, device: "d1", sessionExpirySeconds: 600)
    }

    private func counter(
        _ name: String, of shard: String, _ broker: RunningBroker
    ) throws -> UInt64 {
        let reply = try broker.administrator().send(ReadStatistics())
        let found = try #require(reply.shards?.first { $0.name == shard })
        return try #require(found.counters.first { $0.name == name }).value
    }

    @Test(arguments: [1, 2]) func `users of the same name meet only those of their app`(
        loops: Int
    ) throws {
        let broker = try broker(loops: loops)
        let apps = ["demo", "plant", "home", "shop"]
        var peers: [(alice: Peer, bob: Peer)] = []
        for app in apps {
            try broker.makeApp(app)
            let tokens = try broker.makeTokens("alice", "bob", app: app)
            peers.append((try connect(broker, tokens[0]), try connect(broker, tokens[1])))
        }
        for (app, peer) in zip(apps, peers) {
            #expect(peer.bob.subscribe("lights") == .success)
            #expect(peer.alice.send("to bob of \(app)", to: "bob") == .sent)
            #expect(peer.alice.publish("on \(app)", on: "lights") == .sent)
        }
        for (app, peer) in zip(apps, peers) {
            #expect(peer.bob.delivery() == "to bob of \(app)")
            #expect(peer.bob.delivery() == "on \(app)")
        }
        for (shard, count) in [("default", 2), ("north", 4), ("south", 2)] as [(String, UInt64)] {
            #expect(try counter("messages/received", of: shard, broker) == count)
            #expect(try counter("clients/connected", of: shard, broker) == count)
        }
        let sums = try broker.administrator().send(ReadStatistics()).counters
        #expect(sums.first { $0.name == "messages/received" }?.value == 8)
    }

    @Test func `a key of an app and a web token find the shard of their app`() throws {
        let secret = String(repeating: "s", count: 32)
        let authority = TestAuthority()
        authority.write(secret, to: "k1.secret")
        let broker = try broker {
            $0.jwt.allowHS256 = true
            $0.jwt.keys = [
                WebTokenKeySettings(
                    app: "plant", kid: "k1", algorithm: .hs256, file: authority.file("k1.secret"))
            ]
        }
        let key = try broker.makeApp("plant")
        let webToken = makeWebToken(
            [
                "iss": "plant", "sub": "alice", "exp": Int(Date().timeIntervalSince1970) + 600,
            ], secret: secret)
        let alice = try connect(broker, webToken)
        var source = Source()
        var packet = MRT.Connect()
        packet.inboxWindow = 64
        packet.credential = .appKey(
            app: source.add("plant"), key: source.add(key), user: source.add("backend"))
        let backend = try Peer(port: broker.port)
        backend.write(packet, source.bytes)
        #expect(backend.read(.connack)?.body[0] == ReasonCode.connected.rawValue)
        #expect(backend.send("hello", to: "alice") == .sent)
        #expect(alice.delivery() == "hello")
        #expect(try counter("clients/connected", of: "north", broker) == 2)
    }

    @Test func `a token that no shard knows is refused, and one of another app does not renew`()
        throws
    {
        let broker = try broker()
        try broker.makeApp("demo")
        try broker.makeApp("plant")
        let tokens = (
            try broker.makeTokens("alice", app: "demo")[0],
            try broker.makeTokens("alice", app: "plant")[0]
        )
        let alice = try connect(broker, tokens.1)
        #expect(alice.rotate(to: tokens.0) != .success)
        _ = try broker.administrator().send(
            RevokeTokens(TokenSelection(app: "plant", user: "alice")))
        let stranger = try Peer(port: broker.port)
        let reason = stranger.login(token: tokens.1)
        #expect(reason == .badUserNameOrPassword || reason == .notAuthorized)
        #expect(try counter("connects/refused", of: "default", broker) == 1)
    }

    @Test func `what an app has is there after a restart, each in its store`() throws {
        let broker = try broker()
        var tokens: [String] = []
        for app in ["demo", "plant", "shop"] {
            try broker.makeApp(app)
            let made = try broker.makeTokens("alice", "bob", app: app)
            tokens.append(made[1])
            let bob = try Peer(port: broker.port)
            #expect(log(bob, in: made[1]) == .connected)
            bob.close()
            let alice = try connect(broker, made[0])
            #expect(alice.send("kept in \(app)", to: "bob") == .sent)
        }
        let data = broker.settings.dataDirectory
        for path in ["data.mdb", "shards/north/data.mdb", "shards/south/data.mdb"] {
            #expect(FileManager.default.fileExists(atPath: "\(data)/\(path)"))
        }
        try broker.restart()
        for (app, token) in zip(["demo", "plant", "shop"], tokens) {
            let bob = try Peer(port: broker.port)
            #expect(log(bob, in: token) == .connected)
            #expect(bob.delivery() == "kept in \(app)")
        }
        let apps = try broker.administrator().send(ListApps()).apps
        #expect(apps.map(\.app) == ["demo", "plant", "shop"])
        #expect(apps.allSatisfy { $0.userCount == 2 && $0.tokenCount == 2 })
    }

    @Test func `each store has a clock of its own`() throws {
        let broker = try broker()
        var tokens: [String: [String]] = [:]
        for app in ["demo", "plant"] {
            try broker.makeApp(app)
            tokens[app] = try broker.makeTokens("alice", "bob", app: app)
        }
        // The clock of the shard is ten days ahead.
        let days: UInt64 = 10 * 86_400_000
        try broker.restart(between: {
            var store = try LMDBQueueStore(
                directory: "\(broker.settings.dataDirectory)/shards/north",
                options: StoreOptions(broker.settings))
            var batch = StoreBatch()
            batch.records = [RecordChange(table: .wills, key: [0xFF], value: nil)]
            batch.moment = BrokerClock(after: store.openingStamp, downtimeMaximumSeconds: 0)
                .moment()
            batch.moment.instant = batch.moment.instant.advanced(byMilliseconds: days)
            var result = StoreResult()
            try store.carryOut(batch, into: &result)
        })
        let ahead = broker.server.shards.cores[1].offsetMilliseconds
        #expect(ahead > Int64(days) - 60_000 && ahead < Int64(days) + 60_000)
        let client = try broker.administrator()
        for app in ["demo", "plant"] {
            let own = try #require(tokens[app])
            let bob = try Peer(port: broker.port)
            #expect(log(bob, in: own[1]) == .connected)
            let alice = try connect(broker, own[0])
            #expect(alice.send("live in \(app)", to: "bob") == .sent)
            #expect(bob.delivery() == "live in \(app)")
            bob.close()
            var seconds: UInt64?
            while seconds == nil {
                let sessions = try client.send(
                    ListSessions(SessionSelection(app: app, user: "bob")))
                seconds = sessions.sessions.first?.awaySeconds
            }
            #expect(seconds! < 60)
            #expect(alice.send("kept in \(app)", to: "bob") == .sent)
            let again = try Peer(port: broker.port)
            #expect(log(again, in: own[1]) == .connected)
            // It was not acknowledged.
            #expect(again.delivery() == "live in \(app)")
            #expect(again.delivery() == "kept in \(app)")
        }
    }

    @Test func `operators reach every app, and messages of several apps share a call`() throws {
        let broker = try broker()
        for app in ["demo", "plant", "shop"] { try broker.makeApp(app) }
        let client = try broker.administrator()
        var bobs: [Peer] = []
        for app in ["demo", "plant", "shop"] {
            _ = try client.send(AddUser(app: app, user: "alice"))
            bobs.append(try connect(broker, try broker.makeTokens("bob", app: app)[0]))
            let sent = try client.send(
                SendMessage(app: app, from: "alice", users: ["bob"], b: "to \(app)"))
            #expect(sent.receiverCount == 1)
            let group = try client.send(CreateGroup(app: app, owner: "alice", title: app))
            let shown = try client.send(ShowGroup(app: app, groupid: group.groupid))
            #expect(shown.title == app)
            let sessions = try client.send(ListSessions(SessionSelection(app: app))).sessions
            #expect(sessions.map(\.user) == ["bob"])
        }
        for (app, bob) in zip(["demo", "plant", "shop"], bobs) {
            #expect(bob.delivery() == "to \(app)")
        }
        #expect(throws: AdministrationError.self) {
            try client.send(CreateApp(app: "plant"))
        }
        // The loops count while somebody asks.
        _ = try client.send(ReadActivity())
        var active: Set<String> = []
        // What was sent in two seconds is told together: a slow disk spreads it over more.
        for attempt in 0..<40 where active.count < 3 {
            if attempt > 0 { poll(nil, 0, 250) }
            for bob in bobs { #expect(bob.send("to myself", to: "bob") == .sent) }
            active = Set(try client.send(ReadActivity()).senders.map(\.app))
        }
        #expect(active == ["demo", "plant", "shop"])
        _ = try client.send(DeleteApp(app: "shop", force: true))
        let listed = try client.send(ListApps())
        #expect(listed.apps.map(\.app) == ["demo", "plant"] && listed.missingShards == nil)
    }

    @Test func `an app in another shard's store prevents the start, and so does a lost shard`()
        throws
    {
        let broker = try broker()
        try broker.makeApp("plant")
        try broker.makeApp("demo")
        func refusal(_ shards: [ShardSettings]) -> String {
            var settings = broker.settings
            settings.shards = shards
            do {
                let server = try BrokerServer(
                    settings, version: "test", log: broker.log.writer,
                    fail: { preconditionFailure("\($0)") })
                server.stop()
                return "none"
            } catch {
                return "\(error)"
            }
        }
        try broker.restart(between: {
            #expect(
                refusal([ShardSettings(name: "north", apps: ["home"]), Self.south])
                    == "the app plant is in the store of the shard north, and \"shards\" has it in "
                    + "default: an app cannot be moved between shards yet, so name it in north "
                    + "again")
            #expect(
                refusal([Self.north, ShardSettings(name: "south", apps: ["demo"])])
                    == "the app demo is in the store of the shard default, and \"shards\" has it "
                    + "in south: an app cannot be moved between shards yet, so name it in default "
                    + "again")
            let lost = " has the store of a shard that the configuration does not name"
            #expect(refusal([Self.south]).contains("/shards/north" + lost))
            #expect(refusal([]).contains(lost))
            // What a refused start would have made would refuse the old configuration, too.
            let moved = ShardSettings(name: "west", apps: ["demo"])
            #expect(refusal([Self.north, Self.south, moved]).contains("has it in west"))
            let west = broker.settings.dataDirectory + "/shards/west"
            #expect(!FileManager.default.fileExists(atPath: west))
        })
        #expect(try broker.administrator().send(ListApps()).apps.map(\.app) == ["demo", "plant"])
    }

    @Test func `a backup has every store, and is restored as a whole or not at all`() throws {
        let broker = try broker()
        for app in ["demo", "plant"] { try broker.makeApp(app) }
        let tokens = try broker.makeTokens("alice", app: "plant")
        let backup = "\(broker.directory)/backup"
        let client = try broker.administrator()
        _ = try client.send(BackUpStore(directory: backup))
        var status = try #require(try client.send(ShowBackup()).backup)
        while !status.isFinished { status = try #require(try client.send(ShowBackup()).backup) }
        #expect(status.failure == nil && status.byteCount > 0)
        #expect(status.totalByteCount >= 3 * status.byteCount / 2)
        var settings = broker.settings
        settings.dataDirectory = "\(broker.directory)/restored"
        settings.shards = [Self.north]
        #expect(
            fault { try StoreRestoration.run(settings, from: backup) }
                == "\(backup)/shards/south has the store of a shard that \"shards\" does not "
                + "name: restore with the configuration of the time of the backup")
        settings.shards = []
        #expect(
            fault { try StoreRestoration.run(settings, from: backup) }?.hasSuffix(
                "give the configuration of the time of the backup (--config FILE)") == true)
        settings.shards = [Self.north, Self.south, ShardSettings(name: "west", apps: ["w"])]
        #expect(
            fault { try StoreRestoration.run(settings, from: backup) }
                == "\(backup)/shards/west has no store, and \"shards\" has the shard west: "
                + "restore with the configuration of the time of the backup")
        settings.shards = [ShardSettings(name: "north", apps: ["home"]), Self.south]
        #expect(
            fault { try StoreRestoration.run(settings, from: backup) }?.contains(
                "the app plant is in the store of the shard north") == true)
        #expect(!FileManager.default.fileExists(atPath: settings.dataDirectory))
        settings.shards = [Self.north, Self.south]
        #expect(try StoreRestoration.run(settings, from: backup) == [])
        let report = try StoreVerification.run(settings)
        #expect(report.isSound)
        for name in ["default", "north", "south"] {
            #expect(report.text.contains("shard \(name):\n"))
        }
        try broker.restart { $0.dataDirectory = settings.dataDirectory }
        _ = try connect(broker, tokens[0])
    }

    /// The words of the refusal; nil for none.
    private func fault(_ body: () throws -> some Any) -> String? {
        do {
            _ = try body()
            return nil
        } catch {
            return "\(error)"
        }
    }

    @Test func `a shard whose disk is not mounted does not start empty`() throws {
        let broker = try broker()
        try broker.makeApp("plant")
        let store = broker.settings.dataDirectory + "/shards/north"
        try broker.restart(between: {
            let away = broker.directory + "/away"
            try FileManager.default.moveItem(atPath: store, toPath: away)
            let words =
                "\(store) has no store, and had one at the last start: mount its disk or restore a "
                + "backup; or, if its apps are lost, remove the line north from "
                + "\(broker.settings.dataDirectory)/shards/opened"
            #expect(fault { try ConfigurationCheck.run(broker.settings) } == words)
            #expect(fault { try StoreVerification.run(broker.settings) } == words)
            #expect(
                fault {
                    try BrokerServer(
                        broker.settings, version: "test", log: broker.log.writer,
                        fail: { preconditionFailure("\($0)") })
                } == words)
            try FileManager.default.createSymbolicLink(
                atPath: store, withDestinationPath: "/nowhere/north")
            #expect(
                fault { try ConfigurationCheck.run(broker.settings) }
                    == "\(store) is a link to a directory that is not there: mount it")
            try FileManager.default.removeItem(atPath: store)
            try FileManager.default.createSymbolicLink(atPath: store, withDestinationPath: away)
            #expect(fault { try ConfigurationCheck.run(broker.settings) } == nil)
        })
        #expect(try broker.administrator().send(ListApps()).apps.map(\.app) == ["plant"])
    }

    @Test func `shards with which the next start would be refused are no configuration`() throws {
        let broker = try broker()
        try broker.makeApp("plant")
        let apps = try broker.administrator().send(ListApps()).apps
        #expect(apps.map(\.shard) == ["north"])
        func loaded(_ shards: String) throws -> LoadedConfiguration {
            let text =
                "{listeners: ['tcp://127.0.0.1:0'], dataDirectory: "
                + "'\(broker.settings.dataDirectory)', shards: \(shards)}"
            return try LoadedConfiguration(text: Array(text.utf8), path: "m.json5")
        }
        let south = "{name: 'south', apps: ['shop']}"
        let north = "{name: 'north', apps: ['plant']}"
        let start = try loaded("[\(north), \(south)]")
        let outcome = broker.server.reload(try loaded("[\(south)]"), startedWith: start)
        guard case .refused(let words) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(words.contains("the app plant is in the store of the shard north"))
        let further = try loaded("[\(north), \(south), {name: 'west', apps: ['mill']}]")
        guard case .applied(_, let waiting, _) = broker.server.reload(further, startedWith: start)
        else {
            Issue.record("a new shard is refused")
            return
        }
        #expect(waiting == ["shards"])
    }

    @Test func `a backup does not go among the stores of the shards`() throws {
        let broker = try broker()
        let directory = broker.settings.dataDirectory + "/shards/backup"
        let refusal = fault {
            try broker.administrator().send(BackUpStore(directory: directory))
        }
        #expect(refusal?.contains("is among the stores of the shards") == true)
        #expect(!FileManager.default.fileExists(atPath: directory))
    }

    @Test func `a store that cannot be read prevents the repair of the others`() throws {
        let broker = try broker()
        try broker.makeApp("demo")
        let tokens = try broker.makeTokens("alice", "bob")
        let bob = try Peer(port: broker.port)
        #expect(log(bob, in: tokens[1]) == .connected)
        bob.close()
        #expect(try connect(broker, tokens[0]).send("this message is damaged", to: "bob") == .sent)
        try broker.restart(between: {
            let file = broker.settings.dataDirectory + "/data.mdb"
            var bytes = try Data(contentsOf: URL(filePath: file))
            let place = try #require(bytes.range(of: Data("message is damaged".utf8)))
            bytes[place.lowerBound] ^= 1
            try bytes.write(to: URL(filePath: file))
            // Another program has it.
            let lock = open(
                broker.settings.dataDirectory + "/shards/north/martlet.lock", O_RDWR | O_CLOEXEC)
            #expect(flock(lock, LOCK_EX | LOCK_NB) == 0)
            let blind = try StoreVerification.run(broker.settings, .repair)
            #expect(!blind.isSound)
            #expect(blind.text.contains("shard default:\nmessage "))
            #expect(blind.text.contains("--repair would make"))
            #expect(blind.text.contains("shards/north is in use by process"), "\(blind.text)")
            #expect(try Data(contentsOf: URL(filePath: file)) == bytes)
            #expect(close(lock) == 0)
            #expect(try StoreVerification.run(broker.settings, .repair).isSound)
            #expect(try Data(contentsOf: URL(filePath: file)) != bytes)
        })
    }

    @Test func `a store that is full refuses the messages of its shard only`() throws {
        let broker = try broker {
            $0.store.softLimitBytes = 8 << 20
            $0.queues.bytes = 64 << 20
            $0.queues.messages = 100_000
            $0.limits.messageMaximum = 65_535
        }
        var peers: [String: Peer] = [:]
        for app in ["demo", "plant"] {
            try broker.makeApp(app)
            let tokens = try broker.makeTokens("alice", "bob", app: app)
            let bob = try Peer(port: broker.port)
            #expect(log(bob, in: tokens[1]) == .connected)
            bob.close()
            peers[app] = try connect(broker, tokens[0])
        }
        let text = String(repeating: "x", count: 30_000)
        var reason = ReasonCode.sent
        var count = 0
        let token = try broker.makeTokens("alice", app: "plant")[0]
        while reason == .sent, count < 50 {
            // As many as may be without a confirmation.
            let alice = try Peer(port: broker.port)
            #expect(alice.login(token: token, device: "sender-\(count)") == .connected)
            for _ in 0..<64 where reason == .sent {
                reason = try #require(alice.send(text, to: "bob"))
            }
            count += 1
        }
        #expect(reason == .quotaExceeded)
        #expect(peers["demo"]?.send("there is room", to: "bob") == .sent)
        #expect(try counter("store/full", of: "north", broker) == 1)
        #expect(try counter("store/full", of: "default", broker) == 0)
    }
}
