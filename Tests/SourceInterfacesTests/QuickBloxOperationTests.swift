// What requests of QuickBlox's clients ask of the broker.

import Administration
import Testing

@testable import SourceInterfaces

@Suite struct QuickBloxOperationTests {
    private let operations = TestOperations()

    private func answer(
        _ route: SourceRoute, _ content: String = "", query: String = ""
    ) -> (UInt16, String) {
        let answer = SourceExecutor(operations: operations).answer(
            SourceRequest(
                route: route, query: Array(query.utf8), content: Array(content.utf8),
                contentForm: content.isEmpty ? .other : .json, host: "h",
                user: SourceUser(app: "demo", user: "alice")), check: nil)
        return (answer.status, String(decoding: answer.content, as: UTF8.self))
    }

    /// The user's other devices may write at the same time, also the same text.
    @Test func `a message that is kept is told, however many others come`() {
        operations.addedBySend = (8...40).reversed().map {
            ListHistory.Message($0, from: "alice", $0 < 39 ? "other" : "hello!")
        }
        operations.addedBySend.append(ListHistory.Message(7, from: "alice", "hello!"))
        operations.sendReply.keptNumber = 7
        let (status, text) = answer(
            .createMessage, #"{"recipient_id":"bob","message":"hello!"}"#)
        #expect(status == 201, "\(text)")
        #expect(text.contains(#".7""#), "\(text)")
    }

    @Test func `a message that is not kept is refused`() {
        let (status, _) = answer(.createMessage, #"{"recipient_id":"bob","message":"hello!"}"#)
        #expect(status == 507)
    }

    @Test func `nobody is added to a dialog without the right to send to them`() {
        operations.unreachable = ["boss"]
        for (route, content) in [
            (SourceRoute.createDialog, #"{"type":2,"name":"x","occupants_ids":"boss"}"#),
            (.updateDialog("g1"), #"{"push_all":{"occupants_ids":["boss"]}}"#),
        ] {
            let (status, text) = answer(route, content)
            #expect(status == 403 && text.contains("no right to send to boss"), "\(text)")
        }
    }

    @Test func `nobody is added to a dialog who is in too many of others`() {
        operations.crowded = ["bob"]
        for (route, content) in [
            (SourceRoute.createDialog, #"{"type":2,"name":"x","occupants_ids":"bob"}"#),
            (.updateDialog("g1"), #"{"push_all":{"occupants_ids":["bob"]}}"#),
        ] {
            let (status, text) = answer(route, content)
            #expect(status == 409 && text.contains("bob can only join by itself"), "\(text)")
        }
    }

    @Test func `a change that a limit refuses is undone`() {
        operations.changes = []
        operations.withoutRoom = ["carol"]
        operations.meta = #"{"interface":"quickblox","type":2}"#
        let content = #"{"name":"new","push_all":{"occupants_ids":["bob","carol"]}}"#
        let (status, text) = answer(.updateDialog("g1"), content)
        #expect(status == 409, "\(text)")
        let expected = ["allowed alice bob carol", "join bob", "kick bob", "allowed alice"]
        #expect(operations.changes == expected)
    }

    @Test func `a dialog that a limit refuses is not made`() {
        operations.changes = []
        operations.withoutRoom = ["carol"]
        let (status, text) = answer(
            .createDialog, #"{"type":2,"name":"x","occupants_ids":"bob,carol"}"#)
        #expect(status == 409, "\(text)")
        #expect(operations.changes == ["create", "join bob", "kick bob", "leave alice"])
    }

    @Test func `a change that would remove the owner changes nothing`() {
        operations.owner = "owen"
        operations.meta = #"{"interface":"quickblox","type":2}"#
        let (status, text) = answer(
            .updateDialog("g1"), #"{"name":"new","pull_all":{"occupants_ids":["owen","bob"]}}"#)
        #expect(status == 403 && text.contains("owner"), "\(text)")
    }

    @Test func `a list of messages reads as many as its page has, unless times are out of order`() {
        operations.kept = (1...900).reversed().map { ListHistory.Message($0, from: "bob", "\($0)") }
        let query = "chat_dialog_id=g&mark_as_read=0"
        #expect(answer(.listMessages, query: query + "&limit=20").1.contains(#""_id":"g.881""#))
        #expect(operations.historyListCount == 1)
        let second = answer(.listMessages, query: query + "&limit=20&skip=100").1
        #expect(second.contains(#""_id":"g.800""#) && second.contains(#""_id":"g.781""#))
        #expect(operations.historyListCount == 3)
        _ = answer(.listMessages, query: query + "&sort_asc=date_sent&limit=1")
        #expect(operations.historyListCount == 12)
        // The newest one was imported: its time is before all others.
        operations.kept[0].unixMilliseconds = 1_600_000_000_000
        let imported = answer(.listMessages, query: query + "&limit=1").1
        #expect(imported.contains(#""_id":"g.899""#), "\(imported)")
        #expect(operations.historyListCount == 22)
    }

    @Test func `conditions look at the newest thousand messages of a dialog`() {
        operations.kept = (1...1_100).reversed().map { ListHistory.Message($0, from: "bob", "x") }
        let query = "chat_dialog_id=g&mark_as_read=0"
        let oldest = answer(.listMessages, query: query + "&sort_asc=date_sent&limit=1").1
        #expect(oldest.contains(#""_id":"g.101""#), "\(oldest)")
        let count = answer(.listMessages, query: query + "&sender_id=bob&count=1").1
        #expect(count == #"{"items":{"count":1000}}"#)
    }

    @Test func `an answer names the first hundred occupants`() {
        operations.members = (0..<150).map { "m\($0)" }
        operations.groupNames = ["g1"]
        let list = answer(.listDialogs).1
        #expect(list.contains(#""m99""#) && !list.contains(#""m100""#), "\(list)")
    }

    @Test func `a list of a hundred dialogs reads the store once`() {
        operations.conversations = (1...100).map { number in
            ListConversations.Conversation(
                user: nil, groupid: "g\(number)", lastNumber: 3, readThrough: 1, unreadCount: 2,
                lastMessage: ListHistory.Message(3, from: "bob", "text"))
        }
        let (status, text) = answer(.listDialogs)
        #expect(status == 200)
        #expect(text.contains(#""last_message":"text""#))
        #expect(operations.conversationListCount == 1)
        #expect(operations.historyListCount == 0)
    }
}
