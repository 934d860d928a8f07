// Messages that wait for a moderator.

import BrokerTerms
import Primitives
import Testing

@testable import BrokerCore

@Suite struct `A moderated message` {
    let world = World()

    init() {
        world.moderate()
        world.beginModerator()
        world.begin("ann/1", "bob/pc")
    }

    @Test func `is delivered and answered after it was accepted, and not before`() {
        world.send("ann/1", 1, to: .user("bob"), "hello")
        world.settle()
        #expect(
            world.lines() == [
                #"censor/1: #0 {"event":"MESSAGE_QUESTION","user":"ann","#
                    + #""number":1700000000000000,"left":2000,"device":"1","to":["bob"],"t":0,"#
                    + #""b":"hello","time":1700000000000}"#
            ])
        #expect(world.gauges.heldMessages == 1)
        world.decide(1_700_000_000_000_000, "accept")
        #expect(
            world.outcome() == [
                "bob/pc: #1 \"hello\" from ann", "ann/1: result 1, sent",
            ])
        #expect(world.gauges.heldMessages == 0)
    }

    @Test func `is refused with the moderator's code and text, and reaches nobody`() {
        world.send("ann/1", 1, to: .user("bob"), "shit", id: "m-1")
        let question = world.questions().numbers[0]
        world.decide(question, "refuse/-4408", "no such words")
        #expect(
            world.outcome() == [
                #"ann/1: #0 {"event":"MESSAGE_REFUSED","user":"ann","number":1,"mid":"m-1","#
                    + #""code":-4408,"reason":"no such words"}"#,
                "ann/1: result 1 (m-1), implementationSpecificError",
            ])
        #expect(world.counters.messagesRefusedByModerator == 1)
        // A refusal leaves no trace: the number is free.
        world.send("ann/1", 1, to: .user("bob"), "well")
        world.decide(world.questions().numbers[0], "accept")
        #expect(world.outcome().contains("ann/1: result 1, sent"))
    }

    @Test func `gets the content of the moderator, and its sender is told`() {
        world.send("ann/1", 1, to: .user("bob"), "shit")
        world.decide(world.questions().numbers[0], "rewrite/17", "****")
        #expect(
            world.outcome() == [
                #"ann/1: #0 {"event":"MESSAGE_REWRITTEN","user":"ann","number":1,"code":17}"#,
                "bob/pc: #1 \"****\" from ann", "ann/1: result 1, sent",
            ])
    }

    /// The sender would choose a message about which nobody can be asked.
    @Test func `of control characters is asked about in base64, and refused beyond a bound`() {
        world.moderate {
            $0.topics = [Array("t".utf8)]
            $0.acceptsWhenSilent = true
        }
        world.send(
            "ann/1", 1, to: .topic("t"), String(repeating: "\u{1}", count: 3), isRaw: true)
        world.settle()
        #expect(world.lines().contains { $0.contains(#""base64":"AQEB""#) })
        world.send(
            "ann/1", 2, to: .user("bob"), String(repeating: "\u{1}", count: 140_000),
            byteCount: 1_000)
        #expect(world.outcome().contains("ann/1: result 2, packetTooLarge"))
    }

    /// The ranges of fields that it does not have are somewhere in the bytes of its turn.
    @Test func `that asks for a receipt is sent from behind many other bytes`() {
        var bytes = [UInt8](repeating: 0, count: 5_000)
        var request = SendRequest(
            number: 1, grade: .durable, target: .user(bytes.appendRange("bob")),
            payload: bytes.appendRange("\0hello"), messageByteCount: 21)
        request.asks = .delivered
        request.reference = 0xA1
        let end = ByteRange(offset: bytes.count, count: 0)
        request.attributes = end
        request.mentions.names = end
        request.collapseKey = end
        request.push = end
        world.step(.sendReceived(world.connections["ann/1"]!, request), bytes: bytes)
        world.decide(world.questions().numbers[0], "accept")
        #expect(world.outcome().contains { $0.hasPrefix("ann/1: result 1, sent") })
    }

    @Test func `gets no new contents beyond what a sender may have held`() {
        world.moderate { $0.topics = [Array("t".utf8)] }
        for number in 1...20 {
            world.send("ann/1", UInt64(number), to: .topic("t"), "x", isRaw: true)
        }
        let questions = world.questions().numbers
        let content = String(repeating: "y", count: 250_000)
        for question in questions.dropFirst() { world.decide(question, "rewrite", content) }
        #expect(world.counters.verdictsRefused == 3)
        world.settle()
        world.broker.checkInvariants()
    }

    @Test func `is refused when nobody decides in time`() {
        world.send("ann/1", 1, to: .user("bob"), "hello")
        let question = world.questions().numbers[0]
        world.pass(milliseconds: 1_999)
        #expect(world.lines() == [])
        world.pass(milliseconds: 1)
        #expect(world.outcome() == ["ann/1: result 1, quotaExceeded"])
        #expect(world.counters.moderatorSilences == 1)
        world.decide(question, "accept")
        #expect(world.outcome() == [])
        #expect(world.counters.verdictsLate == 1)
    }

    @Test func `is accepted when nobody decides in time and the app says so`() {
        world.moderate { $0.acceptsWhenSilent = true }
        world.send("ann/1", 1, to: .user("bob"), "hello")
        _ = world.questions()
        world.pass(milliseconds: 2_000)
        #expect(
            world.outcome() == ["bob/pc: #1 \"hello\" from ann", "ann/1: result 1, sent"])
    }

    @Test func `meets the verdict of silence at once while no moderator is connected`() {
        world.disconnect("censor/1")
        _ = world.lines()
        world.send("ann/1", 1, to: .user("bob"), "hello")
        #expect(world.outcome() == ["ann/1: result 1, quotaExceeded"])
        world.moderate { $0.acceptsWhenSilent = true }
        world.send("ann/1", 2, to: .user("bob"), "hello")
        #expect(world.outcome().contains("ann/1: result 2, sent"))
        #expect(world.counters.questionsAsked == 0)
    }

    @Test func `holds up the later ones of its session, and no other session's`() {
        world.moderate { $0.coversGroups = false }
        world.subscribe("bob/pc", "news")
        world.settle()
        _ = world.lines()
        world.send("ann/1", 1, to: .user("bob"), "one")
        world.send("ann/1", 2, to: .topic("news"), "two", isRaw: true)
        world.send("ann/1", 0, to: .topic("news"), "three", grade: .transient, isRaw: true)
        world.send("ann/1", 3, to: .user("bob"), "four")
        world.send("bob/pc", 1, to: .topic("news"), "other", isRaw: true)
        let (numbers, others) = world.questions()
        #expect(
            others.filter { $0.hasPrefix("bob/pc: #") } == ["bob/pc: #1 \"other\" from bob on news"]
        )
        world.decide(numbers[1], "accept")
        #expect(world.outcome() == [])
        world.decide(numbers[0], "accept")
        #expect(
            world.outcome().filter { $0.hasPrefix("bob/pc") } == [
                "bob/pc: #2 \"one\" from ann", "bob/pc: #3 \"two\" from ann on news",
                "bob/pc: #- \"three\" from ann on news", "bob/pc: #4 \"four\" from ann",
            ])
    }

    @Test func `is forgotten with its connection, and asked about again when it is sent again`() {
        world.send("ann/1", 1, to: .user("bob"), "hello")
        let first = world.questions().numbers[0]
        world.lose("ann/1")
        #expect(world.gauges.heldMessages == 0)
        world.decide(first, "accept")
        #expect(world.outcome().filter { $0.hasPrefix("bob") } == [])
        world.connect("ann/1", outbox: (epoch: 7, seen: 0, used: 1))
        world.settle()
        _ = world.lines()
        world.send("ann/1", 1, to: .user("bob"), "hello")
        world.decide(world.questions().numbers[0], "accept")
        #expect(world.outcome().contains("ann/1: result 1, sent"))
    }

    @Test func `that is transient outlives its connection`() {
        world.send("ann/1", 0, to: .user("bob"), "hello", grade: .transient)
        let question = world.questions().numbers[0]
        world.disconnect("ann/1")
        _ = world.outcome()
        world.decide(question, "accept")
        #expect(world.outcome() == ["bob/pc: #- \"hello\" from ann"])
        #expect(world.gauges.heldMessages == 0)
    }

    @Test func `that is sent again on the same connection is asked about once`() {
        world.send("ann/1", 1, to: .user("bob"), "hello")
        world.send("ann/1", 1, to: .user("bob"), "hello")
        let numbers = world.questions().numbers
        #expect(numbers.count == 1)
        world.decide(numbers[0], "accept")
        #expect(world.outcome() == ["bob/pc: #1 \"hello\" from ann", "ann/1: result 1, sent"])
    }

    @Test func `is not asked about if no right allows it`() {
        world.setRights("send:none")
        world.send("ann/1", 1, to: .user("bob"), "hello")
        #expect(world.questions().numbers == [])
    }

    @Test func `of the moderator is asked about by nobody`() {
        world.send("censor/1", 1, to: .user("bob"), "be polite")
        #expect(world.questions().numbers == [])
        #expect(world.gauges.heldMessages == 0)
    }

    @Test func `obeys the bound of its sender`() {
        for _ in 0..<5_000 {
            world.send("ann/1", 0, to: .user("bob"), "hello", grade: .transient)
        }
        #expect(world.gauges.heldMessages == CoreLimits.heldOfSenderMaximum)
        #expect(world.counters.heldOverLimit == 5_000 - UInt64(CoreLimits.heldOfSenderMaximum))
        #expect(world.lines().contains("ann/1: held"))
        world.pass(milliseconds: 2_000)
        while world.gauges.heldMessages > 0 { world.pass(milliseconds: 1) }
        #expect(world.lines().contains("ann/1: read again"))
    }

    /// Sends so many messages on one connection after another, which all end before a verdict. A
    /// client sends again what was not answered, so the numbers are the same.
    private func sendAndLeave(_ count: Int, perConnection: Int = 64) -> [UInt64] {
        var questions: [UInt64] = []
        for _ in 0..<count / perConnection {
            for number in 1...perConnection {
                world.send("ann/1", UInt64(number), to: .user("bob"), "hello")
            }
            questions += world.questions().numbers
            world.lose("ann/1")
            world.connect("ann/1", outbox: (epoch: 7, seen: 0, used: UInt64(perConnection)))
            world.settle()
        }
        _ = world.lines()
        return questions
    }

    @Test func `counts for its user until a verdict when its connection has ended`() {
        let questions = sendAndLeave(CoreLimits.heldOfSenderMaximum)
        #expect(questions.count == CoreLimits.heldOfSenderMaximum)
        #expect(world.gauges.heldMessages == 0)
        world.send("ann/1", 1, to: .user("bob"), "hello")
        #expect(world.outcome() == ["ann/1: result 1, quotaExceeded"])
        #expect(world.counters.heldOverLimit == 1)
        // Others have their own.
        world.send("bob/pc", 1, to: .user("ann"), "hello")
        #expect(world.questions().numbers.count == 1)
        // A verdict that nobody waits for makes room for one more.
        world.decide(questions[700], "accept")
        #expect(world.counters.verdictsLate == 1)
        world.send("ann/1", 2, to: .user("bob"), "hello")
        world.send("ann/1", 3, to: .user("bob"), "hello")
        #expect(world.outcome().contains("ann/1: result 3, quotaExceeded"))
        #expect(world.gauges.heldMessages == 2)
        world.broker.checkInvariants()
    }

    @Test func `counts for its user until its time is over when its connection has ended`() {
        _ = sendAndLeave(512)
        world.moderate { $0.milliseconds = 500 }
        let later = sendAndLeave(CoreLimits.heldOfSenderMaximum - 512)
        world.pass(milliseconds: 500)
        world.broker.checkInvariants()
        func send() {
            world.send("ann/1", 0, to: .user("bob"), "hello", grade: .transient)
        }
        for _ in later { send() }
        #expect(world.gauges.heldMessages == later.count)
        send()
        #expect(world.counters.heldOverLimit == 1)
        world.pass(milliseconds: 1_500)
        while world.gauges.heldMessages > 0 { world.pass(milliseconds: 1) }
        _ = world.outcome()
        send()
        #expect(world.questions().numbers.count == 1)
        #expect(world.counters.heldOverLimit == 1)
    }
}

@Suite struct `A verdict` {
    let world = World()

    init() {
        world.moderate()
        world.beginModerator()
        world.begin("ann/1", "bob/pc")
    }

    private func question() -> UInt64 {
        world.send("ann/1", 1, to: .user("bob"), "hello")
        return world.questions().numbers[0]
    }

    @Test(arguments: [
        "", "accept/1", "refuse/4", "refuse/0", "refuse/x", "rewrite/-1", "drop", "refuse/-1/2",
        "rewrite/99999999999",
    ])
    func `of another form is refused, and the message waits`(form: String) {
        let question = question()
        world.decide(question, form)
        #expect(world.outcome() == ["censor/1: result 0, payloadFormatInvalid"])
        #expect(world.counters.verdictsRefused == 1)
        #expect(world.gauges.heldMessages == 1)
    }

    @Test func `with a text that no sender can be told is refused`() {
        let question = question()
        for text in ["a\u{1B}b", String(repeating: "x", count: 129)] {
            world.decide(question, "refuse/-1", text)
        }
        #expect(world.counters.verdictsRefused == 2)
        #expect(world.gauges.heldMessages == 1)
    }

    @Test func `with a content that the message cannot have is refused`() {
        let question = question()
        world.decide(question, "rewrite", String(repeating: "\n", count: 1_000))
        #expect(world.outcome() == ["censor/1: result 0, packetTooLarge"])
        #expect(world.gauges.heldMessages == 1)
    }

    @Test func `counts once`() {
        let question = question()
        world.decide(question, "refuse/-2")
        world.decide(question, "accept")
        #expect(world.counters.verdictsLate == 1)
        #expect(world.outcome().contains { $0.hasPrefix("bob") } == false)
    }

    @Test func `of another user is an ordinary publication, which nobody may make`() {
        let question = question()
        world.send(
            "bob/pc", 1, to: .topic("$verdict/\(question)/accept"), "", isRaw: true)
        #expect(world.outcome() == ["bob/pc: result 1, topicNameInvalid"])
        #expect(world.gauges.heldMessages == 1)
    }

    @Test func `of the moderator of another app is late`() {
        let question = question()
        world.decide(question + 1, "accept")
        #expect(world.counters.verdictsLate == 1)
        #expect(world.gauges.heldMessages == 1)
    }

    @Test func `has a result if it has a number`() {
        let question = question()
        world.send(
            "censor/1", 1, to: .topic("$verdict/\(question)/accept"), "", isRaw: true)
        #expect(world.outcome().contains("censor/1: result 1, sent"))
        world.send(
            "censor/1", 2, to: .topic("$verdict/\(question)/accept"), "", isRaw: true)
        #expect(world.outcome() == ["censor/1: result 2, noMatchingSubscribers"])
    }
}
