// Requests as the client of the HTTP API sends them, read again as the broker reads them.

import Testing
import WireFormat

@testable import Administration

@Suite("A request over HTTP")
struct APIMessageTests {
    private static let selection = SessionSelection(
        app: "plant", user: "pump 7/ü", device: "", isConnected: false, awaySeconds: .max)
    private static let tokens = TokenSelection(app: "plant", user: "a+b&c=d", batch: "50 %")

    private static let requests: [any AdministrationRequest] = [
        CreateApp(app: "plant"), CreateApp(app: "plant", rights: ["send:*", "publish:a/\"b\""]),
        ListApps(), ShowApp(app: "a?b#c"), SetAppRights(app: "plant", rights: []),
        ExplainRights(app: "plant", user: "u", device: "", action: .publish, target: "a/+/#"),
        ExplainRights(app: "plant", key: "c.i", action: .attach, target: "ü"),
        ExplainRights(app: "plant", user: "u", device: "d", action: .createGroup),
        AddAppKey(app: "plant", name: "ci", role: .view),
        AddAppKey(app: "plant", name: "c.i", role: .operate, rights: [], expirySeconds: .max),
        ListAppKeys(app: "plant"), RevokeAppKey(app: "plant", name: "default"),
        AddUser(app: "plant", user: "../../operators"),
        MintTokens(app: "plant", users: ["a", "b"]),
        MintTokens(
            app: "plant", users: ["a"], device: "d", expirySeconds: 0, batch: "", rights: []),
        ListUsers(app: "plant"), ListUsers(app: "plant", after: 7, limit: 1_000),
        DeleteApp(app: "plant"), DeleteApp(app: "ü", force: true),
        DeleteUser(app: "plant", user: "a/b"),
        DeleteUser(app: "plant", user: "u", force: false),
        ShowUser(app: "plant", user: "a/../b"), ListTokens(tokens, limit: 1),
        ListSessions(selection, limit: 1), ListGroups(app: "plant", limit: 1),
        ShowGroup(app: "plant", groupid: "g", limit: 10_000),
        ListTokens(tokens), ListTokens(tokens, after: "x"), RevokeTokens(tokens),
        RevokeTokens(tokens, after: 7),
        ListSessions(selection), ListSessions(selection, after: .max),
        ListSessions(SessionSelection(app: "plant")),
        ImportSession(
            app: "plant", user: "u", device: "ü", expirySeconds: nil, from: "m", position: 0,
            messages: [], filters: nil),
        ImportSession(
            app: "plant", user: "u", device: "", expirySeconds: .max, from: "m", position: .max,
            messages: ["1\n\n\nAA==\na/b"], filters: ["1\n0\n#"]),
        KickSessions(selection, sendsWills: false), KickSessions(selection),
        DeleteSessions(selection, sendsWills: true),
        ShowOfflineQueue(app: "plant", user: "%2F"), PurgeQueues(selection),
        ListQueueMessages(app: "plant", user: "a/b", hasContents: false),
        ListQueueMessages(
            app: "plant", user: "u", device: "", hasContents: true, after: .max, limit: 100),
        ListRetained(app: "plant"),
        ListRetained(app: "plant", filter: "site/+/ü/#", after: .max, limit: 1),
        ShowRetained(app: "plant", topic: "a b/?&=#"), DeleteRetained(app: "plant", filter: "#"),
        DropQueueMessage(app: "plant", user: "u", number: .max),
        DropQueueMessage(app: "plant", user: "u", device: "ü", number: 0),
        ListConversations(app: "plant", user: "ü"),
        ListConversations(app: "plant", user: "u", isUnreadOnly: true, after: .max, limit: 1_000),
        ListHistory(app: "plant", user: "u", with: "ü"), ListHistory(app: "plant", groupid: "g"),
        ListHistory(
            app: "plant", groupid: "g", before: .max, limit: 1, search: "a b/?&=#", from: "u",
            sinceUnixMilliseconds: 0, untilUnixMilliseconds: 1),
        RemoveFromHistory(app: "plant", user: "u", with: "v", number: 1),
        RemoveFromHistory(app: "plant", groupid: "g", number: .max),
        RemoveFromHistory(app: "plant", topic: "a b/?&=#", number: 1),
        ListHistory(app: "plant", topic: "plant/1/ü", before: 7, from: "u"),
        ListKeptTopics(app: "plant"), ListKeptTopics(app: "plant", after: .max, limit: 500),
        ShowReceipts(app: "plant", reference: "0000000000000001"),
        ShowReceipts(app: "plant", reference: "00000000000000ff", after: "ü", limit: 1_000),
        MarkConversation(app: "plant", user: "u", with: "ü", number: 1),
        MarkConversation(app: "plant", user: "u", groupid: "g", number: .max, isHidden: true),
        ReportApplied(app: "plant", user: "ü", reference: "0000000000000001"),
        ReportApplied(
            app: "plant", user: "u", device: "d", reference: "00000000000000ff", code: 131,
            text: "too hot"),
        CreateGroup(app: "plant", owner: "o", title: "t", allowed: nil, meta: ""),
        CreateGroup(app: "plant", owner: "o", title: "t", allowed: [], meta: "{}"),
        ListGroups(app: "plant", user: nil), ListGroups(app: "plant", user: "u", after: 7),
        ShowGroup(app: "plant", groupid: "g"), ShowGroup(app: "plant", groupid: "g", after: "m"),
        ChangeMember(app: "plant", groupid: "g", user: "u", action: .join),
        ChangeMember(app: "plant", groupid: "g", user: "u", action: .leave),
        ChangeMember(app: "plant", groupid: "g", user: "u", action: .kick),
        ChangeMember(app: "plant", groupid: "g", user: "u", action: .ban),
        ChangeGroup(app: "plant", groupid: "g", change: .meta("{\"_0\":1}")),
        ChangeGroup(app: "plant", groupid: "g", change: .allowed(["a"])),
        ChangeGroup(app: "plant", groupid: "g", change: .everybodyAllowed),
        DeleteGroup(app: "plant", groupid: "ü"),
        BackUpStore(directory: "/var/backups/\u{1F4BE}"), ShowBackup(), ReadStatistics(),
        StartTrace(app: "plant", user: "u"), ListTraces(), ReadTrace(trace: "1"),
        StartTrace(app: "plant", user: "u", device: "d", showsPayloads: true, seconds: 9),
        ReadTrace(trace: "1", after: .max), StopTrace(trace: "1"),
        SendMessage(
            app: "demo", from: "a b", users: ["x", "ü"], b: "\"{[", t: 255, grade: .once,
            expirySeconds: .max, mid: "m/ü"),
        SendMessage(app: "demo", from: "a", group: "g", b: ""),
        SendMessage(app: "demo", from: "a", everybody: true, b: "x", grade: .transient),
        SendMessage(app: "demo", from: "a", topic: "a/ü", payload: "\0", isRetained: true),
        SendMessage(
            app: "demo", from: "a", topic: "a", base64: "AP8=", contentType: "text/plain; a=\"b\""),
        RecallMessage(app: "demo", from: "a", reference: "7a3c0f9e5b2d4861", detail: "ü\""),
        RecallMessage(app: "demo", from: "a", mid: "m/ü"),
        ReplaceMessage(app: "demo", from: "a", mid: "m", b: "\"{[", t: 255),
        SetPassword(app: "plant", name: "a/ü %", password: "\"p", rights: ["!publish:#"]),
        SetPassword(
            app: "plant", name: "a", hash: "$6$", user: "u", device: "d", expirySeconds: .max,
            keepsTerms: true),
        ImportPasswords(app: "plant", names: ["a"], hashes: ["$6$"]),
        ImportPasswords(
            app: "plant", names: ["a"], hashes: ["b"], users: ["c"], rights: ["publish:#\nx"]),
        ListPasswords(app: "plant"),
        ListPasswords(app: "plant", user: "u", after: "a/b", limit: 7),
        ExpirePassword(app: "plant", name: "a", expirySeconds: nil),
        ExpirePassword(app: "plant", name: "a", expirySeconds: 0),
        RevokePassword(app: "plant", name: "a/b"),
        AddOperator(operator: "ci", role: .operate, expirySeconds: 1),
        AddOperator(operator: "ci", role: .view, expirySeconds: nil), ListOperators(),
        RevokeOperator(operator: "ci"), MakeLoginLink(operator: "ci", role: .view),
        ShowCluster(), StepDown(),
        SetWakeTarget(
            app: "plant", user: "a/b", kind: .smsWebhook, address: "+493012345", device: "pc",
            environment: .sandbox, language: "de"),
        SetWakeTarget(app: "plant", user: "a", kind: .udp, address: "a:1"),
        ListWakeTargets(app: "plant", user: "a/b"),
        RemoveWakeTarget(app: "plant", user: "a", id: .max),
        ListWakeLog(app: "plant", user: "a/b"),
        SetWakeTemplate(app: "plant", kind: .smsWebhook, template: "{text: \"${count}\"}"),
        ListWakeTemplates(app: "plant"), RemoveWakeTemplate(app: "plant", kind: .apns),
        TryWakeTemplate(app: "plant", kind: .fcm),
        TryWakeTemplate(app: "plant", kind: .fcm, template: "{}"),
        ListWakeLog(app: "plant", user: "a", after: .max, limit: 1),
        TestWake(app: "plant", user: "a", id: 1), TestWake(app: "plant", user: "a", id: nil),
        ShowSelf(), ReloadConfiguration(), SetLogLevel(level: "debug"), ListListeners(),
        ReadActivity(), ReadActivity(limit: 50),
        ListRefusals(), ListRefusals(after: .max, limit: 1),
        ListLogLines(), ListLogLines(after: .max, limit: 1),
    ]

    @Test func `is read as the same request, whatever its texts contain`() throws {
        var kinds: Set<AdministrationCommand.Kind> = []
        for request in Self.requests {
            let message = APIMessage(request)
            let parts = message.target.split(separator: "?", maxSplits: 1).map(String.init)
            let segments = try #require(
                parts[0].utf8CString.dropLast().withUnsafeBytes {
                    HTTPTarget.segments(of: $0.bytes)
                })
            let place = try #require(APIPlace(segments: segments), "\(message.target)")
            let (operation, path) = try #require(
                place.operations.first { $0.operation.method == message.method })
            let query = try #require(
                parts.count == 1
                    ? []
                    : parts[1].utf8CString.dropLast().withUnsafeBytes {
                        HTTPTarget.members(of: $0.bytes)
                    })
            let command = try operation.command(
                path: path, query: query.map { ($0.name, $0.value) },
                content: message.content ?? [])
            #expect(command == (try AdministrationCommand(line: request.line)), "\(request)")
            #expect(operation.takesContent == (message.content != nil))
            kinds.insert(command.kind)
        }
        #expect(kinds == Set(AdministrationCommand.Kind.allCases))
    }

    @Test func `has an answer with a reply, a refusal, or what is no answer`() throws {
        let reply = try AddUser.reply(status: 200, content: Array(#"{"isNew":true}"#.utf8))
        #expect(reply.isNew)
        let problem = APIProblem(
            title: "Not Found", status: 404, detail: "there is no app",
            code: APIProblem.Code(number: 0x90, name: "topic-name-invalid"))
        #expect(
            throws: AdministrationError.refused(
                AdministrationRefusal(reason: 0x90, message: "there is no app"))
        ) { try AddUser.reply(status: 404, content: problem.bytes) }
        for (status, text) in [
            (200, "<html>"), (200, "{}"), (404, "there is nothing here"), (502, ""), (301, "{}"),
            (
                500,
                #"{"title":"","status":5,"type":"","detail":"","code":{"number":1,"name":""}}"#
            ),
        ] {
            #expect(throws: AdministrationError.self) {
                try AddUser.reply(status: status, content: Array(text.utf8))
            }
        }
    }
}
