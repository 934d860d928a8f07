// The messages that wait for verdicts, in one queue for each sender. It knows sessions and
// principals as those who sent them, and routes nothing.
//
// Invariants: a queue has at least one message; a session has at most one queue; the number of a
// question without a verdict leads to the queue of its message; numbers rise within a queue; the
// counts of an app are the sums of its queues; those of a user are the sums of its queues and of
// its forgotten questions.

import Primitives

/// Who sent held messages.
enum HeldSender {
    /// A session that has been connected since.
    case session(Index<Session>)
    /// A user without a session, for transient messages of a connection that has ended.
    case principal(Principal)
    /// A request of the HTTP API, whose outcome has a number.
    case request(Principal, number: UInt64, key: SendKey?)
}

/// The held messages of one sender, in the order in which they were sent.
struct HeldQueue {
    fileprivate(set) var sender: HeldSender
    let user: Index<User>
    let app: Index<App>
    fileprivate var sends: [HeldSend] = []
    /// Of the first message: those before it are gone.
    fileprivate var start = 0
    fileprivate(set) var byteCount = 0
    /// Until the first message is decided.
    var token = TimerWheel.Token.none

    fileprivate init(_ sender: HeldSender, user: Index<User>, app: Index<App>) {
        self.sender = sender
        self.user = user
        self.app = app
    }

    var count: Int { sends.count - start }

    /// The message that leaves next.
    var first: HeldSend { sends[start] }

    /// The position of a question among the messages.
    fileprivate func position(of question: UInt64) -> Int? {
        (start..<sends.count).first { sends[$0].question == question }
    }
}

/// Held messages, and their bytes.
private struct HeldSum {
    var count = 0
    var byteCount = 0
}

/// Questions whose messages were forgotten with the connection of their sender. A moderator has
/// them until it decides, or until they are too old to be worth a decision.
struct ForgottenQuestions {
    let user: Index<User>
    let app: Index<App>
    /// In the order in which they were asked.
    fileprivate var questions: [(number: UInt64, deadline: Instant, byteCount: Int)]
    /// Until the first deadline.
    var token = TimerWheel.Token.none

    /// When the first one is over.
    var deadline: Instant {
        questions.dropFirst().reduce(questions[0].deadline) { min($0, $1.deadline) }
    }
    var count: Int { questions.count }
}

/// The messages that wait for verdicts.
struct ModerationTable: ~Copyable {
    private(set) var queues = Slab<HeldQueue>()
    private var queuesOfSessions: [Index<Session>: Index<HeldQueue>] = [:]
    private var queuesOfQuestions: [UInt64: Index<HeldQueue>] = [:]
    private(set) var forgotten = Slab<ForgottenQuestions>()
    private var forgottenQuestions: [UInt64: Index<ForgottenQuestions>] = [:]
    private var sums: [Index<App>: HeldSum] = [:]
    private var sumsOfUsers: [Index<User>: HeldSum] = [:]
    private var lastQuestion: UInt64 = 0
    /// Whether a send has to be looked at: an ordinary one pays for this only.
    private(set) var isOn: Bool
    /// Whether some app is moderated.
    var isConfigured: Bool { didSet { isOn = isConfigured || count > 0 } }
    /// Messages that are held.
    private(set) var count = 0
    /// Held requests for whose outcomes somebody waits, and outcomes that were not taken.
    private var awaited: Set<UInt64> = []
    private var outcomes: [(number: UInt64, outcome: OperatorSend)] = []
    private var lastRequest: UInt64 = 0

    init(isConfigured: Bool) {
        self.isConfigured = isConfigured
        isOn = isConfigured
    }

    subscript(index: Index<HeldQueue>) -> HeldQueue {
        unsafeAddress { queues.address(of: index) }
        unsafeMutableAddress { queues.mutableAddress(of: index) }
    }

    /// The queue of a session.
    func queue(of session: Index<Session>) -> Index<HeldQueue>? {
        queuesOfSessions.isEmpty ? nil : queuesOfSessions[session]
    }

    /// The queue with the message of a question.
    func queue(ofQuestion number: UInt64) -> Index<HeldQueue>? { queuesOfQuestions[number] }

    /// A number for a question, which none has had, also before a restart: a moderator may answer
    /// late. It has at most 53 bits, like all numbers of JSON.
    mutating func makeQuestion(at moment: Moment) -> UInt64 {
        lastQuestion = max(lastQuestion + 1, moment.unixMilliseconds &* 1_000)
        return lastQuestion
    }

    /// The limit that forbids one more message of a user. Forgotten questions count for the user,
    /// whom a new connection would otherwise give as many questions again. They do not count for
    /// the app: whoever loses its connection would take the room of others.
    func limit(of user: Index<User>, app: Index<App>, adding byteCount: Int) -> LimitName {
        let own = sumsOfUsers[user] ?? HeldSum()
        guard own.count < CoreLimits.heldOfSenderMaximum,
            own.byteCount + byteCount <= CoreLimits.heldBytesOfSenderMaximum
        else { return .heldOfSender }
        let sum = sums[app] ?? HeldSum()
        guard sum.count < CoreLimits.heldOfAppMaximum,
            sum.byteCount + byteCount <= CoreLimits.heldBytesOfAppMaximum
        else { return .heldOfApp }
        return .none
    }

    /// The limit that forbids a new content of so many bytes for a message that is held.
    func limit(of queue: Index<HeldQueue>, growingBy byteCount: Int) -> LimitName {
        let own = sumsOfUsers[queues[queue].user]?.byteCount ?? 0
        guard own + byteCount <= CoreLimits.heldBytesOfSenderMaximum else { return .heldOfSender }
        let sum = sums[queues[queue].app]?.byteCount ?? 0
        return sum + byteCount <= CoreLimits.heldBytesOfAppMaximum ? .none : .heldOfApp
    }

    /// Adds a message of a session at the end of its queue.
    mutating func hold(
        _ send: HeldSend, of session: Index<Session>, user: Index<User>, app: Index<App>
    ) -> Index<HeldQueue> {
        let index: Index<HeldQueue>
        if let found = queuesOfSessions[session] {
            index = found
        } else {
            index =
                queues.insert(
                    HeldQueue(.session(session), user: user, app: app)
                ).index
            queuesOfSessions[session] = index
        }
        queues[index].sends.append(send)
        queues[index].byteCount += send.byteCount
        if send.question != 0, send.verdict == nil { queuesOfQuestions[send.question] = index }
        add(1, send.byteCount, to: index)
        return index
    }

    /// Adds a message of a request, in a queue of its own.
    mutating func hold(
        _ send: HeldSend, by principal: Principal, user: Index<User>, key: SendKey?,
        isAwaited: Bool
    ) -> (queue: Index<HeldQueue>, number: UInt64) {
        lastRequest += 1
        if isAwaited { awaited.insert(lastRequest) }
        let index = queues.insert(
            HeldQueue(
                .request(principal, number: lastRequest, key: key), user: user,
                app: principal.app)
        ).index
        queues[index].sends.append(send)
        queues[index].byteCount += send.byteCount
        queuesOfQuestions[send.question] = index
        add(1, send.byteCount, to: index)
        return (index, lastRequest)
    }

    /// Takes what became of a held request. Returns false if nobody waits for it.
    mutating func settle(_ number: UInt64, _ outcome: OperatorSend) -> Bool {
        guard awaited.remove(number) != nil else { return false }
        outcomes.append((number, outcome))
        return true
    }

    /// Removes and returns what became of held requests.
    mutating func takeOutcomes() -> [(number: UInt64, outcome: OperatorSend)] {
        guard !outcomes.isEmpty else { return [] }
        defer { outcomes = [] }
        return outcomes
    }

    private mutating func add(_ change: Int, _ byteCount: Int, to index: Index<HeldQueue>) {
        let (user, app) = (queues[index].user, queues[index].app)
        Self.add(change, byteCount, to: &sumsOfUsers[user])
        Self.add(change, byteCount, to: &sums[app])
        count += change
        isOn = isConfigured || count > 0
    }

    private static func add(_ change: Int, _ byteCount: Int, to sum: inout HeldSum?) {
        var new = sum ?? HeldSum()
        new.count += change
        new.byteCount += byteCount
        sum = new.count == 0 ? nil : new
    }

    /// The message of a question.
    func send(ofQuestion number: UInt64, in index: Index<HeldQueue>) -> HeldSend? {
        queues[index].position(of: number).map { queues[index].sends[$0] }
    }

    /// Takes the verdict on a message. Returns whether it is the first of its queue.
    mutating func decide(
        _ question: UInt64, in index: Index<HeldQueue>, _ verdict: Verdict
    ) -> Bool {
        queuesOfQuestions[question] = nil
        guard let position = queues[index].position(of: question) else { return false }
        if case .rewritten(let content, _) = verdict {
            let before = queues[index].sends[position].byteCount
            queues[index].sends[position].rewrite(content)
            let growth = queues[index].sends[position].byteCount - before
            queues[index].byteCount += growth
            add(0, growth, to: index)
        }
        queues[index].sends[position].verdict = verdict
        return position == queues[index].start
    }

    /// Removes and returns the first message of a queue.
    mutating func takeFirst(_ index: Index<HeldQueue>) -> HeldSend {
        let send = queues[index].first
        queues[index].start += 1
        // The memory of those that are gone is released in one go.
        if queues[index].start >= 64, queues[index].start * 2 >= queues[index].sends.count {
            queues[index].sends.removeFirst(queues[index].start)
            queues[index].start = 0
        }
        forget(send, of: index)
        return send
    }

    private mutating func forget(_ send: HeldSend, of index: Index<HeldQueue>) {
        if send.question != 0 { queuesOfQuestions[send.question] = nil }
        queues[index].byteCount -= send.byteCount
        add(-1, -send.byteCount, to: index)
    }

    /// Removes a queue without messages.
    mutating func remove(_ index: Index<HeldQueue>) {
        precondition(queues[index].count == 0, "\(queues[index].count) messages are held")
        if case .session(let session) = queues[index].sender { queuesOfSessions[session] = nil }
        queues.remove(index)
    }

    /// Separates the queue from its session, whose connection has ended. Transient messages stay;
    /// the others, which were not answered, are forgotten and returned.
    mutating func detach(
        _ session: Index<Session>, as principal: Principal
    ) -> [HeldSend] {
        guard let index = queuesOfSessions.removeValue(forKey: session) else { return [] }
        queues[index].sender = .principal(principal)
        let sends = Array(queues[index].sends[queues[index].start...])
        let forgotten = sends.filter { $0.request.grade != .transient }
        for send in forgotten { forget(send, of: index) }
        queues[index].sends = sends.filter { $0.request.grade == .transient }
        queues[index].start = 0
        return forgotten
    }

    // MARK: - Forgotten questions

    /// Keeps count of the questions about forgotten messages of a user on which nobody has decided.
    /// Nil if there are none.
    mutating func keep(
        questionsAbout sends: [HeldSend], of user: Index<User>, app: Index<App>
    ) -> Index<ForgottenQuestions>? {
        let questions = sends.filter { $0.question != 0 && $0.verdict == nil }.map {
            (number: $0.question, deadline: $0.deadline, byteCount: $0.byteCount)
        }
        guard !questions.isEmpty else { return nil }
        let index = forgotten.insert(
            ForgottenQuestions(user: user, app: app, questions: questions)
        ).index
        for question in questions {
            forgottenQuestions[question.number] = index
            Self.add(1, question.byteCount, to: &sumsOfUsers[user])
        }
        return index
    }

    /// Where a question about a forgotten message is counted.
    func forgotten(ofQuestion number: UInt64) -> Index<ForgottenQuestions>? {
        forgottenQuestions[number]
    }

    subscript(index: Index<ForgottenQuestions>) -> ForgottenQuestions {
        get { forgotten[index] }
        _modify { yield &forgotten[index] }
    }

    /// Stops counting the questions for which the condition holds.
    ///
    /// - Returns: whether some are left; otherwise the index is removed.
    mutating func end(
        _ index: Index<ForgottenQuestions>, where isOver: (UInt64, Instant) -> Bool
    ) -> Bool {
        let user = forgotten[index].user
        for question in forgotten[index].questions where isOver(question.number, question.deadline)
        {
            forgottenQuestions[question.number] = nil
            Self.add(-1, -question.byteCount, to: &sumsOfUsers[user])
        }
        forgotten[index].questions.removeAll { isOver($0.number, $0.deadline) }
        guard forgotten[index].questions.isEmpty else { return true }
        forgotten.remove(index)
        return false
    }

    func checkInvariants() {
        var forgottenCount = 0
        for index in forgotten.places where forgotten.contains(index) {
            precondition(forgotten[index].count > 0, "no forgotten question at \(index.place)")
            for question in forgotten[index].questions {
                precondition(
                    forgottenQuestions[question.number] == index,
                    "forgotten question \(question.number) is not found")
            }
            forgottenCount += forgotten[index].count
        }
        precondition(
            forgottenCount == forgottenQuestions.count,
            "\(forgottenCount) forgotten questions, not \(forgottenQuestions.count)")
        var (count, sessionCount, questionCount) = (0, 0, 0)
        for index in queues.places where queues.contains(index) {
            precondition(queues[index].count > 0, "queue \(index.place) holds nothing")
            if case .session(let session) = queues[index].sender {
                precondition(
                    queuesOfSessions[session] == index, "session \(session.place) has no queue")
                sessionCount += 1
            }
            let sends = queues[index].sends[queues[index].start...]
            count += sends.count
            let byteCount = sends.reduce(0) { $0 + $1.byteCount }
            precondition(
                byteCount == queues[index].byteCount,
                "\(byteCount) bytes are held, not \(queues[index].byteCount)")
            for send in sends where send.question != 0 && send.verdict == nil {
                precondition(
                    queuesOfQuestions[send.question] == index,
                    "question \(send.question) is not found")
                questionCount += 1
            }
        }
        precondition(count == self.count, "\(count) messages are held, not \(self.count)")
        precondition(
            sums.values.reduce(0) { $0 + $1.count } == count
                && sumsOfUsers.values.reduce(0) { $0 + $1.count } == count + forgottenCount,
            "\(count) messages are not counted")
        precondition(
            sessionCount == queuesOfSessions.count && questionCount == queuesOfQuestions.count,
            "\(sessionCount) sessions and \(questionCount) questions, not "
                + "\(queuesOfSessions.count) and \(queuesOfQuestions.count)")
    }
}
