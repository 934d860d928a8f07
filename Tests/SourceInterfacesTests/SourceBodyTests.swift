// Content and queries as clients of other systems write them.

import Glibc
import Testing

@testable import SourceInterfaces

private func request(
    _ content: String, _ form: SourceRequest.ContentForm, query: String = ""
) -> SourceRequest {
    SourceRequest(
        route: .createDialog, query: Array(query.utf8), content: Array(content.utf8),
        contentForm: form, host: "h", user: nil)
}

@Suite struct SourceBodyTests {
    @Test func `a form has lists and objects in brackets`() throws {
        let body = try SourceBody(
            request(
                "type=2&name=a+b%2Bc&push_all[occupants_ids][]=55&push_all%5Boccupants_ids%5D[]=56"
                    + "&files[0][type]=image", .form))
        #expect(
            body.members == [
                "type": .text("2"), "name": .text("a b+c"),
                "push_all": .object(["occupants_ids": .array([.text("55"), .text("56")])]),
                "files": .object(["0": .object(["type": .text("image")])]),
            ])
    }

    @Test(arguments: [
        "a", "a=1&a=2", "a=%4", "a=%zz", "a=%ff", "a[=1", "a[]=1&a=2", "a[b]=1&a[]=2", "a]b[=1",
        "a[b]c=1",
    ])
    func `a malformed form is refused`(text: String) {
        #expect(throws: SourceRefusal.self) { try SourceBody(request(text, .form)) }
    }

    @Test func `a form and JSON are bounded in members and levels`() {
        let many = (0...SourceLimits.fieldsMaximum).map { "a\($0)=1" }.joined(separator: "&")
        #expect(throws: SourceRefusal.self) { try SourceBody(request(many, .form)) }
        let deep = "a" + String(repeating: "[b]", count: SourceLimits.depthMaximum) + "=1"
        #expect(throws: SourceRefusal.self) { try SourceBody(request(deep, .form)) }
        let levels = String(repeating: "[", count: 30_000)
        #expect(throws: SourceRefusal.self) { try SourceBody(request("{\"a\":\(levels)", .json)) }
        let list = String(repeating: "0,", count: SourceLimits.valuesMaximum) + "0"
        #expect(throws: SourceRefusal(400, "more than 10000 values of JSON")) {
            try SourceBody(request("{\"a\":[\(list)]}", .json))
        }
        #expect(throws: SourceRefusal(415, "the content must be application/json")) {
            try SourceBody(request("x", .other))
        }
    }

    @Test func `JSON keeps its values`() throws {
        let text = #"{"a":[1,"2",true,null,1.5],"b":{"c":-3}}"#
        let body = try SourceBody(request(text, .json))
        #expect(
            body.members == [
                "a": .array([.number(1), .text("2"), .boolean(true), .null, .fraction(1.5)]),
                "b": .object(["c": .number(-3)]),
            ])
        #expect(SourceValue.object(body.members).bytes == Array(text.utf8))
    }

    @Test func `numbers are whole if they can be, and texts have escapes`() throws {
        let text = #" { "a\u00e9\n" : [ -0, 1.0, 1e3, 1e400, 9223372036854775807, 2.5E-1 ] } "#
        #expect(
            try SourceBody(request(text, .json)).members == [
                "aé\n": .array([
                    .number(0), .number(1), .number(1_000), .null, .number(.max), .fraction(0.25),
                ])
            ])
    }

    @Test(arguments: [
        "", "{", "{}x", "[1,]", "{\"a\":1,}", "{\"a\":1,\"a\":2}", "{a:1}", "{\"a\":01}",
        "{\"a\":1.}", "{\"a\":.5}", "{\"a\":+1}", "{\"a\":1e}", "{\"a\":tru}", "{\"a\":nulls}",
        "{\"a\":\"\u{1}\"}", "{\"a\":\"\\ud800\"}", "{\"a\":\"\\x\"}", "{\"a\" 1}", "/**/{}",
        "{\"a\":\(String(repeating: "1", count: 100))}", "{\"a\":NaN}", "{'a':1}",
    ])
    func `what is no JSON is refused`(text: String) {
        #expect(throws: SourceRefusal.self) { try SourceBody(request(text, .json)) }
    }

    /// The thread that reads it executes the requests of operators too. In CPU time of a debug
    /// build, so that other processes do not count.
    @Test func `the largest content is read in a quarter of a second`() throws {
        let list = String(repeating: "111111,", count: SourceLimits.valuesMaximum - 3)
        let empty = String(repeating: "{},   ", count: SourceLimits.valuesMaximum - 3)
        for values in [list, empty] {
            let content = Array("{\"a\":[\(values)null]}".utf8)
            let start = clock()
            _ = try SourceBody(request(String(decoding: content, as: UTF8.self), .json))
            let seconds = Double(clock() - start) / Double(CLOCKS_PER_SEC)
            #expect(seconds < 0.25, "\(seconds) s")
        }
    }

    @Test func `the paths of interfaces have their methods`() {
        #expect(SourceRoute.find(.get, ["chat", "Dialog.json"]) == .route(.listDialogs))
        #expect(SourceRoute.find(.get, ["chat", "Dialog"]) == .route(.listDialogs))
        #expect(SourceRoute.find(.put, ["chat", "Dialog", "d.json"]) == .route(.updateDialog("d")))
        #expect(
            SourceRoute.find(.delete, ["chat", "Message", "a,b"])
                == .route(.deleteMessages(identifiers: "a,b")))
        #expect(SourceRoute.find(.put, ["chat", "Dialog"]) == .otherMethods)
        for path in [["chat"], ["chat", "Dialog.xml"], ["chat", "Dialog", ""], ["auth"], [""]] {
            #expect(SourceRoute.find(.get, path) == .nothing)
        }
    }
}
