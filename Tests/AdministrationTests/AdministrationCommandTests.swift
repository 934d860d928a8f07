// The broker's side: lines become commands, and invalid lines get their error.
import Administration
import Testing

private func read(_ text: String) throws(AdministrationRefusal) -> AdministrationCommand {
    try AdministrationCommand(line: Array(text.utf8))
}

@Suite struct AdministrationCommandTests {
    @Test func `each request is decoded as it was encoded`() throws {
        let mint = MintTokens(
            app: "demo", users: ["a", "ü\"\n"], device: "main", expirySeconds: 315_360_000,
            batch: "lot 7")
        #expect(try AdministrationCommand(line: mint.line) == .mintTokens(mint))
        let create = CreateApp(app: "demo")
        #expect(try AdministrationCommand(line: create.line) == .createApp(create))
        let add = AddUser(app: "demo", user: "pump-7")
        #expect(try AdministrationCommand(line: add.line) == .addUser(add))
        let change = ChangeGroup(app: "demo", groupid: "g", change: .allowed(["a"]))
        #expect(try AdministrationCommand(line: change.line) == .changeGroup(change))
        let ban = ChangeMember(app: "demo", groupid: "g", user: "a", action: .ban)
        #expect(try AdministrationCommand(line: ban.line) == .changeMember(ban))
        #expect(try AdministrationCommand(line: ListApps().line) == .listApps(ListApps()))
        #expect(
            try AdministrationCommand(line: ReadStatistics().line)
                == .readStatistics(ReadStatistics()))
    }

    @Test func `a message is one line for any text`() {
        let line = AddUser(app: "a\nb", user: "c\r\n\u{2028}").line
        #expect(line.count { $0 == UInt8(ascii: "\n") } == 1)
        #expect(line.last == UInt8(ascii: "\n"))
    }

    @Test func `the lines are as documented`() {
        let add = AddUser(app: "demo", user: "pump-7")
        #expect(
            String(decoding: add.line, as: UTF8.self)
                == #"{"body":{"app":"demo","user":"pump-7"},"request":"user.add","version":1}"#
                + "\n")
        #expect(
            String(decoding: add.line(replying: .init(isNew: true)), as: UTF8.self)
                == #"{"reply":{"isNew":true},"version":1}"# + "\n")
        #expect(
            String(decoding: AdministrationRefusal(reason: 135, message: "no").line, as: UTF8.self)
                == #"{"refusal":{"message":"no","reason":135},"version":1}"# + "\n")
    }

    @Test func `unknown members are ignored`() throws {
        let line =
            #"{"version":1,"request":"user.add","body":{"app":"a","user":"b","new":1},"x":2}"#
        #expect(try read(line) == .addUser(AddUser(app: "a", user: "b")))
    }

    static let wrong: [(line: String, reason: UInt8, message: String)] = [
        ("", 0x81, "not JSON in UTF-8"),
        ("[\u{FFFE}\u{0}]", 0x81, "not JSON in UTF-8"),
        ("{", 0x81, "not JSON"),
        ("[]", 0x81, "not an object"),
        ("{}", 0x81, "version is missing"),
        (#"{"version":1}"#, 0x81, "request is missing"),
        (#"{"version":1,"request":"user.add"}"#, 0x81, "body is missing"),
        (#"{"version":1,"request":"user.add","body":{"app":"a"}}"#, 0x81, "user is missing"),
        (
            #"{"version":1,"request":"user.add","body":{"app":1,"user":"b"}}"#, 0x81,
            "body.app has the wrong type"
        ),
        (
            #"{"version":2,"request":"user.add","body":{}}"#, 0x84,
            "this broker speaks version 1 of the administration protocol, not 2"
        ),
        (
            #"{"version":1,"request":"broker.explode","body":{}}"#, 0x83,
            "this broker does not know the request broker.explode"
        ),
    ]

    @Test(arguments: wrong)
    func `an invalid line is refused with its reason`(line: String, reason: UInt8, message: String)
    {
        #expect(throws: AdministrationRefusal(reason: reason, message: message)) {
            try read(line)
        }
    }

    @Test func `a line or list beyond its maximum is refused`() throws {
        let most = MintTokens(app: "a", users: .init(repeating: "u", count: 10_000))
        _ = try AdministrationCommand(line: most.line)
        let more = MintTokens(app: "a", users: .init(repeating: "u", count: 10_001))
        #expect(throws: AdministrationRefusal.self) { try AdministrationCommand(line: more.line) }
        let endless = [UInt8](
            repeating: 0x20, count: AdministrationLine.requestByteCountMaximum + 1)
        #expect {
            try AdministrationCommand(line: endless)
        } throws: { error in
            (error as? AdministrationRefusal)?.reason == 0x95
        }
    }

    @Test func `the largest allowed mint fits its lines`() {
        let user = String(repeating: "\u{1F426}", count: 16)
        let mint = MintTokens(app: "a", users: .init(repeating: user, count: 10_000))
        let token = MintTokens.Token(
            user: user, id: .init(repeating: "a", count: 12),
            token: .init(repeating: "b", count: 43))
        let reply = mint.line(replying: .init(tokens: .init(repeating: token, count: 10_000)))
        #expect(mint.line.count < AdministrationLine.requestByteCountMaximum)
        #expect(reply.count < AdministrationLine.replyByteCountMaximum)
    }

    @Test(arguments: [
        (
            "nobody knows vic in demo; make the user known with: martlet user add vic",
            "nobody knows vic in demo"
        ),
        ("no right; see: martlet explain, martlet app key list", "no right"),
        ("nobody knows ann; or bob; see: martlet user list", "nobody knows ann; or bob"),
        ("a queue is full", "a queue is full"), ("martlet is full", "martlet is full"),
    ])
    func `users get no command of operators`(message: String, ofUsers: String) {
        let refusal = AdministrationRefusal(reason: 0x90, message: message)
        #expect(refusal.messageForUsers == ofUsers)
    }
}
