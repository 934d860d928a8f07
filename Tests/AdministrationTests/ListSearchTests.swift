// Conditions on lists: what a query may say, which items fulfil it, and how a search goes through
// pages.

import Foundation
import Testing

@testable import Administration

@Suite("Searches of lists")
struct ListSearchTests {
    private static let sessions = APIOperation.all.first { $0.kind == .listSessions }

    private static func search(
        _ query: [(name: String, value: String)], of kind: AdministrationCommand.Kind
    ) throws -> ListSearch? {
        let operation = try #require(APIOperation.all.first { $0.kind == kind })
        guard let list = try ListQuery(query, of: operation) else { return nil }
        let path = operation.members.filter { $0.place == .path }.map { _ in "demo" }
        return try ListSearch(list, of: operation, path: path, by: nil)
    }

    private static func session(
        _ index: Int, _ user: String, messageCount: UInt64 = 0, awaySeconds: UInt64? = nil
    ) -> ListSessions.Session {
        ListSessions.Session(
            user: user, device: "d\(index)", dialect: index.isMultiple(of: 2) ? "mrt" : "mqtt5",
            isPersistent: index.isMultiple(of: 3), expirySeconds: nil,
            connectedUnixMilliseconds: nil, awaySeconds: awaySeconds, keepAliveSeconds: 60,
            queue: Queue(
                messageCount: messageCount, byteCount: 0, overflowCount: 0, nextNumber: 1),
            underWayCount: 0, filters: [#"a"]},{"user":"x""#], filterCount: 1, groupCount: 0,
            hasWill: false)
    }

    /// Answers the pages of a search from these sessions, and counts the pages.
    private static func run(
        _ query: [(name: String, value: String)], on sessions: [ListSessions.Session],
        turns: inout Int
    ) throws -> [UInt8] {
        var search = try #require(try search(query, of: .listSessions))
        while true {
            search.beginTurn()
            turns += 1
            repeat {
                let page = search.page
                let place = page.first { $0.name == "after" }.flatMap { Int($0.value) } ?? 0
                let limit = try #require(
                    page.first { $0.name == "limit" }.flatMap { Int($0.value) })
                let end = min(sessions.count, place + limit)
                let reply = ListSessions.Reply(
                    sessions: Array(sessions[place..<end]),
                    next: end == sessions.count ? nil : UInt32(end))
                let request = ListSessions(SessionSelection(app: "demo"))
                search.take(request.object(replying: reply))
                if search.isComplete { return search.answer }
            } while !search.isTurnOver
        }
    }

    private struct Answer: Decodable {
        struct Session: Decodable { var user: String, device: String }
        var sessions: [Session]?
        var count: Int?
        var next: Int?
    }

    private static func answer(
        _ query: [(name: String, value: String)], on sessions: [ListSessions.Session]
    ) throws -> Answer {
        var turns = 0
        let bytes = try run(query, on: sessions, turns: &turns)
        return try JSONDecoder().decode(Answer.self, from: Data(bytes))
    }

    private static let users = ["ada", "bob", "b\"o\\b", "bö b", "", "ada/1", "}", ","]

    private static let some: [ListSessions.Session] = (0..<64).map { index in
        session(
            index, users[index % users.count], messageCount: UInt64(index),
            awaySeconds: index.isMultiple(of: 4) ? UInt64(index) : nil)
    }

    @Test(arguments: users)
    func `compare texts as they are`(user: String) throws {
        let all = Self.some
        func devices(_ query: (name: String, value: String)...) throws -> [String] {
            try #require(try Self.answer(query, on: all).sessions).map(\.device)
        }
        func expected(_ isIncluded: (ListSessions.Session) -> Bool) -> [String] {
            all.filter(isIncluded).map(\.device)
        }
        #expect(try devices(("user[eq]", user)) == expected { $0.user == user })
        #expect(try devices(("user[ne]", user)) == expected { $0.user != user })
        #expect(try devices(("user[prefix]", user)) == expected { $0.user.hasPrefix(user) })
        if user != "," {
            #expect(
                try devices(("user[in]", "ada,\(user)"))
                    == expected { $0.user == "ada" || $0.user == user })
        }
        #expect(
            try devices(("user[ne]", user), ("dialect", "mrt"))
                == expected { $0.user != user && $0.dialect == "mrt" })
    }

    @Test func `compare numbers and booleans, in objects and where they are absent`() throws {
        func count(_ query: (name: String, value: String)...) throws -> Int? {
            try Self.answer(query + [("count", "true")], on: Self.some).count
        }
        let maximum = "\(UInt64.max)"
        #expect(try count(("queue.messageCount[lt]", "10")) == 10)
        #expect(try count(("queue.messageCount[lte]", "10")) == 11)
        #expect(try count(("queue.messageCount[gt]", "10")) == 53)
        #expect(try count(("queue.messageCount[gte]", "10")) == 54)
        #expect(try count(("queue.messageCount[lt]", "0")) == 0)
        #expect(try count(("queue.messageCount[gt]", maximum)) == 0)
        #expect(try count(("queue.messageCount[lte]", maximum)) == 64)
        #expect(try count(("queue.messageCount[in]", "1,5,200")) == 2)
        #expect(try count(("queue.messageCount[gt]", "3"), ("queue.messageCount[lt]", "6")) == 2)
        #expect(try count(("isPersistent", "true")) == 22)
        #expect(try count(("isPersistent[ne]", "true")) == 42)
        // A member that is absent differs from every value, and has no place in the order.
        #expect(try count(("awaySeconds[gte]", "0")) == 16)
        #expect(try count(("awaySeconds[ne]", "4")) == 63)
        #expect(try count() == 64)
    }

    @Test func `pages begin where the last one ended, and miss nothing`() throws {
        let all = (0..<5_000).map { Self.session($0, $0 % 97 == 0 ? "rare" : "often") }
        for limit in [1, 7, 100, 1_000] {
            var found: [String] = []
            var place: Int?
            var answers = 0
            repeat {
                var query = [(name: "user[eq]", value: "rare"), ("limit", "\(limit)")]
                if let place { query.append(("after", "\(place)")) }
                let answer = try Self.answer(query, on: all)
                let sessions = try #require(answer.sessions)
                #expect(sessions.count <= limit)
                found += sessions.map(\.device)
                place = answer.next
                answers += 1
            } while place != nil
            #expect(found == all.filter { $0.user == "rare" }.map(\.device), "limit \(limit)")
            #expect(answers <= 52 / limit + 1)
        }
    }

    @Test func `a request compares so many items, in turns`() throws {
        let all = (0..<120_000).map { Self.session($0, "u") }
        var turns = 0
        let bytes = try Self.run([("count", "true")], on: all, turns: &turns)
        let answer = try JSONDecoder().decode(Answer.self, from: Data(bytes))
        #expect(answer.count == ListSearch.comparedCountMaximum)
        #expect(answer.next == ListSearch.comparedCountMaximum)
        #expect(turns == ListSearch.comparedCountMaximum / ListSearch.turnMaximum)
        // Many items that fulfil the conditions end a page too.
        let long = String(repeating: "x", count: 250)
        let wide = (0..<5_000).map { Self.session($0, long) }
        let page = try Self.run([("user[eq]", long), ("limit", "1000")], on: wide, turns: &turns)
        #expect(page.count < 2 * ListSearch.foundByteCountMaximum)
    }

    @Test(arguments: [
        (["x[eq]=1"], "?x[eq] is not known; the members with conditions are user, device"),
        (["user[like]=a"], "?user[like] is not known; comparisons are eq, ne, lt"),
        (["user[gt]=a"], "?user[gt] is not known; user has eq, ne, in, prefix"),
        (["hasWill[in]=true"], "?hasWill[in] is not known; hasWill has eq, ne"),
        (["groupCount[prefix]=1"], "?groupCount[prefix] is not known; groupCount has eq, ne, lt"),
        (["groupCount=-1"], "?groupCount must be a whole number"),
        (["groupCount[gt]=+1"], "?groupCount[gt] must be a whole number"),
        (["groupCount[in]=1,"], "?groupCount[in] must be a whole number"),
        (["groupCount[lt]=18446744073709551616"], "?groupCount[lt] must be a whole number"),
        (["hasWill=1"], "?hasWill must be true or false"),
        (["count=yes"], "?count must be true or false"),
        (["count=true", "count=true"], "?count is repeated"),
        (["hasWill=true", "hasWill=true"], "?hasWill is repeated"),
        (["hasWill=true", "limit=0"], "?limit must be a whole number from 1 to 1000"),
        (["hasWill=true", "nothing=1"], "?nothing is not known"),
        (["hasWill=true", "user[eq"], "is not known"),
    ])
    func `what is wrong has a message`(query: [String], message: String) throws {
        let members = query.map { text in
            let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
            return (name: parts[0], value: parts.count > 1 ? parts[1] : "")
        }
        let error = #expect(throws: AdministrationRefusal.self) {
            try Self.search(members, of: .listSessions)
        }
        #expect(error?.reason == 0x81)
        #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
    }

    @Test func `the limits hold, and are the last that fit`() throws {
        func refusal(_ query: [(name: String, value: String)]) -> AdministrationRefusal? {
            do {
                _ = try Self.search(query, of: .listSessions)
                return nil
            } catch {
                return error as? AdministrationRefusal
            }
        }
        let values = (0..<ListCondition.valueCountMaximum).map { "u\($0)" }.joined(separator: ",")
        #expect(refusal([("user[in]", values)]) == nil)
        #expect(refusal([("user[in]", values + ",u")])?.reason == 0x81)
        let fields = try #require(Self.sessions?.list?.fields.filter { $0.form == .number })
        let conditions = fields.flatMap { field in
            ["gt", "lt", "gte", "lte"].map { (name: "\(field.name)[\($0)]", value: "1") }
        }
        #expect(refusal(Array(conditions.prefix(ListQuery.conditionCountMaximum))) == nil)
        #expect(
            refusal(Array(conditions.prefix(ListQuery.conditionCountMaximum + 1)))?.reason == 0x81)
    }

    @Test func `an operation's own members stay its own`() throws {
        // `awaySeconds` of the operation means at least so many.
        let search = try #require(
            try Self.search([("awaySeconds", "60"), ("count", "true")], of: .listSessions))
        #expect(search.page.contains { $0.name == "awaySeconds" && $0.value == "60" })
        #expect(try Self.search([("awaySeconds", "60"), ("limit", "5")], of: .listSessions) == nil)
        // Lists of one page have neither a limit nor a place to go on.
        let apps = try #require(try Self.search([("userCount[gt]", "0")], of: .listApps))
        #expect(apps.page.isEmpty)
    }

    @Test func `the lists are those that answer with items, and no name is used twice`() {
        let lists = APIOperation.all.filter { $0.list != nil }
        #expect(
            Set(lists.map(\.kind)) == [
                .listApps, .listAppKeys, .listUsers, .listTokens, .listPasswords, .listSessions,
                .listQueueMessages, .listConversations, .listHistory, .listKeptTopics,
                .listRetained, .listGroups, .listListeners, .listRefusals, .listLogLines,
                .listTraces, .listOperators, .listWakeTargets, .listWakeLog,
                .listWakeTemplates,
            ])
        for operation in lists {
            guard let list = operation.list else { continue }
            #expect(Set(list.fields.map(\.name)).count == list.fields.count)
            #expect(!list.fields.contains { $0.name == ListQuery.countName })
            #expect(!operation.members.contains { $0.name == ListQuery.countName })
            #expect((list.cursor == nil) == !operation.answer.contains { $0.name == "next" })
        }
    }
}
