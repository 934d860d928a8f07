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

    /// Whether the answer follows the commit.
    var waits: Bool {
        !operation.isAnsweredEarly || !query.contains { $0.name == "wait" && $0.value == "0" }
    }
}

/// The requests that wait and the answers that loops have not taken.
final class APIQueue: Sendable {
    private struct State {
        /// The oldest first.
        var requests: [APIRequest] = []
        /// Requests that wait or are executed, and of these those that send a message.
        var (count, messageCount) = (0, 0)
        /// Messages of each user that wait or are executed.
        var userMessageCounts: [APIPrincipal.User: Int] = [:]
        /// Bytes of the content of all waiting requests.
        var contentByteCount = 0
        /// By loop.
        var answers: [[Answer]] = []
        var answered: UInt64 = 0
        /// Messages that were answered before their commit, of the batch ``unstoredBatch``.
        var (unstoredCount, unstoredByteCount) = (0, 0)
        var unstoredBatch: UInt64 = 0

        /// Whether another message of a principal may wait, besides those of others.
        func takesMessage(of principal: APIPrincipal) -> Bool {
            guard let user = Self.user(principal) else { return true }
            return userMessageCounts[user, default: 0] < APIQueue.messagesPerUserMaximum
        }

        mutating func countMessage(of principal: APIPrincipal, by change: Int) {
            guard let user = Self.user(principal) else { return }
            let count = userMessageCounts[user, default: 0] + change
            userMessageCounts[user] = count == 0 ? nil : count
        }

        /// The user of a token, whichever device it is for; nil for others.
        private static func user(_ principal: APIPrincipal) -> APIPrincipal.User? {
            guard case .user(let user) = principal else { return nil }
            return APIPrincipal.User(app: user.app, user: user.user, device: nil)
        }
    }

    /// The answer to a request of a connection.
    typealias Answer = (connection: ConnectionID, number: UInt32, response: HTTPResponse)

    private let state = Locked(State())
    private let administrator = Locked<LoopHandle?>(nil)

    // ``RequestShare`` says how much more the requests of app keys and operators may use.

    /// Requests of users that may wait, without messages. Each is executed in about a millisecond,
    /// and one that waits for a commit in the time of a sync: with 100 ms the last of the 96 that
    /// operators may have waits for 10 s.
    static let countMaximum = 64
    /// Messages of users that may wait. They share commits, so that their number decides how many
    /// are sent in a second: with a sync of 7 ms, 64 were 3,500.
    static let messageCountMaximum = 1_024
    /// Messages of one user that may wait, as many as of one connection: the holder of one token
    /// must not use up the places of all users with several.
    static let messagesPerUserMaximum = AwaitedAnswers.countMaximum
    /// Bytes of content of users that may wait: 64 requests with the largest content.
    static let contentByteCountMaximum = countMaximum * WebLimits.contentByteCountMaximum

    /// Requests that have been executed.
    var answeredCount: UInt64 { state.withLock { $0.answered } }

    /// - Parameter thread: executes the requests.
    func setExecutor(_ thread: LoopHandle) { administrator.withLock { $0 = thread } }

    /// Adds a request. Returns false if too many wait.
    func add(_ request: APIRequest) -> Bool {
        let isTaken = state.withLock { state in
            let isMessage = request.operation.kind == .sendMessage
            let kind = request.credential.principal.kind
            func maximum(_ usersMaximum: Int) -> Int {
                RequestShare.maximum(usersMaximum, for: kind)
            }
            let hasRoom =
                isMessage
                ? state.messageCount < maximum(Self.messageCountMaximum)
                    && state.takesMessage(of: request.credential.principal)
                : state.count - state.messageCount < maximum(Self.countMaximum)
            let byteCount = state.contentByteCount + request.content.count
            guard hasRoom, byteCount <= maximum(Self.contentByteCountMaximum) else { return false }
            state.count += 1
            if isMessage {
                state.messageCount += 1
                state.countMessage(of: request.credential.principal, by: 1)
            }
            state.contentByteCount = byteCount
            state.requests.append(request)
            return true
        }
        if isTaken { wakeExecutor() }
        return isTaken
    }

    /// Lets a request wait again, after those that have come in the meantime.
    func addAgain(_ request: APIRequest) {
        state.withLock { $0.requests.append(request) }
        wakeExecutor()
    }

    func wakeExecutor() { administrator.withLock { $0 }?.wake() }

    /// Takes all requests that wait, the oldest first.
    func takeRequests() -> [APIRequest] {
        state.withLock { state in
            defer { state.requests = [] }
            return state.requests
        }
    }

    /// Notes a message that is answered before its commit.
    ///
    /// - Parameter batch: the one that stores it.
    /// - Returns: whether the batch has as many as may wait for an answer, so that the next message
    ///   waits for its commit. Otherwise clients that do not wait would fill the memory while the
    ///   disk is slow.
    func noteUnstored(byteCount: Int, batch: UInt64) -> Bool {
        state.withLock { state in
            if batch != state.unstoredBatch {
                (state.unstoredCount, state.unstoredByteCount) = (0, 0)
                state.unstoredBatch = batch
            }
            state.unstoredCount += 1
            state.unstoredByteCount += byteCount
            return state.unstoredCount >= Self.messageCountMaximum
                || state.unstoredByteCount >= Self.contentByteCountMaximum
        }
    }

    /// Gives the answer of a request to its loop.
    func finish(_ request: APIRequest, with response: HTTPResponse) {
        state.withLock { state in
            state.count -= 1
            if request.operation.kind == .sendMessage {
                state.messageCount -= 1
                state.countMessage(of: request.credential.principal, by: -1)
            }
            state.contentByteCount -= request.content.count
            state.answered += 1
            while state.answers.count <= Int(request.loop) { state.answers.append([]) }
            state.answers[Int(request.loop)].append(
                (request.connection, request.number, response))
        }
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
