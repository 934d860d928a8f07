// One line for each message, as text and as JSON, for any content.
import MartletClient
import Testing

@testable import martlet

@Suite struct MessagePrinterTests {
    private let printer = MessagePrinter(isJSON: false, stateFile: nil)

    private func message(
        _ kind: IncomingMessage.Kind, _ content: MessageContent
    ) -> IncomingMessage {
        IncomingMessage(
            kind: kind, from: "alice", time: 5, content: content, grade: .durable,
            isPossibleDuplicate: false, record: InboxRecord(epoch: 0xAB, number: 3))
    }

    @Test func `a line for people has sender, kind and text`() {
        #expect(printer.text(message(.unicast, .text("hi"))) == "alice (unicast): hi")
        #expect(
            printer.text(message(.group("g"), .text("http://x", type: 1)))
                == "alice (group g, image): http://x")
        #expect(
            printer.text(message(.broadcast, .text("x", type: 9)))
                == "alice (broadcast, type 9): x")
        #expect(
            printer.text(message(.topic("a/b"), .bytes([0xFF, 0]))) == "alice (topic a/b, "
                + "hexadecimal): ff00")
        var doubtful = message(.topic("a"), .bytes(Array("text".utf8)))
        doubtful.isPossibleDuplicate = true
        #expect(printer.text(doubtful) == "alice (topic a, possible duplicate): text")
    }

    @Test func `a message cannot end its line or move the cursor`() {
        let hostile = message(.unicast, .text("a\nbob (unicast): b\u{1B}[2J\u{202E}"))
        #expect(
            printer.text(hostile)
                == #"alice (unicast): a\u{a}bob (unicast): b\u{1b}[2J\u{202e}"#)
        #expect(!printer.json(hostile).contains("\n"))
    }

    @Test func `a line for programs has the receiver's JSON and the delivery`() {
        #expect(
            printer.json(message(.group("g"), .text("\"")))
                == #"{"msg":{"t":"0","b":"\""},"from":"alice","time":"5","groupid":"g","#
                + #""kind":"group","grade":"durable","epoch":"ab","number":3}"#)
        #expect(
            printer.json(message(.topic("a/b"), .bytes([0xFF])))
                == #"{"bytes":"/w==","from":"alice","time":"5","kind":"topic","topic":"a/b","#
                + #""grade":"durable","epoch":"ab","number":3}"#)
    }
}
