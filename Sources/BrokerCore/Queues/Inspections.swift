// What operators see of the messages of a queue, and the inspections that wait for the store.
//
// It knows queues by their id and messages by their number, and changes no queue.
//
// Invariants: an inspection waits for one load, and its result is kept until it is taken.

import BrokerTerms
import Primitives

/// A message that waits in a queue, as an operator sees it.
public struct QueuedMessage: Hashable, Sendable {
    /// Its number in the queue.
    public var number: UInt64
    /// The grade of the delivery: the lower of the send's and the subscription's.
    public var grade: Grade
    public var kind: MessageKind
    /// The user who sent it.
    public var sender: [UInt8]
    /// The topic or the id of the group, by kind; empty for other kinds.
    public var address: [UInt8]
    /// The type, for a message that is not arbitrary bytes.
    public var type: UInt8?
    /// The first bytes of its content, without the type; empty if they were not requested.
    public var content: [UInt8]
    /// The size of the whole content.
    public var contentByteCount: Int
    /// Bytes that count towards the limit of the queue.
    public var byteCount: UInt32
    /// The time of the send in Unix milliseconds.
    public var unixMilliseconds: UInt64
    /// The time at which it expires.
    public var deadline: Instant
    /// Whether its delivery has begun and is not acknowledged: it cannot be dropped.
    public var isUnderWay: Bool
    public var fields = MessageFields()
    /// The properties of a publication of MQTT 5, as its codec wrote them.
    public var properties: [UInt8] = []
}

/// A part of a queue's messages, in the order of their numbers.
public struct QueuePage: Hashable, Sendable {
    public var messages: [QueuedMessage]
    /// The number after which the next page begins; nil at the end of the queue.
    public var next: UInt64?
}

/// A queue's messages that an operator asked for.
public enum QueueInspection: Hashable, Sendable {
    case complete(QueuePage)
    /// The page is complete when the batch that is pending now has its result; see
    /// ``Broker/takeInspection(_:)``.
    case pending(number: UInt64)
}

/// What became of a message that an operator drops.
public enum QueueDrop: Hashable, Sendable {
    /// It has left the queue, and the store with the commit of a batch.
    case dropped(batch: UInt64)
    /// Its delivery has begun. It leaves the queue when the receiver acknowledges it.
    case underWay
    /// The queue has no such message: it was acknowledged, has expired, or never was there.
    case absent
    /// Decided when the batch that is pending now has its result; see ``Broker/takeDrop(_:)``.
    case pending(number: UInt64)
}

/// What became of a read mark that an operator sets for a user.
public struct MarkOutcome: Hashable, Sendable {
    /// ``ReasonCode/success`` when the mark is in the batch that is pending now.
    public let reason: ReasonCode
    /// What the reason of a refusal does not tell.
    public let cause: LimitName
}

/// The operators' inspections whose results have not been taken, by their numbers.
struct Inspections {
    /// What an inspection is for.
    enum Purpose {
        /// A page with at most so many bytes of each message's content.
        case page(contentMaximum: Int)
        /// The message with this number is removed.
        case drop(UInt64)
        /// A page of a conversation.
        case history(HistoryRead)
        /// A page of a conversation for a client.
        case clientHistory(ClientHistoryRead)
        /// The own messages that a mark makes read.
        case mark(PendingMark)
        /// The newest message of one of the conversations that a client's list has.
        case newest(list: UInt64)
    }

    private enum Entry {
        case waiting(Purpose)
        case page(QueuePage)
        case drop(QueueDrop)
        case history(HistoryPage)
        case mark(MarkOutcome)
    }

    private var entries: [UInt64: Entry] = [:]
    private var lastNumber: UInt64 = 0
    /// The lists of conversations that wait for newest messages, by their numbers.
    private var newestReads: [UInt64: NewestRead] = [:]
    /// Clients that wait for a page of history, or for a mark.
    private var readers: Set<ConnectionID> = []

    /// Whether there is none, which is all that an ordinary commit pays for.
    @inline(__always)
    var isEmpty: Bool { entries.isEmpty }

    /// Adds an inspection and returns its number.
    mutating func add(_ purpose: Purpose) -> UInt64 {
        lastNumber += 1
        entries[lastNumber] = .waiting(purpose)
        return lastNumber
    }

    /// The number of an operator's mark.
    mutating func addMark() -> UInt64 {
        lastNumber += 1
        return lastNumber
    }

    mutating func complete(_ number: UInt64, with outcome: MarkOutcome) {
        entries[number] = .mark(outcome)
    }

    /// Removes and returns what became of an operator's mark; nil if it is not decided.
    mutating func takeMark(_ number: UInt64) -> MarkOutcome? {
        guard case .mark(let outcome)? = entries[number] else { return nil }
        entries[number] = nil
        return outcome
    }

    /// What an inspection that waits is for.
    func purpose(of number: UInt64) -> Purpose {
        guard case .waiting(let purpose)? = entries[number] else {
            preconditionFailure("inspection \(number) waits for no load")
        }
        return purpose
    }

    /// Begins the reading of a client. Returns false if it waits for another page.
    mutating func begin(_ reader: ConnectionID) -> Bool { readers.insert(reader).inserted }

    mutating func end(_ reader: ConnectionID) { readers.remove(reader) }

    /// Adds a list that waits for newest messages, and returns its number.
    mutating func add(_ read: NewestRead) -> UInt64 {
        lastNumber += 1
        newestReads[lastNumber] = read
        return lastNumber
    }

    /// Gives a list its next message. Returns the list when it has all.
    mutating func complete(list number: UInt64, with message: KeptMessage?) -> NewestRead? {
        newestReads[number]?.messages.append(message)
        guard let read = newestReads[number], read.isComplete else { return nil }
        newestReads[number] = nil
        return read
    }

    /// Ends an inspection whose result is told already.
    mutating func end(_ number: UInt64) { entries[number] = nil }

    mutating func complete(_ number: UInt64, with page: QueuePage) {
        entries[number] = .page(page)
    }

    mutating func complete(_ number: UInt64, with drop: QueueDrop) {
        entries[number] = .drop(drop)
    }

    mutating func complete(_ number: UInt64, with page: HistoryPage) {
        entries[number] = .history(page)
    }

    /// Removes and returns a page of a conversation; nil if it is not complete.
    mutating func takeHistory(_ number: UInt64) -> HistoryPage? {
        guard case .history(let page)? = entries[number] else { return nil }
        entries[number] = nil
        return page
    }

    /// Removes and returns a page; nil if it is not complete.
    mutating func takePage(_ number: UInt64) -> QueuePage? {
        guard case .page(let page)? = entries[number] else { return nil }
        entries[number] = nil
        return page
    }

    /// Removes and returns what became of a message; nil if it is not decided.
    mutating func takeDrop(_ number: UInt64) -> QueueDrop? {
        guard case .drop(let drop)? = entries[number] else { return nil }
        entries[number] = nil
        return drop
    }
}
