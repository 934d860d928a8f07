// The table of the HTTP API: its rows, their roles and members, and the page that lists them.

import Foundation
import Testing

@testable import Administration

@Suite("The table of the HTTP API")
struct APITableTests {
    /// A value of each form.
    private static func json(_ form: APIMember.Form) -> String {
        switch form {
        case .text: "\"x\""
        case .texts: "[\"x\"]"
        case .textsByName: "{\"x\":\"y\"}"
        case .boolean: "true"
        case .number, .count: "1"
        case .choice(let words): "\"\(words[0])\""
        }
    }

    private static func text(_ form: APIMember.Form) -> String {
        json(form).filter { $0 != "\"" }
    }

    /// The command of an operation with these members.
    private static func command(
        _ operation: APIOperation, _ members: [APIMember]
    ) throws -> AdministrationCommand {
        let body = members.filter { $0.place == .body }
        let object = body.map { "\"\($0.name)\":\(json($0.form))" }.joined(separator: ",")
        // The sender is in the content, or else in a field of the head.
        let key = APIPrincipal.AppKey(app: "app", name: "key", role: .operate, isLimited: false)
        return try operation.command(
            path: operation.members.filter { $0.place == .path }.map {
                $0.form == .text ? "path-\($0.name)" : text($0.form)
            },
            query: members.filter { $0.place == .query }.map { ($0.name, text($0.form)) },
            content: body.isEmpty ? [] : Array("{\(object)}".utf8),
            by: APIRequester(.appKey(key), actingFor: "acting"))
    }

    @Test func `has a row for every request, and the names of the lines`() throws {
        for kind in AdministrationCommand.Kind.allCases {
            #expect(APIOperation.all.contains { $0.kind == kind }, "\(kind)")
        }
        for operation in APIOperation.all {
            let command = try Self.command(operation, operation.members)
            #expect(command.kind == operation.kind, "\(operation.path)")
            // The name is the one that the request has in a line.
            #expect(
                command.line.starts(with: #"{"body":"#.utf8)
                    && String(decoding: command.line, as: UTF8.self)
                        .contains("\"request\":\"\(operation.kind.rawValue)\"")
            )
            #expect(try AdministrationCommand(line: command.line) == command)
        }
    }

    /// A single broker has none, so that the test that makes every operation leaves it out.
    @Test func `has the members of the answer about a cluster`() throws {
        let node = ShowCluster.Node(
            name: "a", part: "primary", address: "a:1", webAddress: "", sequence: 1, lagRecords: 0,
            heardMilliseconds: 0)
        var reply = ShowCluster.Reply(
            nodes: [node], term: 1, leaseMilliseconds: 2_000, leaseLeftMilliseconds: 1_000,
            durability: "strict")
        reply.servers = [ShowCluster.Server(name: "s", isLeader: true, isCurrent: true, lag: 0)]
        (reply.firstRecord, reply.lastRecord) = (1, 2)
        (reply.logByteCount, reply.logByteCountMaximum) = (3, 4)
        reply.shards = [
            ShowCluster.Shard(
                name: "north", part: "standby", term: 1, hasLease: false, sequence: 1,
                lagRecords: 0, primary: "b:1", alarms: [])
        ]
        let object = try JSONSerialization.jsonObject(
            with: Data(ShowCluster().object(replying: reply)))
        let members = try #require(object as? [String: Any])
        #expect(members.keys.sorted() == APIOperation.showCluster.answer.map(\.name).sorted())
        for member in APIOperation.showCluster.answer {
            guard case .objects(let parts) = member.form else { continue }
            let first = try #require((members[member.name] as? [[String: Any]])?.first)
            #expect(first.keys.sorted() == parts.map(\.name).sorted())
        }
    }

    @Test func `has each method of a path once, and finds it`() throws {
        var seen: Set<String> = []
        for operation in APIOperation.all {
            let form = operation.path.replacing(#/{\w+}/#, with: "{}")
            #expect(seen.insert("\(operation.method) \(form)").inserted, "\(form)")
            let segments = (APIOperation.root + operation.path).split(separator: "/").map {
                $0.hasPrefix("{") ? "m\($0.count)" : String($0)
            }
            let place = try #require(APIPlace(segments: segments))
            #expect(place.methods.contains(operation.method))
            // A member and a word never compete for a segment.
            for (found, _) in place.operations { #expect(found.path == operation.path) }
        }
        for path in ["", "/api", "/api/v1", "/api/v2/apps", "/api/v1/apps/a/b", "/apps"] {
            let segments = path.split(separator: "/").map(String.init)
            #expect(APIPlace(segments: segments) == nil, "\(path)")
        }
    }

    @Test func `reads with GET alone, and every change needs more than view`() {
        for operation in APIOperation.all {
            if operation.method != .get { #expect(operation.role > .view, "\(operation.path)") }
            let showsContents =
                operation.path.hasSuffix("/contents")
                || operation.path.hasSuffix("/retained/message")
                || operation.kind == .listHistory || operation.path.hasSuffix("/newest")
            #expect(!showsContents || operation.role == .operate)
            let isMessage = [.sendMessage, .reportApplied].contains(operation.kind)
            #expect(
                operation.isLogged
                    == (operation.method != .get && !isMessage || showsContents)
            )
            #expect(operation.method != .get || !operation.takesContent)
            #expect(operation.summary.hasSuffix("."))
            #expect([200, 201, 202].contains(operation.status))
        }
        let owners = APIOperation.all.filter { $0.role == .own }.map(\.kind)
        #expect(
            Set(owners) == [
                .createApp, .setAppRights, .addAppKey, .revokeAppKey, .backUpStore, .addOperator,
                .listOperators, .revokeOperator, .makeLoginLink, .reloadConfiguration, .setLogLevel,
                .importSession, .deleteApp, .stepDown,
            ])
    }

    @Test func `takes the required members alone, and misses each of them`() throws {
        for operation in APIOperation.all {
            let required = operation.members.filter { $0.isRequired && $0.place != .path }
            _ = try Self.command(operation, required)
            for missing in required {
                let error = #expect(throws: AdministrationRefusal.self) {
                    try Self.command(operation, required.filter { $0 != missing })
                }
                #expect(error?.reason == 0x81 && error?.message.contains(missing.name) == true)
            }
        }
    }

    @Test func `every member changes the command`() throws {
        for operation in APIOperation.all {
            let required = operation.members.filter { $0.isRequired && $0.place != .path }
            let plain = try Self.command(operation, required)
            // `wait` changes when the answer comes.
            let members = operation.members.filter {
                !$0.isRequired && !(operation.isAnsweredEarly && $0.name == "wait")
            }
            for member in members {
                #expect(try Self.command(operation, required + [member]) != plain, "\(member)")
            }
        }
    }

    private static func refusal(
        _ kind: AdministrationCommand.Kind, query: [(name: String, value: String)] = [],
        _ content: String = ""
    ) throws -> AdministrationRefusal? {
        let operation = try #require(APIOperation.all.first { $0.kind == kind })
        do throws(AdministrationRefusal) {
            _ = try operation.command(
                path: ["demo", "x", "y"], query: query, content: Array(content.utf8))
            return nil
        } catch {
            return error
        }
    }

    @Test(arguments: [
        (#"{"users":["a"],"user":"b"}"#, "/user is not known"),
        (#"{"users":"a"}"#, "/users must be a list of texts"),
        (#"{"users":["a",1]}"#, "/users/1 must be text"),
        (#"{"users":["a"],"expirySeconds":-1}"#, "/expirySeconds must be a whole number"),
        (#"{"users":["a"],"expirySeconds":1.5}"#, "/expirySeconds must be a whole number"),
        (#"{"users":["a"],"expirySeconds":"1"}"#, "/expirySeconds must be a whole number"),
        (#"{"users":["a"],"device":true}"#, "/device must be text"),
        (#"{"users":null}"#, "/users must be a list"), ("[]", "not a JSON object"),
        ("{", "not JSON"), ("", "/users is missing"), ("{}", "/users is missing"),
        (#"{"users":[[[["a"]]]]}"#, "/users/0 must be text"),
        (String(repeating: "[", count: 60_000), "not a JSON object"),
        // What follows is not read: what no member can have costs nothing, however long it is.
        (#"{"users":["a",[[-1]],?"#, "/users/1 must be text"),
        (#"{"device":{"?"#, "/device must be text"), (#"{"x":?"#, "/x is not known"),
        (#"{"users":["a"],"users":["b"]}"#, "/users is repeated"),
        (#"{"users":["a"],"device":null,"device":"b"}"#, "/device is repeated"),
        (#"{"users":["a"],"\u0075sers":["b"]}"#, "/users is repeated"),
        (#"{"users":["a",]}"#, "/users/1 must be text"), (#"{"users":["a"]}}"#, "not JSON"),
        (#"{"users":["a"]"#, "not JSON"), (#"{"users":["a"],}"#, "not JSON"),
        (#"{"users":["a"] "device":"b"}"#, "not JSON"), (#"{"users" ["a"]}"#, "not JSON"),
        (#"{"users":["a"],"expirySeconds":01}"#, "not JSON"),
        (#"{"users":["a"],"expirySeconds":1.}"#, "not JSON"),
        (#"{"users":["a"],"expirySeconds":}"#, "not JSON"),
        (#"{"users":["a"],"expirySeconds":1e400}"#, "/expirySeconds must be a whole number"),
        (#"{"users":["a"],"device":nul}"#, "not JSON"), (#"{"users":["\x"]}"#, "not JSON"),
        (#"{"users":["\ud800"]}"#, "not JSON"), (#"{"users":["\ud800\u0041"]}"#, "not JSON"),
        (#"{"users":["\u00g0"]}"#, "not JSON"), ("{\"users\":[\"\n\"]}", "not JSON"),
        (#"{"users":["a"#, "not JSON"), (#"{"users":["a\"#, "not JSON"),
        ("{\"users\":[\"\u{0}\"]}", "not JSON in UTF-8"),
    ])
    func `content that an operation does not have is refused by its path`(
        content: String, message: String
    ) throws {
        let refusal = try #require(try Self.refusal(.mintTokens, content), "\(content)")
        #expect(refusal.reason == 0x81 && refusal.httpStatus == 400)
        #expect(refusal.message.contains(message), "\(refusal.message)")
    }

    @Test func `null is a member that is left out, and texts may contain brackets`() throws {
        #expect(try Self.refusal(.mintTokens, #"{"users":["[[[[[\"{{{"],"device":null}"#) == nil)
    }

    @Test func `texts have the characters of their escapes, and whole numbers any form`() throws {
        let operation = try #require(APIOperation.all.first { $0.kind == .mintTokens })
        let content = #" {"users" : [ "\u00fc\ud83d\ude00\/\n" , "b" ] , "expirySeconds":1.5e1 } "#
        let command = try operation.command(path: ["demo"], query: [], content: Array(content.utf8))
        guard case .mintTokens(let mint) = command else {
            Issue.record("\(command)")
            return
        }
        #expect(mint.users == ["ü😀/\n", "b"] && mint.expirySeconds == 15)
    }

    @Test func `queries that an operation does not have are refused by their name`() throws {
        let cases: [([(name: String, value: String)], String)] = [
            ([("users", "a")], "?users is not known"),
            ([("user", "a"), ("user", "b")], "?user is repeated"),
            ([("isConnected", "yes")], "?isConnected must be true or false"),
            ([("awaySeconds", "-1")], "?awaySeconds must be a whole number"),
            ([("limit", "0")], "?limit must be a whole number from 1 to 1000"),
            ([("limit", "1001")], "?limit must be a whole number from 1 to 1000"),
            ([("after", "4294967296")], "?after must be a whole number from 0 to 4294967295"),
        ]
        for (query, message) in cases {
            let refusal = try #require(try Self.refusal(.listSessions, query: query))
            #expect(refusal.message.contains(message), "\(refusal.message)")
        }
        #expect(try Self.refusal(.listApps, query: [("x", "y")])?.httpStatus == 400)
    }

    @Test func `a list beyond its maximum is refused as in a line`() throws {
        let users = Array(repeating: "\"u\"", count: MintTokens.userCountMaximum + 1)
        let content = "{\"users\":[\(users.joined(separator: ","))]}"
        #expect(try Self.refusal(.mintTokens, content)?.reason == 0x97)
    }

    @Test func `every list that has pages may be limited, in a line too`() throws {
        for operation in APIOperation.all
        where operation.method == .get && operation.members.contains(where: { $0.name == "after" })
            // What a trace keeps is less than a page.
            && operation.kind != .readTrace
        {
            let limit = try #require(operation.members.first { $0.name == "limit" })
            guard case .count(let maximum) = limit.form else {
                Issue.record("\(operation.path)")
                continue
            }
            let required = operation.members.filter { $0.isRequired && $0.place != .path }
            let command = try Self.command(operation, required + [limit])
            let line = String(decoding: command.line, as: UTF8.self)
            for wrong in ["0", "-1", "\(maximum + 1)"] {
                let changed = line.replacing("\"limit\":1", with: "\"limit\":\(wrong)")
                let refusal = #expect(throws: AdministrationRefusal.self) {
                    try AdministrationCommand(line: Array(changed.utf8))
                }
                #expect(refusal?.message == "limit must be a whole number from 1 to \(maximum)")
            }
        }
    }

    @Test func `every refusal has a status`() {
        for reason in UInt8(0x80)...0xFF {
            let status = AdministrationRefusal(reason: reason, message: "").httpStatus
            #expect([400, 404, 409, 413, 503].contains(status))
        }
        for (cause, status) in [
            (AdministrationRefusal.Cause.unknown, 404), (.exists, 409), (.tooWide, 400),
            (.failed, 500), (.forbidden, 403), (.full, 507),
        ] as [(AdministrationRefusal.Cause, UInt16)] {
            let refusal = AdministrationRefusal(reason: 0x87, message: "", cause: cause)
            #expect(refusal.httpStatus == status)
        }
    }

    // MARK: - The page

    private static func row(_ operation: APIOperation) -> String {
        func names(_ place: APIMember.Place) -> [String] {
            operation.members.filter { $0.place == place }.map {
                $0.isRequired ? "**\($0.name)**" : $0.name
            }
        }
        let members =
            [("?", names(.query)), ("", names(.body))].filter { !$0.1.isEmpty }
            .map { "\($0.0)\($0.1.joined(separator: ", \($0.0)"))" }.joined(separator: "; ")
        let others = [(APIPrincipal.Kind.appKey, "app keys"), (.user, "users")]
            .filter { operation.serves.contains($0.0) }.map(\.1)
        let role = operation.needsRole ? operation.role.rawValue : others.joined(separator: ", ")
        return "| `\(operation.method.rawValue) \(operation.path)` | \(role) "
            + "| \(members) | \(operation.summary) | \(text(of: operation.answer)) |"
    }

    private static func text(of members: [APIAnswerMember]) -> String {
        members.map { member in
            let name = member.isOptional ? "\(member.name)?" : member.name
            return switch member.form {
            case .object(let members), .objects(let members): "\(name) (\(text(of: members)))"
            case .text, .texts, .boolean, .number: name
            }
        }.joined(separator: ", ")
    }

    @Test func `the page lists every operation`() throws {
        let page = URL(filePath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "docs/operating/api.md")
        let text = try String(contentsOf: page, encoding: .utf8)
        let heading =
            "| operation | role | members | what it does | answer |\n|---|---|---|---|---|\n"
        let start = try #require(text.range(of: heading)).upperBound
        let end = try #require(text.range(of: "\n\n", range: start..<text.endIndex)).lowerBound
        let rows = APIOperation.all.map(Self.row).joined(separator: "\n")
        if ProcessInfo.processInfo.environment["MARTLET_UPDATE_DOCS"] == "1" {
            try Data(text.replacingCharacters(in: start..<end, with: rows).utf8).write(to: page)
            return
        }
        #expect(
            text[start..<end] == rows,
            "Run the tests once with MARTLET_UPDATE_DOCS=1, and read the difference.")
    }
}

extension AdministrationCommand {
    /// The line of the request.
    fileprivate var line: [UInt8] {
        switch self {
        case .createApp(let request): request.line
        case .listApps(let request): request.line
        case .showApp(let request): request.line
        case .setAppRights(let request): request.line
        case .explainRights(let request): request.line
        case .addAppKey(let request): request.line
        case .listAppKeys(let request): request.line
        case .revokeAppKey(let request): request.line
        case .addUser(let request): request.line
        case .listUsers(let request): request.line
        case .showUser(let request): request.line
        case .sendMessage(let request): request.line
        case .setWakeTarget(let request): request.line
        case .listWakeTargets(let request): request.line
        case .removeWakeTarget(let request): request.line
        case .testWake(let request): request.line
        case .listWakeLog(let request): request.line
        case .setWakeTemplate(let request): request.line
        case .listWakeTemplates(let request): request.line
        case .removeWakeTemplate(let request): request.line
        case .tryWakeTemplate(let request): request.line
        case .recallMessage(let request): request.line
        case .replaceMessage(let request): request.line
        case .mintTokens(let request): request.line
        case .listTokens(let request): request.line
        case .revokeTokens(let request): request.line
        case .setPassword(let request): request.line
        case .importPasswords(let request): request.line
        case .listPasswords(let request): request.line
        case .expirePassword(let request): request.line
        case .revokePassword(let request): request.line
        case .deleteApp(let request): request.line
        case .deleteUser(let request): request.line
        case .listSessions(let request): request.line
        case .importSession(let request): request.line
        case .kickSessions(let request): request.line
        case .deleteSessions(let request): request.line
        case .showOfflineQueue(let request): request.line
        case .listQueueMessages(let request): request.line
        case .dropQueueMessage(let request): request.line
        case .listConversations(let request): request.line
        case .listHistory(let request): request.line
        case .listKeptTopics(let request): request.line
        case .showReceipts(let request): request.line
        case .removeFromHistory(let request): request.line
        case .markConversation(let request): request.line
        case .reportApplied(let request): request.line
        case .purgeQueues(let request): request.line
        case .listRetained(let request): request.line
        case .showRetained(let request): request.line
        case .deleteRetained(let request): request.line
        case .createGroup(let request): request.line
        case .listGroups(let request): request.line
        case .showGroup(let request): request.line
        case .changeMember(let request): request.line
        case .changeGroup(let request): request.line
        case .deleteGroup(let request): request.line
        case .backUpStore(let request): request.line
        case .showBackup(let request): request.line
        case .readStatistics(let request): request.line
        case .readActivity(let request): request.line
        case .listListeners(let request): request.line
        case .listRefusals(let request): request.line
        case .listLogLines(let request): request.line
        case .reloadConfiguration(let request): request.line
        case .setLogLevel(let request): request.line
        case .startTrace(let request): request.line
        case .listTraces(let request): request.line
        case .readTrace(let request): request.line
        case .stopTrace(let request): request.line
        case .addOperator(let request): request.line
        case .listOperators(let request): request.line
        case .revokeOperator(let request): request.line
        case .makeLoginLink(let request): request.line
        case .showCluster(let request): request.line
        case .stepDown(let request): request.line
        case .showSelf(let request): request.line
        }
    }
}
