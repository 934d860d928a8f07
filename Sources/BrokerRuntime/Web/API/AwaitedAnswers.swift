// The answers that a connection waits for, in the order of its requests. Messages are under way
// several at a time, because those that wait at the same time share a commit.

import WireFormat

/// The requests of one connection that are not answered, the oldest first.
struct AwaitedAnswers {
    private struct Entry {
        let answer: WebConnections.Answer
        let contentByteCount: Int
        /// Nil until the administration thread has answered.
        var response: HTTPResponse?
        /// What is wrong, for the log; nil for what need not be logged.
        var detail: StaticString?
    }

    /// Why nothing more is read from the connection.
    enum Hold {
        /// More is read.
        case none
        /// A message waits until half of the places are free.
        case untilRoom
        /// A request waits until all before it are answered, or is executed alone.
        case untilAnswered
    }

    /// Those before ``first`` are answered.
    private var entries: [Entry] = []
    private var first = 0
    /// The number of the first element of ``entries``.
    private var firstNumber: UInt32 = 0
    /// Bytes of the contents of the requests that are not answered.
    private var contentByteCount = 0
    var hold = Hold.none

    /// Messages of a connection that may be under way. With a sync of 10 ms and two commits for an
    /// answer, 256 are 12,800 in a second; 64 were 3,200.
    static let countMaximum = 256
    /// Another message is read while those under way have fewer bytes of content. An answer names
    /// at most the users of its request, so that this also bounds the answers that wait for an
    /// earlier one, to about a megabyte.
    static let contentByteCountMaximum = WebLimits.contentByteCountMaximum

    var isEmpty: Bool { first == entries.count }
    private var count: Int { entries.count - first }

    /// Whether another message may be under way.
    var takesMessage: Bool {
        count < Self.countMaximum && contentByteCount < Self.contentByteCountMaximum
    }

    /// Whether the reason to read nothing more is over.
    var endsHold: Bool {
        switch hold {
        case .none: false
        case .untilRoom:
            count <= Self.countMaximum / 2 && contentByteCount <= Self.contentByteCountMaximum / 2
        case .untilAnswered: isEmpty
        }
    }

    /// Adds a request that the administration thread answers. Returns its number.
    mutating func append(_ answer: WebConnections.Answer, contentByteCount: Int) -> UInt32 {
        entries.append(
            Entry(answer: answer, contentByteCount: contentByteCount, response: nil, detail: nil))
        self.contentByteCount += contentByteCount
        return firstNumber &+ UInt32(entries.count - 1)
    }

    /// Adds a request with its answer, which waits for those before it.
    mutating func append(
        _ answer: WebConnections.Answer, response: HTTPResponse, detail: StaticString?
    ) {
        entries.append(
            Entry(answer: answer, contentByteCount: 0, response: response, detail: detail))
    }

    /// Takes the answer to the request with a number that ``append(_:contentByteCount:)`` returned.
    mutating func complete(_ number: UInt32, with response: HTTPResponse) {
        let index = Int(number &- firstNumber)
        precondition(
            index >= first && index < entries.count && entries[index].response == nil,
            "request \(number) does not wait for an answer")
        entries[index].response = response
    }

    /// Removes and returns the oldest request if it is answered.
    mutating func takeFirst() -> (
        answer: WebConnections.Answer, response: HTTPResponse, detail: StaticString?
    )? {
        guard first < entries.count, let response = entries[first].response else { return nil }
        let entry = entries[first]
        entries[first].response = nil
        first += 1
        contentByteCount -= entry.contentByteCount
        // Moves the others once per half of the places.
        if first == entries.count || first >= Self.countMaximum {
            entries.removeFirst(first)
            firstNumber &+= UInt32(first)
            first = 0
        }
        return (entry.answer, response, entry.detail)
    }
}
