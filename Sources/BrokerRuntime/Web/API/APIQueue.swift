// Requests to the HTTP API on their way from an event loop to the administration thread, and the
// answers on their way back.

import Administration
import BrokerTerms
import NetTransport
import Primitives
import Threads
import WireFormat

/// A request to the HTTP API from a principal who may make it.
struct APIRequest: Sendable {
    let connection: ConnectionID
    /// Its place among the requests of the connection that wait for answers.
    var number: UInt32 = 0
    let loop: UInt8
    let operation: APIOperation
    /// The values of the path's members.
    let path: [String]
    let query: [HTTPTarget.Member]
    var content: [UInt8] = []
    /// Whether the content is the payload of a message, of this type, and no JSON object.
    var isPayload = false
    var mediaType: String?
    /// Makes a message safe to repeat; nil without one.
    var idempotencyKey: [UInt8]?
    /// As it was when the head of the request arrived.
    let credential: APICredential
    /// The user for whom the request is made; nil if it names none.
    let actingUser: String?
    let address: SocketAddress
    /// Path and query as they were sent, for the log.
    let target: String
    /// The search of a list that has begun; nil for other requests.
    var search: ListSearch?
    /// The recall or replacement that has begun; nil for other requests.
    var recall: BegunRecall?

    var holder: RequestHolder { RequestHolder(credential.principal) }
    var isMessage: Bool { operation.kind == .sendMessage }
    /// Whether it changes nothing.
    var isRead: Bool { operation.method == .get }

    /// Whether the answer follows the commit.
    var waits: Bool {
        !operation.isAnsweredEarly || !query.contains { $0.name == "wait" && $0.value == "0" }
    }
}

/// A recall or replacement that the core of a shard carries out.
struct BegunRecall: Sendable {
    /// The shard, which numbers its recalls.
    let place: Int
    let number: UInt64
}

/// The requests that wait and the answers that loops have not taken.
final class APIQueue: Sendable {
    private struct HeldNumber: Hashable {
        let place: Int
        let number: UInt64
    }

    private struct Unstored {
        let batch: UInt64
        var count = 0
        var byteCount = 0
    }

    private struct State {
        /// Messages that wait, the oldest first.
        var messages: [APIRequest] = []
        /// Other requests of each holder, the oldest first, and the holders in the order of their
        /// turns.
        var others: [RequestHolder: [APIRequest]] = [:]
        var turns: [RequestHolder] = []
        /// Messages on which a moderator decides, by their shards and the numbers there. They count
        /// as waiting.
        var held: [HeldNumber: (request: APIRequest, message: SendMessage)] = [:]
        /// What waits or is executed.
        var messageCounts = RequestShareCounts(APIQueue.messageShare)
        var otherCounts = RequestShareCounts(APIQueue.requestShare)
        var contentByteCounts = RequestShareCounts(APIQueue.contentByteShare)
        /// Connections of reads that are executed, and those of them that have closed.
        var reading: Set<ConnectionID> = []
        var abandoned: Set<ConnectionID> = []
        /// By loop.
        var answers: [[Answer]] = []
        var answered: UInt64 = 0
        /// Messages that were answered before their commit, of the last batch of each shard.
        var unstored: [Int: Unstored] = [:]

        mutating func count(_ request: APIRequest, by change: Int) {
            let holder = request.holder
            if request.isMessage {
                messageCounts.add(change, for: holder)
            } else {
                otherCounts.add(change, for: holder)
            }
            contentByteCounts.add(change * request.content.count, for: holder)
        }

        mutating func append(_ request: APIRequest) {
            guard !request.isMessage else { return messages.append(request) }
            let holder = request.holder
            if others[holder] == nil { turns.append(holder) }
            others[holder, default: []].append(request)
        }

        mutating func append(_ answer: Answer, for loop: UInt8) {
            while answers.count <= Int(loop) { answers.append([]) }
            answers[Int(loop)].append(answer)
            answered += 1
        }

        /// Takes one request of each holder that is not a message.
        mutating func takeTurns() -> [APIRequest] {
            var taken: [APIRequest] = []
            turns.removeAll { holder in
                var waiting = others[holder] ?? []
                guard !waiting.isEmpty else { return true }
                taken.append(waiting.removeFirst())
                others[holder] = waiting.isEmpty ? nil : waiting
                return waiting.isEmpty
            }
            for request in taken where request.isRead { reading.insert(request.connection) }
            return taken
        }
    }

    /// The answer to a request of a connection.
    typealias Answer = (connection: ConnectionID, number: UInt32, response: HTTPResponse)

    private let state = Locked(State())
    private let executor = Locked<LoopHandle?>(nil)
    private let rates = Locked(RequestRates())

    // ``RequestShare`` says how much more the requests of app keys and operators may use.

    /// Requests that may wait, without messages. Each is executed in about a millisecond, and one
    /// that waits for a commit in the time of a sync: with 100 ms the last of the 96 that operators
    /// may have waits for 10 s.
    static let requestShare = RequestShare(users: 64, oneUser: 16, oneKey: 32)
    /// Messages that may wait. They share commits, so that their number decides how many are sent
    /// in a second: with a sync of 7 ms, 64 were 3,500. One user may have as many as one
    /// connection, and one key those of two.
    static let messageShare = RequestShare(
        users: 1_024, oneUser: AwaitedAnswers.countMaximum,
        oneKey: 2 * AwaitedAnswers.countMaximum)
    /// Bytes of content that may wait: 64 requests with the largest content, four of one user and
    /// 32 of one key.
    static let contentByteShare = RequestShare(
        users: 64 * WebLimits.contentByteCountMaximum,
        oneUser: 4 * WebLimits.contentByteCountMaximum,
        oneKey: 32 * WebLimits.contentByteCountMaximum)

    /// Requests that have been executed.
    var answeredCount: UInt64 { state.withLock { $0.answered } }

    /// - Parameter thread: executes the requests.
    func setExecutor(_ thread: LoopHandle) { executor.withLock { $0 = thread } }

    /// Counts a request towards the rate of its holder.
    ///
    /// - Parameter perSecond: the limit; 0 for none.
    /// - Returns: the seconds to wait if the holder exceeds it; nil otherwise.
    func count(_ holder: RequestHolder, perSecond: Int, at now: Instant) -> UInt64? {
        guard perSecond > 0 else { return nil }
        return rates.withLock { $0.take(for: holder, perSecond: perSecond, at: now) }
    }

    /// Adds a request. Returns false if too many wait, of all or of its holder.
    func add(_ request: APIRequest) -> Bool {
        let isTaken = state.withLock { state in
            let counts = request.isMessage ? state.messageCounts : state.otherCounts
            guard counts.admits(1, for: request.holder),
                state.contentByteCounts.admits(request.content.count, for: request.holder)
            else { return false }
            state.count(request, by: 1)
            state.append(request)
            return true
        }
        if isTaken { wakeExecutor() }
        return isTaken
    }

    /// Lets a request wait again, after those of others, unless its connection has closed.
    func addAgain(_ request: APIRequest) {
        state.withLock { state in
            state.reading.remove(request.connection)
            if state.abandoned.remove(request.connection) == nil {
                state.append(request)
            } else {
                state.count(request, by: -1)
            }
        }
        wakeExecutor()
    }

    /// Keeps a request until a moderator has decided on its message.
    ///
    /// - Parameter place: the shard that holds the message.
    func hold(
        _ request: APIRequest, _ message: SendMessage, as number: UInt64, of place: Int
    ) {
        let number = HeldNumber(place: place, number: number)
        state.withLock { $0.held[number] = (request, message) }
    }

    /// Whether a request waits for a moderator.
    var hasHeld: Bool { state.withLock { !$0.held.isEmpty } }

    /// Removes and returns the request with a held message.
    func takeHeld(
        _ number: UInt64, of place: Int
    ) -> (request: APIRequest, message: SendMessage)? {
        state.withLock { $0.held.removeValue(forKey: HeldNumber(place: place, number: number)) }
    }

    /// Removes and returns the requests with held messages of a shard.
    func takeHeld(of place: Int) -> [APIRequest] {
        state.withLock { state in
            let numbers = state.held.keys.filter { $0.place == place }.sorted {
                $0.number < $1.number
            }
            return numbers.compactMap { state.held.removeValue(forKey: $0)?.request }
        }
    }

    /// Forgets the reads of a connection that has closed: nobody gets their answers. Messages and
    /// changes are executed nevertheless, because closing a connection does not take them back.
    func abandonReads(of connection: ConnectionID) {
        state.withLock { state in
            if state.reading.contains(connection) { state.abandoned.insert(connection) }
            for (holder, waiting) in state.others {
                for request in waiting where request.isRead && request.connection == connection {
                    state.count(request, by: -1)
                }
                let rest = waiting.filter { !$0.isRead || $0.connection != connection }
                state.others[holder] = rest.isEmpty ? nil : rest
            }
            state.turns = state.turns.filter { state.others[$0] != nil }
        }
    }

    func wakeExecutor() { executor.withLock { $0 }?.wake() }

    /// Takes all messages that wait, the oldest first, and one other request of each holder. Lists
    /// of one holder thus delay others by one turn of a list at most.
    func takeRequests() -> [APIRequest] {
        let (taken, hasMore) = state.withLock { state in
            let messages = state.messages
            state.messages = []
            return (messages + state.takeTurns(), !state.turns.isEmpty)
        }
        if hasMore { wakeExecutor() }
        return taken
    }

    /// Notes a message that is answered before its commit.
    ///
    /// - Parameters:
    ///   - batch: the one that stores it.
    ///   - place: the shard of that batch.
    /// - Returns: whether the batch has as many as may wait for an answer, so that the next message
    ///   waits for its commit. Otherwise clients that do not wait would fill the memory while the
    ///   disk is slow.
    func noteUnstored(byteCount: Int, batch: UInt64, of place: Int = 0) -> Bool {
        state.withLock { state in
            var sums = state.unstored[place] ?? Unstored(batch: batch)
            if batch != sums.batch { sums = Unstored(batch: batch) }
            sums.count += 1
            sums.byteCount += byteCount
            state.unstored[place] = sums
            return sums.count >= Self.messageShare.users
                || sums.byteCount >= Self.contentByteShare.users
        }
    }

    /// Gives the answer of a request to its loop.
    func finish(_ request: APIRequest, with response: HTTPResponse) {
        state.withLock { state in
            state.count(request, by: -1)
            state.reading.remove(request.connection)
            state.abandoned.remove(request.connection)
            state.append((request.connection, request.number, response), for: request.loop)
        }
    }

    /// Gives the answer of a request that did not wait here to its loop.
    func deliver(
        _ response: HTTPResponse, to connection: ConnectionID, number: UInt32, on loop: UInt8
    ) {
        state.withLock { $0.append((connection, number, response), for: loop) }
    }

    /// Takes the answers for a loop.
    func takeAnswers(for loop: UInt8) -> [Answer] {
        state.withLock { state in
            guard Int(loop) < state.answers.count else { return [] }
            defer { state.answers[Int(loop)] = [] }
            return state.answers[Int(loop)]
        }
    }
}
