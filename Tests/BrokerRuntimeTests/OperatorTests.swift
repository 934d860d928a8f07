// An operator's requests to a running broker: tokens, sessions, queues, backups.
import Administration
import Foundation
import Testing

@testable import BrokerRuntime

@Suite struct TokenAdministrationTests {
    private let broker: RunningBroker

    init() throws {
        broker = try RunningBroker()
        try broker.makeApp()
    }

    private func mint(
        _ users: String..., device: String? = nil, batch: String? = nil
    ) throws -> [MintTokens.Token] {
        try broker.administrator().send(
            MintTokens(app: "demo", users: users, device: device, batch: batch)
        ).tokens
    }

    private func list(_ selection: TokenSelection) throws -> [ListTokens.Token] {
        try broker.administrator().send(ListTokens(selection)).tokens
    }

    private func revoke(_ selection: TokenSelection) throws -> RevokeTokens.Reply {
        try broker.administrator().send(RevokeTokens(selection))
    }

    @Test func `tokens are listed by their attributes, without their secrets`() throws {
        let lot = try mint("a", "b", batch: "lot-1")
        _ = try mint("c", device: "d1")
        #expect(try list(TokenSelection(app: "demo")).count == 3)
        let listed = try list(TokenSelection(app: "demo", batch: "lot-1"))
        #expect(Set(listed.map(\.id)) == Set(lot.map(\.id)))
        #expect(listed.map(\.id) == listed.map(\.id).sorted())
        #expect(listed.allSatisfy { $0.lastUsedUnixSeconds == nil && $0.expiresUnixSeconds == nil })
        #expect(try list(TokenSelection(app: "demo", device: "d1")).map(\.user) == ["c"])
        #expect(try list(TokenSelection(app: "demo", user: "a")).count == 1)
        #expect(try list(TokenSelection(app: "demo", batch: "lot-2")).isEmpty)
    }

    @Test func `a list continues after the previous page`() throws {
        let users = (0..<ListTokens.countMaximum + 5).map { "u\($0)" }
        _ = try broker.administrator().send(MintTokens(app: "demo", users: users))
        let first = try list(TokenSelection(app: "demo"))
        #expect(first.count == ListTokens.countMaximum)
        let rest = try broker.administrator().send(
            ListTokens(TokenSelection(app: "demo"), after: first.last?.id)
        ).tokens
        #expect(rest.count == 5)
        #expect(Set((first + rest).map(\.id)).count == users.count)
    }

    @Test func `a large batch is revoked in parts`() throws {
        let users = (0..<5_000).map { "u\($0)" }
        _ = try broker.administrator().send(
            MintTokens(app: "demo", users: users, batch: "lot-1"))
        let selection = TokenSelection(app: "demo", batch: "lot-1")
        let first = try revoke(selection)
        #expect((RevokeTokens.countMaximum..<5_000).contains(first.tokenCount))
        var (count, next) = (first.tokenCount, first.next)
        while let place = next {
            let part = try broker.administrator().send(RevokeTokens(selection, after: place))
            #expect(part.tokenCount > 0)
            (count, next) = (count + part.tokenCount, part.next)
        }
        #expect(count == 5_000)
        #expect(try list(selection).isEmpty)
    }

    @Test func `the time of a login is stored with the token, also over a restart`() throws {
        let token = try mint("alice")[0]
        let peer = try Peer(port: broker.port)
        let start = UInt64(Date().timeIntervalSince1970)
        #expect(peer.login(token: token.token) == .connected)
        peer.close()
        let used = try list(TokenSelection(app: "demo"))[0].lastUsedUnixSeconds
        let now = UInt64(Date().timeIntervalSince1970)
        #expect((start - 1...now + 1).contains(try #require(used)))
        // It rides along with the next commit.
        _ = try mint("bob")
        try broker.restart()
        #expect(try list(TokenSelection(app: "demo", user: "alice"))[0].lastUsedUnixSeconds == used)
    }

    @Test func `a revoked token ends its connection at once and allows no login`() throws {
        let tokens = try mint("alice", "bob", batch: "lot-1")
        let (alice, bob) = (try Peer(port: broker.port), try Peer(port: broker.port))
        #expect(alice.login(token: tokens[0].token) == .connected)
        #expect(bob.login(token: tokens[1].token) == .connected)
        let reply = try revoke(TokenSelection(app: "demo", id: tokens[0].id))
        #expect(reply == RevokeTokens.Reply(tokenCount: 1, connectionCount: 1))
        #expect(alice.farewell() == .notAuthorized)
        #expect(bob.presence("alice") == .success)
        #expect(try Peer(port: broker.port).login(token: tokens[0].token) == .badUserNameOrPassword)
        #expect(try revoke(TokenSelection(app: "demo", batch: "lot-1")).connectionCount == 1)
        #expect(bob.farewell() == .notAuthorized)
        try broker.restart()
        #expect(try Peer(port: broker.port).login(token: tokens[1].token) == .badUserNameOrPassword)
        #expect(try list(TokenSelection(app: "demo")).isEmpty)
    }

    @Test func `revoking all tokens of an app requires a selection`() throws {
        _ = try mint("alice")
        #expect(throws: AdministrationError.self) { try revoke(TokenSelection(app: "demo")) }
        #expect(try list(TokenSelection(app: "demo")).count == 1)
    }
}

@Suite struct SessionAdministrationTests {
    private let broker: RunningBroker
    private let tokens: [String]

    init() throws {
        broker = try RunningBroker()
        try broker.makeApp()
        tokens = try broker.makeTokens("alice", "bob")
    }

    private func login(_ index: Int, device: String = "d1") throws -> Peer {
        let peer = try Peer(port: broker.port)
        #expect(peer.login(token: tokens[index], device: device) == .connected)
        return peer
    }

    private func sessions(_ selection: SessionSelection) throws -> [ListSessions.Session] {
        try broker.administrator().send(ListSessions(selection)).sessions
    }

    private func leave(_ peer: Peer) throws {
        peer.close()
        _ = try #require(broker.log.line { $0.contains("event=client_disconnected") })
    }

    @Test func `sessions are listed with their connections and queues`() throws {
        let alice = try login(0)
        let bob = try login(1)
        #expect(bob.subscribe("a/#") == .success)
        try leave(bob)
        #expect(alice.send("hello", to: "bob") == .sent)
        let all = try sessions(SessionSelection(app: "demo"))
        #expect(all.count == 2)
        let connected = try sessions(SessionSelection(app: "demo", isConnected: true))
        #expect(connected.map(\.user) == ["alice"])
        #expect(connected[0].awaySeconds == nil)
        #expect(connected[0].connectedUnixMilliseconds ?? 0 > 0)
        let away = try #require(try sessions(SessionSelection(app: "demo", user: "bob")).first)
        #expect(away.queue.messageCount == 1)
        #expect(away.filters == ["a/#"])
        #expect((away.awaySeconds ?? .max) < 60)
        #expect(try sessions(SessionSelection(app: "demo", awaySeconds: 60)).isEmpty)
    }

    @Test func `a kicked client is told the reason, and may resume its session`() throws {
        let bob = try login(1)
        let reply = try broker.administrator().send(
            KickSessions(SessionSelection(app: "demo", user: "bob")))
        #expect(reply.sessionCount == 1)
        #expect(bob.farewell() == .administrativeAction)
        #expect(try sessions(SessionSelection(app: "demo", user: "bob")).count == 1)
        #expect(try Peer(port: broker.port).login(token: tokens[1], device: "d1") == .connected)
    }

    @Test func `a deleted session ends, and the messages to its user still wait`() throws {
        let bob = try login(1)
        try leave(bob)
        let alice = try login(0)
        #expect(alice.send("hello", to: "bob") == .sent)
        let reply = try broker.administrator().send(
            DeleteSessions(SessionSelection(app: "demo", user: "bob", device: "d1")))
        #expect(reply.sessionCount == 1)
        #expect(try sessions(SessionSelection(app: "demo", user: "bob")).isEmpty)
        let waiting = try broker.administrator().send(ShowOfflineQueue(app: "demo", user: "bob"))
        #expect(waiting.messageCount == 1)
        #expect(try login(1, device: "d2").delivery() == "hello")
    }

    @Test func `a purged queue is empty in memory and in the store`() throws {
        try leave(try login(1))
        let alice = try login(0)
        #expect(alice.send("one", to: "bob") == .sent)
        #expect(alice.send("two", to: "bob") == .sent)
        let reply = try broker.administrator().send(
            PurgeQueues(SessionSelection(app: "demo", user: "bob")))
        #expect(reply.messageCount == 2)
        #expect(try sessions(SessionSelection(app: "demo", user: "bob"))[0].queue.messageCount == 0)
        #expect(alice.send("three", to: "bob") == .sent)
        alice.close()
        try broker.restart()
        #expect(try login(1).delivery() == "three")
    }

    @Test func `users are listed in pages, and shown with their devices`() throws {
        _ = try broker.administrator().send(AddUser(app: "demo", user: "carol"))
        _ = try broker.administrator().send(CreateApp(app: "other"))
        _ = try broker.administrator().send(AddUser(app: "other", user: "dave"))
        _ = try broker.makeTokens("alice")
        let alice = try login(0)
        try leave(try login(1))
        #expect(alice.send("hello", to: "bob") == .sent)
        func list(after: UInt32? = nil, limit: Int? = nil) throws -> ListUsers.Reply {
            try broker.administrator().send(ListUsers(app: "demo", after: after, limit: limit))
        }
        let all = try list()
        #expect(all.users.map(\.user) == ["alice", "bob", "carol"] && all.next == nil)
        #expect(all.users.map(\.sessionCount) == [1, 1, 0])
        #expect(all.users.map(\.connectionCount) == [1, 0, 0])
        #expect(all.users.map(\.tokenCount) == [2, 1, 0])
        #expect(all.users.map { $0.lastSeenUnixMilliseconds != nil } == [false, true, false])
        let first = try list(limit: 2)
        #expect(first.users.count == 2)
        #expect(try list(after: first.next).users.map(\.user) == ["carol"])
        #expect(throws: AdministrationError.self) {
            try broker.administrator().send(ListUsers(app: "none"))
        }
        func show(_ user: String) throws -> ShowUser.Reply {
            try broker.administrator().send(ShowUser(app: "demo", user: user))
        }
        var online = try show("alice")
        // The address of a loop that is paused for half a second is left out.
        for _ in 0..<20 where online.devices.first?.address == nil { online = try show("alice") }
        #expect(online.connectionCount == 1 && online.tokenCount == 2)
        let device = try #require(online.devices.first)
        #expect(device.device == "d1" && device.awaySeconds == nil && device.isPersistent)
        #expect(device.credential?.kind == .token)
        #expect(device.credential?.id.map { tokens[0].contains($0) } == true)
        #expect(device.address?.hasPrefix("127.0.0.1:") == true)
        #expect(device.listener == "tcp://127.0.0.1:\(broker.port)")
        let offline = try show("bob")
        #expect(offline.devices.map(\.queue.messageCount) == [1])
        #expect(offline.devices.first?.credential == nil)
        #expect(offline.devices.first?.address == nil && offline.devices.first?.listener == nil)
        #expect(offline.devices.first?.awaySeconds != nil)
        #expect(try show("carol").devices.isEmpty)
        #expect(throws: AdministrationError.self) { try show("dave") }
        alice.close()
    }

    @Test func `a list is as long as its limit`() throws {
        let (alice, bob) = (try login(0), try login(1))
        let sessions = try broker.administrator().send(
            ListSessions(SessionSelection(app: "demo"), limit: 1))
        #expect(sessions.sessions.count == 1)
        let rest = try broker.administrator().send(
            ListSessions(SessionSelection(app: "demo"), after: sessions.next, limit: 1))
        #expect(rest.sessions.map(\.user) != sessions.sessions.map(\.user))
        let tokens = try broker.administrator().send(
            ListTokens(TokenSelection(app: "demo"), limit: 1))
        #expect(tokens.tokens.count == 1 && tokens.next == tokens.tokens[0].id)
        for title in ["one", "two"] {
            _ = try broker.administrator().send(
                CreateGroup(app: "demo", owner: "alice", title: title))
        }
        let groups = try broker.administrator().send(ListGroups(app: "demo", limit: 1))
        #expect(groups.groups.count == 1 && groups.next != nil)
        let group = groups.groups[0].groupid
        _ = try broker.administrator().send(
            ChangeMember(app: "demo", groupid: group, user: "bob", action: .join))
        let members = try broker.administrator().send(
            ShowGroup(app: "demo", groupid: group, limit: 1)
        ).members
        #expect(members.count == 1)
        alice.close()
        bob.close()
    }

    @Test func `the messages of a queue are shown in pages, and one that is under way stays`()
        throws
    {
        try leave(try login(1))
        let start = UInt64(Date().timeIntervalSince1970)
        for number in 1...ListQueueMessages.countMaximum + 1 {
            _ = try broker.administrator().send(
                SendMessage(app: "demo", from: "alice", users: ["bob"], b: "\(number)"))
        }
        func list(after: UInt64? = nil, limit: Int? = nil) throws -> ListQueueMessages.Reply {
            try broker.administrator().send(
                ListQueueMessages(
                    app: "demo", user: "bob", device: "d1", hasContents: true, after: after,
                    limit: limit))
        }
        let page = try list()
        #expect(page.messages.map(\.content?.text) == (1...100).map { "\($0)" })
        #expect(page.next == 100)
        #expect(try list(after: 100).messages.map(\.number) == [101])
        #expect(try list(after: 100).next == nil)
        #expect(try list(limit: 2).messages.count == 2)
        #expect(throws: AdministrationError.self) { try list(limit: 101) }
        #expect(throws: AdministrationError.self) { try list(limit: 0) }
        let message = try #require(page.messages.first)
        #expect(message.from == "alice" && message.kind == .user && message.grade == .durable)
        let now = UInt64(Date().timeIntervalSince1970)
        #expect((start - 1...now).contains(message.unixMilliseconds / 1_000))
        #expect(message.expiresUnixSeconds ?? 0 > now)
        let drop = DropQueueMessage(app: "demo", user: "bob", device: "d1", number: 1)
        let bob = try login(1)
        #expect(bob.delivery() == "1")
        #expect(try list(limit: 1).messages.map(\.isUnderWay) == [true])
        let refusal = #expect(throws: AdministrationError.self) {
            try broker.administrator().send(drop)
        }
        #expect("\(String(describing: refusal))".contains("is being delivered"))
        try leave(bob)
        _ = try broker.administrator().send(drop)
        #expect(try list(limit: 1).messages.map(\.number) == [2])
        #expect(try login(1).delivery() == "2")
        try broker.restart()
        #expect(try list(limit: 1).messages.map(\.number) == [2])
    }

    @Test func `what waits for a user without a session can be purged`() throws {
        _ = try broker.administrator().send(AddUser(app: "demo", user: "carol"))
        let alice = try login(0)
        #expect(alice.send("one", to: "carol") == .sent)
        let reply = try broker.administrator().send(
            PurgeQueues(SessionSelection(app: "demo", user: "carol")))
        #expect(reply.messageCount == 1)
        let left = try broker.administrator().send(ShowOfflineQueue(app: "demo", user: "carol"))
        #expect(left.messageCount == 0)
    }

    private func refusal<Request: AdministrationRequest>(
        of request: Request
    ) throws -> AdministrationRefusal? {
        let administrator = try broker.administrator()
        do throws(AdministrationError) {
            _ = try administrator.send(request)
            return nil
        } catch {
            guard case .refused(let refusal) = error else { throw error }
            return refusal
        }
    }

    @Test func `an app or user that does not exist is refused, and is no empty selection`()
        throws
    {
        let nowhere = SessionSelection(app: "nope", user: "alice")
        let nobody = SessionSelection(app: "demo", user: "nobody")
        let ofApp = [
            try refusal(of: ListSessions(SessionSelection(app: "nope"))),
            try refusal(of: KickSessions(nowhere)), try refusal(of: DeleteSessions(nowhere)),
            try refusal(of: PurgeQueues(nowhere)),
            try refusal(of: ListTokens(TokenSelection(app: "nope"))),
            try refusal(of: RevokeTokens(TokenSelection(app: "nope", user: "alice"))),
            try refusal(of: ShowOfflineQueue(app: "nope", user: "alice")),
        ]
        for refusal in ofApp {
            #expect(refusal?.message == "there is no app \"nope\"")
            #expect(refusal?.reason == 144)
        }
        let ofUser = [
            try refusal(of: ListSessions(nobody)), try refusal(of: KickSessions(nobody)),
            try refusal(of: DeleteSessions(nobody)), try refusal(of: PurgeQueues(nobody)),
            try refusal(of: ShowOfflineQueue(app: "demo", user: "nobody")),
        ]
        for refusal in ofUser {
            #expect(refusal?.message.hasPrefix("nobody knows nobody in demo; ") == true)
            #expect(refusal?.reason == 144)
        }
    }

    @Test func `ending all sessions of an app requires a selection`() {
        let everything = SessionSelection(app: "demo")
        #expect(throws: AdministrationError.self) {
            try broker.administrator().send(KickSessions(everything))
        }
        #expect(throws: AdministrationError.self) {
            try broker.administrator().send(DeleteSessions(everything))
        }
        #expect(throws: AdministrationError.self) {
            try broker.administrator().send(PurgeQueues(everything))
        }
    }
}

@Suite struct BackupTests {
    @Test func `a restored backup has the messages and the tokens of its time`() throws {
        let broker = try RunningBroker()
        try broker.makeApp()
        let tokens = try broker.makeTokens("alice", "bob")
        let alice = try Peer(port: broker.port)
        #expect(alice.login(token: tokens[0]) == .connected)
        #expect(alice.send("before", to: "bob") == .sent)
        let backup = broker.directory + "/backup"
        let (ended, line) = try broker.backUp(to: backup)
        #expect(ended.byteCount > 0 && ended.failure == nil && ended.findings.isEmpty)
        #expect(LogPipe.value("bytes", in: line) == "\(ended.byteCount)")
        #expect(alice.send("after", to: "bob") == .sent)
        alice.close()
        // Over a store, and with a path of no meaning to the broker, it is refused.
        #expect(throws: AdministrationError.self) {
            try broker.administrator().send(BackUpStore(directory: backup))
        }
        #expect(throws: AdministrationError.self) {
            try broker.administrator().send(BackUpStore(directory: "backup"))
        }

        var settings = broker.settings
        settings.dataDirectory = broker.directory + "/restored"
        try StoreRestoration.run(settings, from: backup)
        #expect(throws: StartError.self) { try StoreRestoration.run(settings, from: backup) }
        try broker.restart { $0.dataDirectory = settings.dataDirectory }
        let bob = try Peer(port: broker.port)
        #expect(bob.login(token: tokens[1]) == .connected)
        #expect(bob.delivery() == "before")
        #expect(bob.presence("alice") == .success)
        #expect(
            try broker.administrator().send(
                ListSessions(SessionSelection(app: "demo", user: "bob"))
            ).sessions[0].queue.messageCount == 1)
    }

    @Test func `a failed backup is reported in the reply and the log, and the next one works`()
        throws
    {
        let broker = try RunningBroker()
        try broker.makeApp()
        // The leaf with the app, which the broker has read and does not read again.
        let file = try #require(
            FileHandle(forUpdatingAtPath: broker.settings.dataDirectory + "/data.mdb"))
        let bytes = try #require(try file.readToEnd())
        for page in 2..<bytes.count / 4096 {
            let content = bytes[page * 4096..<(page + 1) * 4096]
            guard content.firstRange(of: Data("demo".utf8)) != nil else { continue }
            try file.seek(toOffset: UInt64(page * 4096))
            try file.write(contentsOf: Data(count: 4096))
        }
        let target = broker.directory + "/backup"
        let (failed, line) = try broker.backUp(to: target)
        #expect(failed.failure?.contains("the store is damaged: page ") == true)
        #expect(!FileManager.default.fileExists(atPath: target))
        #expect(line.contains("event=backup_failed") && line.contains("the store is damaged"))
        try file.seek(toOffset: 0)
        try file.write(contentsOf: bytes)
        #expect(try broker.backUp(to: target).status.failure == nil)
    }

    @Test(arguments: ["/", "relative", "/tmp/a\u{0}b", ""])
    func `a directory that cannot hold a backup is refused at once`(path: String) throws {
        let broker = try RunningBroker()
        #expect(throws: AdministrationError.self) { try broker.backUp(to: path) }
        #expect(try broker.administrator().send(ShowBackup()).backup == nil)
    }
}

extension RunningBroker {
    /// Makes a backup; gives how it ended and what the log says of that.
    fileprivate func backUp(to directory: String) throws -> (status: BackupStatus, line: String) {
        let number = try administrator().send(BackUpStore(directory: directory)).number
        let line = log.line { line in
            ["event=backup_finished ", "event=backup_failed "].contains(where: line.contains)
                && LogPipe.value("number", in: line) == "\(number)"
        }
        // It is told first in the log.
        while true {
            if let status = try administrator().send(ShowBackup()).backup, status.isFinished {
                return (status, try #require(line))
            }
        }
    }
}
