// Lists and states of Diuit: how many bytes an answer and an event have, and what they ask of the
// broker.

import Administration
import Testing

@testable import SourceInterfaces

@Suite struct DiuitListTests {
    private let operations = TestOperations()

    /// The answer to an event of alice.
    private func answer(
        _ name: String, _ data: [String: SourceValue] = [:]
    ) throws -> [String: SourceValue] {
        let event = try SocketEvent(
            SourceValue.object(["event": .text(name), "data": .object(data)]).bytes, .plain)
        let diuit = DiuitInterface(operations: operations, app: "demo", user: "alice")
        guard case .object(let members) = try diuit.answer(event) else {
            Issue.record("\(name) is answered with no object")
            return [:]
        }
        return members
    }

    private func items(_ members: [String: SourceValue], _ name: String) -> [SourceValue] {
        if case .array(let items)? = members[name] { items } else { [] }
    }

    private func omittedCount(_ members: [String: SourceValue]) -> Int {
        if case .number(let count)? = members["omitted"] { Int(count) } else { 0 }
    }

    /// Each id is as long as ids are, and is written with twice as many bytes.
    private func makeLargeGroups(_ count: Int) {
        operations.groupNames = (0..<count).map { "g\($0)" }
        let identifiers = (0..<1_000).map { "\($0)" + String(repeating: "\"", count: 60) }
        operations.allowed = identifiers
        operations.members = Array(identifiers.prefix(SourceLimits.occupantsMaximum))
        operations.meta = #"{"a":""# + String(repeating: "x", count: 5_100) + #""}"#
    }

    @Test func `a list of large chats has a bounded number of bytes`() throws {
        makeLargeGroups(1_000)
        let all = try answer("chats/list")
        let count = items(all, "chats").count
        #expect(count > 10 && omittedCount(all) == 1_000 - count)
        #expect(SourceValue.object(all).bytes.count <= SourceLimits.answerByteCountMaximum + 100)
        // In smaller pages all are there.
        var found: Set<SourceValue> = []
        for page in 0..<100 {
            let part = try answer("chats/list", ["count": .number(10), "page": .count(page)])
            #expect(omittedCount(part) == 0)
            found.formUnion(items(part, "chats"))
        }
        #expect(found.count == 1_000)
        #expect(throws: SourceRefusal.self) {
            try answer("chats/list", ["count": .number(1_001)])
        }
        #expect(throws: SourceRefusal.self) {
            try answer("chats/list", ["count": .number(10), "page": .number(201)])
        }
    }

    @Test func `a chat whose list is long tells a part of it and how many there are`() throws {
        makeLargeGroups(1)
        guard case .object(let chat)? = items(try answer("chats/list"), "chats").first else {
            Issue.record("there is no chat")
            return
        }
        #expect(chat["whiteListCount"] == .number(1_000))
        #expect(items(chat, "whiteList").count == SourceLimits.occupantsMaximum)
    }

    @Test func `a list of chats reads the newest messages at once`() throws {
        operations.groupNames = (0..<50).map { "g\($0)" }
        operations.conversations = (0..<50).map {
            ListConversations.Conversation(
                user: nil, groupid: "g\($0)", lastNumber: 1, readThrough: 0, unreadCount: 1,
                lastMessage: ListHistory.Message(1, from: "bob", "text \($0)"))
        }
        operations.conversations.append(
            ListConversations.Conversation(
                user: "bob", groupid: nil, lastNumber: 1, readThrough: 0, unreadCount: 1,
                lastMessage: ListHistory.Message(1, from: "bob", "to alice")))
        let chats = items(try answer("chats/list"), "chats")
        #expect(operations.conversationListCount == 1 && operations.historyListCount == 0)
        #expect(chats.count == 51)
        let texts = chats.map { chat -> SourceValue? in
            guard case .object(let members) = chat,
                case .object(let last)? = members["lastMessage"]
            else { return nil }
            return last["data"]
        }
        #expect(texts == (0..<50).map { .text("text \($0)") } + [.text("to alice")])
    }

    private func conversation(_ number: Int) -> ListConversations.Conversation {
        ListConversations.Conversation(
            user: "u\(number)", groupid: nil, lastNumber: 1, readThrough: 0, unreadCount: 1,
            lastMessage: ListHistory.Message(1, from: "bob", "text \(number)"))
    }

    @Test func `the first hundred conversations have their newest messages, and others null`()
        throws
    {
        operations.conversations = (0..<150).map(conversation)
        let chats = items(try answer("chats/list"), "chats")
        #expect(chats.count == 150 && operations.conversationListCount == 2)
        for (number, chat) in chats.enumerated() {
            guard case .object(let members) = chat else { continue }
            #expect((members["lastMessage"] == .null) == (number >= 100), "\(number)")
        }
    }

    @Test func `pages of messages reach the newest thousand`() throws {
        operations.kept = (1...1_100).reversed().map { ListHistory.Message($0, from: "bob", "x") }
        let chat: SourceValue = .text(DialogName.between("alice", "bob").identifier)
        func numbers(_ page: Int, count: Int) throws -> [String] {
            let list = try answer(
                "messages/list",
                ["chatId": chat, "count": .count(count), "page": .count(page)])
            return items(list, "messages").compactMap { message in
                guard case .object(let members) = message else { return nil }
                return members["id"]?.plainText?.split(separator: ".").last.map(String.init)
            }
        }
        #expect(try numbers(0, count: 100).first == "1100")
        #expect(try numbers(9, count: 100) == (101...200).reversed().map { "\($0)" })
        #expect(throws: SourceRefusal.self) { try numbers(10, count: 100) }
        // The last one of pages that do not divide a thousand is shorter.
        #expect(try numbers(33, count: 30) == (101...110).reversed().map { "\($0)" })
        #expect(throws: SourceRefusal.self) { try numbers(34, count: 30) }
        #expect(throws: SourceRefusal.self) { try numbers(0, count: 101) }
    }

    @Test func `a chat tells its first hundred members`() throws {
        operations.groupNames = ["g"]
        operations.members = (0..<150).map { "m\($0)" }
        guard case .object(let chat)? = items(try answer("chats/list"), "chats").first else {
            Issue.record("there is no chat")
            return
        }
        #expect(items(chat, "members") == (0..<100).map { .text("m\($0)") })
    }

    @Test func `a file in base64 is refused where none are kept`() {
        let chat: SourceValue = .text(DialogName.between("alice", "bob").identifier)
        let error = #expect(throws: SourceRefusal.self) {
            try answer(
                "messages/create",
                [
                    "chatId": chat, "data": .text("YQ=="), "mime": .text("image/png"),
                    "encoding": .text("base64"),
                ])
        }
        #expect(error?.status == 422)
    }

    @Test func `a list of long messages has a bounded number of bytes`() throws {
        let text = String(repeating: "\u{1}", count: 16 << 10)
        operations.kept = (1...100).reversed().map { ListHistory.Message($0, from: "bob", text) }
        let chat: SourceValue = .text(DialogName.between("alice", "bob").identifier)
        let all = try answer("messages/list", ["chatId": chat, "count": .number(100)])
        let count = items(all, "messages").count
        #expect(count > 5 && omittedCount(all) == 100 - count)
        #expect(SourceValue.object(all).bytes.count <= SourceLimits.answerByteCountMaximum + 100)
        let part = try answer(
            "messages/list", ["chatId": chat, "count": .number(5), "page": .number(19)])
        #expect(items(part, "messages").count == 5 && omittedCount(part) == 0)
    }

    @Test func `read marks of a chat are asked for once, whoever its members are`() throws {
        operations.members = (0..<100).map { "m\($0)" }
        operations.kept = [ListHistory.Message(2, from: "bob", "x")]
        operations.readMarks = ["m1": 2, "m2": 1, "m16": 2, "\u{212A}arl": 2]
        let list = try answer("messages/list", ["chatId": .text("g1")])
        guard case .object(let message)? = items(list, "messages").first else {
            Issue.record("there is no message")
            return
        }
        #expect(message["reads"] == .array([.text("m1")]))
        #expect(operations.conversationListCount == 0)
    }

    @Test func `an event with the state of a chat has a bounded number of bytes`() {
        let identifiers = (0..<100).map { "\($0)" + String(repeating: "\"", count: 60) }
        for (event, meta, allowed) in [
            ("whiteList.updated", "", identifiers), ("whiteList.updated", "", nil),
            ("whiteList.updated", "", Array(repeating: "a", count: 1_000)),
            ("meta.updated", String(repeating: "\u{1}", count: 5_120), ["a"]),
            ("meta.updated", #"{"a":1}"#, ["a"]), ("whiteList.updated", "", ["a", "b"]),
        ] {
            let state = DiuitEvents.state(event, ofGroup: "g", meta: meta, allowed: allowed)
            #expect(state.bytes.count <= SourceLimits.stateByteCountMaximum + 100)
        }
        func state(_ event: String, _ meta: String, _ allowed: [String]?) -> SourceValue {
            DiuitEvents.state(event, ofGroup: "g", meta: meta, allowed: allowed)
        }
        let chat = SourceValue.text("g")
        #expect(
            state("whiteList.updated", "", identifiers)
                == .object(["chatId": chat, "whiteListCount": .number(100)]))
        #expect(
            state("whiteList.updated", "", nil) == .object(["chatId": chat, "whiteList": .null]))
        #expect(
            state("whiteList.updated", "", ["a"])
                == .object(["chatId": chat, "whiteList": .array([.text("a")])]))
        #expect(
            state("meta.updated", #"{"a":1}"#, nil)
                == .object(["chatId": chat, "meta": .object(["a": .number(1)])]))
        #expect(
            state("meta.updated", String(repeating: "\u{1}", count: 5_120), nil)
                == .object(["chatId": chat, "metaBytes": .number(5_120)]))
    }

    @Test(arguments: [
        SourceValue.null, .boolean(false), .number(.min), .number(.max), .fraction(-1.5e-300),
        .text(""), .text("\u{0}\u{1f}\n\"\\/é\u{1F426}\u{7f}\u{2028}"), .array([]), .object([:]),
        .array([.null, .text("a"), .array([.number(1)])]),
        .object(["": .null, "\"": .text("\""), "b": .object(["c": .boolean(true)])]),
    ])
    func `a value has at most as many bytes as are counted`(value: SourceValue) {
        #expect(value.bytes.count <= value.byteCountMaximum)
        // The count is good for something: not much more than there is.
        #expect(value.byteCountMaximum <= 2 * value.bytes.count + 24)
    }

    @Test func `a value is written as JSON that is read as the same value`() throws {
        let value = SourceValue.object([
            "b": .array([.null, .boolean(true), .number(.min), .fraction(-1.5e-300)]),
            "a\"": .text("\u{0}\u{1f}\n\"\\/é\u{1F426}\u{7f}\u{2028}"), "": .object([:]),
            "c": .array([.fraction(1e300), .fraction(0.1), .number(.max), .array([])]),
        ])
        #expect(try SourceValue(value.bytes) == value)
        #expect(
            SourceValue.object(["b": .text("a/b"), "a": .number(-7)]).bytes
                == Array(#"{"a":-7,"b":"a/b"}"#.utf8))
        #expect(SourceValue.fraction(.infinity).bytes == Array("null".utf8))
    }

    // MARK: - Login

    private func login(seconds: UInt64) -> UInt64? {
        operations.login = SourceLogin(
            user: SourceUser(app: "demo", user: "alice"), device: nil, seconds: seconds,
            contentType: DiuitLogin.contentType, nonce: "n", rights: nil)
        _ = SourceExecutor(operations: operations).answer(
            SourceRequest(
                route: .exchangeToken, query: [],
                content: Array(#"{"authToken":"x","deviceId":"d"}"#.utf8), contentForm: .json,
                host: "h", user: nil), check: nil)
        return operations.minted?.expirySeconds
    }

    @Test(arguments: [
        (0, 1), (3_600, 3_600), (SourceLimits.sessionSeconds, SourceLimits.sessionSeconds),
        (10 * SourceLimits.sessionSeconds, SourceLimits.sessionSeconds),
    ])
    func `exp of a JWT bounds a session, which is no longer than others`(
        seconds: UInt64, expected: UInt64
    ) {
        #expect(login(seconds: seconds) == expected)
    }
}
