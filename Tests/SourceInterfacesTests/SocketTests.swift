// Messages of Engine.IO and Socket.IO, and the same events as plain JSON.

import Testing

@testable import SourceInterfaces

@Suite struct SocketTests {
    private func input(_ text: String, _ form: SocketForm = .socketIO) -> SocketInput {
        form.input(Array(text.utf8))
    }

    @Test(arguments: [
        ("2", SocketInput.ping([])), ("2probe", .ping(Array("probe".utf8))), ("3", .pong),
        ("40", .connect), ("40{\"a\":1}", .connect), ("40/,", .connect),
        ("40/chat,", .connectElsewhere(namespace: "/chat")), ("41", .close), ("1", .close),
        ("42[\"x\"]", .event), ("431[]", .ignored), ("6", .ignored),
    ])
    func `packets have their meaning`(text: String, meaning: SocketInput) {
        #expect(input(text) == meaning)
    }

    @Test(arguments: ["", "0", "5", "7", "x", "4", "44", "45", "46", "47", "40/\u{ff}x", "é"])
    func `what no client sends is a fault, a closed namespace or none`(text: String) {
        switch input(text) {
        case .fault, .connectElsewhere: break
        case let other: Issue.record("\(text) is \(other)")
        }
    }

    @Test func `a client that may come back gets no DISCONNECT of Socket IO`() {
        for (code, text) in [(403, "41"), (413, "41"), (404, "41")] {
            #expect(SocketForm.socketIO.farewell(after: code) == Array(text.utf8))
        }
        for code in [408, 429, 503, 507] {
            #expect(SocketForm.socketIO.farewell(after: code) == nil, "\(code)")
        }
        #expect(SocketForm.plain.farewell(after: 403) == nil)
    }

    @Test func `pings of plain JSON have any white space`() {
        #expect(input(#"{"event":"pong"}"#, .plain) == .pong)
        #expect(input(#" { "event" : "ping" } "#, .plain) == .ping([]))
        #expect(input(#"{"event":"chats/list","id":1}"#, .plain) == .event)
        #expect(input("x", .plain) == .event)
    }

    @Test func `events have a name, data and a number`() throws {
        func event(_ text: String, _ form: SocketForm) throws -> SocketEvent {
            try SocketEvent(Array(text.utf8), form)
        }
        let data: [String: SourceValue] = ["a": .number(1)]
        for (text, form) in [
            (#"427["x",{"a":1}]"#, SocketForm.socketIO), (#"42/,7["x",{"a":1},2]"#, .socketIO),
            (#"{"event":"x","id":7,"data":{"a":1}}"#, .plain),
        ] {
            let found = try event(text, form)
            #expect(found.name == "x" && found.number == 7)
            #expect(try found.members() == data)
        }
        #expect(try event(#"42["x"]"#, .socketIO).number == nil)
        #expect(try event(#"42["x"]"#, .socketIO).members().isEmpty)
        #expect(try event(#"{"event":"x"}"#, .plain).number == nil)
    }

    @Test(arguments: [
        "42", "42{}", "42[]", "42[1]", "42[\"x\"", "42\u{b2}[\"x\"]",
        "4299999999999999999999[\"x\"]",
        "429007199254740992[\"x\"]", "42/[\"x\"]",
    ])
    func `what is no event is refused`(text: String) {
        let error = #expect(throws: SourceRefusal.self) {
            try SocketEvent(Array(text.utf8), .socketIO)
        }
        #expect(error?.status == 400)
    }

    @Test(arguments: [
        "[]", "1", "{}", #"{"event":1}"#, #"{"event":"x","id":-1}"#, #"{"event":"x","id":"1"}"#,
    ])
    func `what is no event of plain JSON is refused`(text: String) {
        let error = #expect(throws: SourceRefusal.self) {
            try SocketEvent(Array(text.utf8), .plain)
        }
        #expect(error?.status == 400)
    }

    @Test func `answers and refusals name the event of the client`() {
        func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
        let (io, plain) = (SocketForm.socketIO, SocketForm.plain)
        #expect(text(io.answer(.null, to: 7)) == "437[null]")
        #expect(io.answer(.null, to: nil).isEmpty && plain.answer(.null, to: nil).isEmpty)
        #expect(text(plain.answer(.null, to: 7)) == #"{"data":null,"id":7}"#)
        #expect(
            text(io.refusal(code: 403, "no", of: "x", to: 7))
                == #"437[{"error":{"code":403,"message":"no"}}]"#)
        #expect(
            text(io.refusal(code: 403, "no", of: "x", to: nil))
                == #"42["error",{"code":403,"event":"x","message":"no"}]"#)
        #expect(
            text(plain.refusal(code: 403, "no", of: nil, to: 7))
                == #"{"error":{"code":403,"message":"no"},"id":7}"#)
    }

    @Test func `a handshake is of version 4 over WebSocket`() {
        func code(_ query: [String: String]?) -> SourceValue? {
            guard case .object(let members)? = SocketHandshake.fault(of: query) else { return nil }
            return members["code"]
        }
        #expect(code(["EIO": "4", "transport": "websocket"]) == nil)
        #expect(code(["EIO": "4", "transport": "polling"]) == .number(0))
        #expect(code(["EIO": "3", "transport": "websocket"]) == .number(5))
        #expect(code(["EIO": "4", "transport": "websocket", "sid": ""]) == .number(1))
        #expect(code(nil) == .number(3))
    }
}
