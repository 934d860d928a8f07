// The answers that a connection of the HTTP API waits for.

import Testing
import WireFormat

@testable import BrokerRuntime

@Suite struct `Awaited answers` {
    private let answer = WebConnections.Answer(
        isHead: false, closes: false, client: nil, cors: nil)

    private func response(_ number: UInt32) -> HTTPResponse {
        HTTPResponse(.ok, content: Array("\(number)".utf8))
    }

    private func text(_ response: HTTPResponse?) -> String? {
        response.map { String(decoding: $0.content, as: UTF8.self) }
    }

    @Test func `are given in the order of the requests, however they come`() {
        var awaited = AwaitedAnswers()
        let numbers = (0..<3).map { _ in awaited.append(answer, contentByteCount: 1) }
        awaited.append(answer, response: response(99), detail: "wrong")
        awaited.complete(numbers[2], with: response(2))
        #expect(awaited.takeFirst() == nil)
        awaited.complete(numbers[0], with: response(0))
        #expect(text(awaited.takeFirst()?.response) == "0")
        #expect(awaited.takeFirst() == nil)
        awaited.complete(numbers[1], with: response(1))
        #expect(text(awaited.takeFirst()?.response) == "1")
        #expect(text(awaited.takeFirst()?.response) == "2")
        #expect(awaited.takeFirst()?.detail?.description == "wrong")
        #expect(awaited.isEmpty && awaited.takeFirst() == nil)
    }

    @Test func `keep their numbers over thousands of requests`() {
        var awaited = AwaitedAnswers()
        var waiting: [UInt32] = []
        var taken = 0
        for round in 0..<5_000 {
            waiting.append(awaited.append(answer, contentByteCount: 10))
            // From 1 to 200 are under way.
            while waiting.count > round % 200 {
                let number = waiting.removeFirst()
                awaited.complete(number, with: response(number))
                #expect(text(awaited.takeFirst()?.response) == "\(number)")
                taken += 1
            }
        }
        #expect(taken + waiting.count == 5_000 && Set(waiting).count == waiting.count)
    }

    @Test func `are as many as the limit says, and more when half of them are given`() {
        var awaited = AwaitedAnswers()
        var numbers: [UInt32] = []
        while awaited.takesMessage { numbers.append(awaited.append(answer, contentByteCount: 10)) }
        #expect(numbers.count == AwaitedAnswers.countMaximum)
        awaited.hold = .untilRoom
        for (index, number) in numbers.enumerated() {
            #expect(awaited.endsHold == (index >= AwaitedAnswers.countMaximum / 2))
            awaited.complete(number, with: response(number))
            #expect(awaited.takeFirst() != nil)
        }
        #expect(awaited.isEmpty)
    }

    @Test func `have as many bytes of content as the limit says`() {
        var awaited = AwaitedAnswers()
        let half = AwaitedAnswers.contentByteCountMaximum / 2
        let first = awaited.append(answer, contentByteCount: half)
        #expect(awaited.takesMessage)
        let second = awaited.append(answer, contentByteCount: half)
        #expect(!awaited.takesMessage)
        awaited.hold = .untilAnswered
        awaited.complete(first, with: response(0))
        #expect(awaited.takeFirst() != nil && awaited.takesMessage && !awaited.endsHold)
        awaited.complete(second, with: response(1))
        #expect(awaited.takeFirst() != nil && awaited.endsHold)
    }
}
