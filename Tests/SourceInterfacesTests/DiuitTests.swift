// Messages and events in the form of Diuit.

import Testing

@testable import SourceInterfaces

@Suite struct DiuitTests {
    private func event(_ members: [String: SourceValue]) throws -> SocketEvent {
        try SocketEvent(
            SourceValue.object(["event": .text("x"), "data": .object(members)]).bytes, .plain)
    }

    /// What a receiver gets of a sent message.
    private func passed(_ members: [String: SourceValue]) throws -> [String: SourceValue] {
        let message = try DiuitMessage(event(members))
        return DiuitMessage(
            type: message.type, text: message.data, attributes: try message.attributes() ?? [:]
        ).members(in: .group("g"), from: "alice")
    }

    @Test func `media types and data survive`() throws {
        let long = SourceValue.object(["a": .text(String(repeating: "é", count: 180))])
        for (mime, encoding, type, meta) in [
            ("text/plain", "utf8", 0, SourceValue.object([:])), ("text/csv", "utf8", 0, long),
            ("image/png", "url", 1, .object(["a": .array([.null, .fraction(1.5)])])),
            ("audio/ogg", "url", 2, .object(["a": .text("\u{1F426}")])),
            ("video/mp4", "url", 3, long),
            ("application/pdf", "url", 4, .object(["name": .text("sampleFile.pdf")])),
        ] {
            let sent: [String: SourceValue] = [
                "data": .text("x"), "mime": .text(mime), "encoding": .text(encoding),
                "meta": meta, "chatId": .text("g"),
                "senderUser": .object(["serial": .text("alice")]),
            ]
            #expect(try passed(sent) == sent)
            #expect(try DiuitMessage(event(sent)).type == type)
        }
    }

    @Test func `a message without members has the defaults`() throws {
        #expect(
            try passed(["data": .text("x")]) == [
                "data": .text("x"), "mime": .text("text/plain"), "encoding": .text("utf8"),
                "meta": .object([:]), "chatId": .text("g"),
                "senderUser": .object(["serial": .text("alice")]),
            ])
    }

    @Test func `attributes of other clients are data`() {
        let message = DiuitMessage(type: 1, text: "https://a", attributes: ["unit": "C"])
        #expect(message.mime == "image/*" && message.encoding == "url")
        #expect(message.meta == .object(["unit": .text("C")]))
        // Another client may write anything there.
        let odd = DiuitMessage(type: 0, text: "x", attributes: ["meta": "{", "meta2": "1"])
        #expect(odd.meta == .object([:]))
    }

    @Test func `data that is too long or no object is refused`() throws {
        func status(_ meta: SourceValue) throws -> UInt16? {
            let message = try DiuitMessage(event(["data": .text("x"), "meta": meta]))
            do throws(SourceRefusal) {
                _ = try message.attributes()
                return nil
            } catch {
                return error.status
            }
        }
        let text = String(repeating: "x", count: SourceLimits.messageMetaByteCountMaximum - 8)
        #expect(try status(.object(["a": .text(text)])) == nil)
        #expect(try status(.object(["a": .text(text + "x")])) == 413)
        #expect(try status(.text("x")) == 400)
        #expect(throws: SourceRefusal.self) { try DiuitMessage(event([:])) }
        #expect(throws: SourceRefusal.self) {
            try DiuitMessage(event(["data": .text("x"), "mime": .number(1)]))
        }
    }

    private func output(_ message: String) -> SocketOutput {
        DiuitEvents.output(of: Array(message.utf8), to: "bob")
    }

    @Test func `messages of the broker become events`() {
        let pair = DialogName.between("alice", "bob").identifier
        #expect(
            output(
                #"{"type":"message","number":3,"kind":"user","from":"alice","time":5,"kept":7,"#
                    + #""t":0,"b":"x"}"#)
                == .event(
                    "message",
                    .object([
                        "chatId": .text(pair), "id": .text("\(pair).7"), "data": .text("x"),
                        "mime": .text("text/plain"), "encoding": .text("utf8"),
                        "meta": .object([:]), "createdAt": .number(5),
                        "senderUser": .object(["serial": .text("alice")]),
                    ])))
        func notice(_ event: String) -> SocketOutput {
            output(
                #"{"type":"message","kind":"groupEvent","from":"alice","group":"g","#
                    + #""event":"\#(event)","user":"carol"}"#)
        }
        let data = SourceValue.object(["chatId": .text("g"), "userId": .text("carol")])
        #expect(notice("joined") == .event("user.joined", data))
        #expect(notice("left") == .event("user.left", data))
        #expect(notice("kicked") == .event("user.kicked", data))
        #expect(notice("meta-updated") == .state("meta.updated", ofGroup: "g"))
        #expect(notice("allow-list-updated") == .state("whiteList.updated", ofGroup: "g"))
        #expect(notice("added") == .nothing && notice("history-updated") == .nothing)
        #expect(
            output(#"{"type":"message","kind":"kickedOut","group":"g"}"#)
                == .event(
                    "user.kicked", .object(["chatId": .text("g"), "userId": .text("bob")])))
        #expect(output(#"{"type":"message","kind":"topic","topic":"a"}"#) == .nothing)
        #expect(output(#"{"type":"pong"}"#) == .nothing)
    }

    @Test(arguments: [
        (0x86, 403), (0x87, 403), (0x8A, 403), (0x8C, 403), (0xA0, 403), (0x8D, 408),
        (0x8E, 4111), (0x95, 413), (0x93, 429), (0x96, 429), (0x97, 429), (0x9F, 429),
        (0x88, 503), (0x89, 503), (0x8B, 503), (0x82, 400), (0x98, 400),
    ])
    func `reasons have codes`(reason: Int, code: Int) {
        #expect(
            output(#"{"type":"closed","reason":\#(reason),"name":"n","detail":"d"}"#)
                == .closed(code: code, "d"))
        #expect(
            output(#"{"type":"refused","reason":\#(reason),"name":"n"}"#)
                == .refused(code: code, "n"))
    }

    @Test func `the paths of Diuit have their methods`() {
        #expect(SourceRoute.find(.get, ["1", "auth", "nonce"]) == .route(.makeNonce))
        #expect(SourceRoute.find(.post, ["1", "auth", "login"]) == .route(.exchangeToken))
        #expect(SourceRoute.find(.get, ["1", "auth", "login"]) == .otherMethods)
        for path in [["1"], ["1", "auth"], ["1", "auth", ""], ["socket.io", ""]] {
            #expect(SourceRoute.find(.get, path) == .nothing)
        }
        #expect(SocketForm(path: ["socket.io", ""]) == .socketIO)
        #expect(SocketForm(path: ["1", "socket"]) == .plain)
        #expect(SocketForm(path: ["socket.io", "x"]) == nil)
    }
}
