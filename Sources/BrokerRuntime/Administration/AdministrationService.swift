// Executes administration requests and replies when their changes are committed. It uses the broker
// and its store, and no sockets.

import Administration
import BrokerCore
import BrokerTerms
import Credentials
import NetTransport
import Primitives
import WireFormat

/// Executes one request at a time, on the thread of the administration socket.
struct AdministrationService {
    let shards: Shards
    /// The shard whose apps the operations concern.
    var place = 0
    /// The clock of the event loops: for what no store keeps.
    let loopClock: BrokerClock
    let log: LogWriter
    let backups: BackupRunner
    let listeners: ListenerSet
    let metrics: MetricsPage
    let requests: APIQueue
    let trust: ClientTrust
    let rates: ClientRates
    let operators: Operators
    let reloads: ReloadRequests
    let credentials: APICredentials
    let passwords: PasswordVerifier
    let traces: TraceRegistry
    let shardNodes: [ShardNode]
    let interfaces: SourceServices
    let queueDepths = QueueDepths()
    let started: Moment
    let version: String
    /// Whether requests are refused without a look at the core: a change waits for the log of a
    /// cluster, which does not answer, so that nothing else may wait or be read.
    private(set) var refusesRequests = false

    init(
        shards: Shards, clock: BrokerClock, log: LogWriter, backups: BackupRunner,
        listeners: ListenerSet, web: WebServices, trust: ClientTrust, rates: ClientRates,
        reloads: ReloadRequests, passwords: PasswordVerifier, traces: TraceRegistry,
        shardNodes: [ShardNode] = [], version: String
    ) {
        self.passwords = passwords
        self.traces = traces
        self.shardNodes = shardNodes
        metrics = web.metrics
        requests = web.requests
        operators = web.operators
        interfaces = web.interfaces
        self.reloads = reloads
        credentials = APICredentials(shards: shards, operators: operators)
        self.rates = rates
        self.backups = backups
        self.listeners = listeners
        self.trust = trust
        self.shards = shards
        loopClock = clock
        self.log = log
        self.version = version
        started = clock.moment()
    }

    /// The core of the shard.
    var shared: SharedBroker { shards.cores[place] }

    /// The clock of the shard.
    var clock: BrokerClock { loopClock.shifted(byMilliseconds: shared.offsetMilliseconds) }

    /// The service for the shard that has an app, whether there is such an app or not.
    func serving(_ app: String) -> AdministrationService {
        guard shards.cores.count > 1 else { return self }
        var service = self
        service.place = shards.map.place(ofApp: Array(app.utf8))
        return service
    }

    /// Executes the requests in lines and returns the lines with their replies, in order. Messages
    /// that follow each other are begun together and share a commit.
    func answer(_ lines: [[UInt8]]) -> [UInt8] {
        var replies: [UInt8] = []
        var sends: [(request: SendMessage, progress: SendProgress)] = []
        for line in lines {
            do throws(AdministrationRefusal) {
                let command = try AdministrationCommand(line: line)
                if case .sendMessage(let request) = command {
                    try checkPlace(of: request.app)
                    sends.append((request, try serving(request.app).begin(request)))
                    guard sends.count == AdministrationLine.requestsTogetherMaximum else {
                        continue
                    }
                    replies += finish(&sends)
                } else {
                    replies += finish(&sends)
                    replies += try execute(command, replyingAs: .line)
                }
            } catch {
                replies += finish(&sends) + error.line
            }
        }
        return replies + finish(&sends)
    }

    /// Waits for the commit of messages and returns the lines with their replies.
    private func finish(
        _ sends: inout [(request: SendMessage, progress: SendProgress)]
    ) -> [UInt8] {
        defer { sends = [] }
        waitForCommits(
            of: sends.compactMap { if case .pending(let send) = $0.progress { send } else { nil } })
        var replies: [UInt8] = []
        for (request, progress) in sends {
            do throws(AdministrationRefusal) {
                switch progress {
                case .complete(let reply): replies += request.line(replying: reply)
                case .pending(let send): replies += request.line(replying: try finish(send))
                case .held(let number):
                    preconditionFailure("an operator's message \(number) is held")
                }
            } catch {
                replies += error.line
            }
        }
        return replies
    }

    /// Waits until messages are on disk: in each shard, for the last one.
    func waitForCommits(of sends: [PendingSend]) {
        for (place, core) in shards.cores.enumerated() {
            let last = sends.lazy.filter { $0.place == place }.map(\.sequence).max()
            if let last { core.waitForCommit(of: last) }
        }
    }

    /// The form of a reply.
    enum ReplyForm {
        /// A line of the administration socket.
        case line
        /// The reply's object alone.
        case object
    }

    /// Executes a request in the shard of its app and returns its reply.
    func execute(
        _ command: AdministrationCommand, replyingAs form: ReplyForm
    ) throws(AdministrationRefusal) -> [UInt8] {
        if let app = command.app { try checkPlace(of: app) }
        let service = command.app.map(serving) ?? self
        return try service.carryOut(command, replyingAs: form)
    }

    private func carryOut(
        _ command: AdministrationCommand, replyingAs form: ReplyForm
    ) throws(AdministrationRefusal) -> [UInt8] {
        func answer<Request: AdministrationRequest>(
            _ request: Request, with reply: Request.Reply
        ) -> [UInt8] {
            switch form {
            case .line: request.line(replying: reply)
            case .object: request.object(replying: reply)
            }
        }
        switch command {
        case .createApp(let request): return answer(request, with: try createApp(request))
        case .listApps(let request): return answer(request, with: try listApps())
        case .showApp(let request): return answer(request, with: try showApp(request))
        case .setAppRights(let request): return answer(request, with: try setRights(request))
        case .deleteApp(let request): return answer(request, with: try delete(request))
        case .explainRights(let request): return answer(request, with: try explain(request))
        case .addAppKey(let request): return answer(request, with: try add(request))
        case .listAppKeys(let request): return answer(request, with: try list(request))
        case .revokeAppKey(let request): return answer(request, with: try revoke(request))
        case .addUser(let request): return answer(request, with: try addUser(request))
        case .listUsers(let request): return answer(request, with: try list(request))
        case .showUser(let request): return answer(request, with: try show(request))
        case .deleteUser(let request): return answer(request, with: try delete(request))
        case .sendMessage(let request): return answer(request, with: try send(request))
        case .recallMessage(let request): return answer(request, with: try recall(request))
        case .replaceMessage(let request): return answer(request, with: try replace(request))
        case .setWakeTarget(let request): return answer(request, with: try set(request))
        case .listWakeTargets(let request): return answer(request, with: try list(request))
        case .removeWakeTarget(let request): return answer(request, with: try remove(request))
        case .testWake(let request): return answer(request, with: try test(request))
        case .listWakeLog(let request): return answer(request, with: try list(request))
        case .setWakeTemplate(let request): return answer(request, with: try set(request))
        case .listWakeTemplates(let request): return answer(request, with: try list(request))
        case .removeWakeTemplate(let request): return answer(request, with: try remove(request))
        case .tryWakeTemplate(let request): return answer(request, with: try test(request))
        case .mintTokens(let request): return answer(request, with: try mint(request))
        case .listTokens(let request): return answer(request, with: try listTokens(request))
        case .revokeTokens(let request): return answer(request, with: try revoke(request))
        case .setPassword(let request): return answer(request, with: try set(request))
        case .importPasswords(let request): return answer(request, with: try set(request))
        case .listPasswords(let request): return answer(request, with: try list(request))
        case .expirePassword(let request): return answer(request, with: try expire(request))
        case .revokePassword(let request): return answer(request, with: try revoke(request))
        case .listSessions(let request): return answer(request, with: try listSessions(request))
        case .importSession(let request): return answer(request, with: try take(request))
        case .kickSessions(let request): return answer(request, with: try kick(request))
        case .deleteSessions(let request): return answer(request, with: try delete(request))
        case .showOfflineQueue(let request): return answer(request, with: try show(request))
        case .listQueueMessages(let request): return answer(request, with: try list(request))
        case .dropQueueMessage(let request): return answer(request, with: try drop(request))
        case .listConversations(let request): return answer(request, with: try list(request))
        case .listHistory(let request): return answer(request, with: try list(request))
        case .listKeptTopics(let request): return answer(request, with: try list(request))
        case .removeFromHistory(let request):
            return answer(request, with: try remove(request))
        case .markConversation(let request): return answer(request, with: try mark(request))
        case .reportApplied(let request): return answer(request, with: try report(request))
        case .showReceipts(let request): return answer(request, with: try show(request))
        case .purgeQueues(let request): return answer(request, with: try purge(request))
        case .listRetained(let request): return answer(request, with: try list(request))
        case .showRetained(let request): return answer(request, with: try show(request))
        case .deleteRetained(let request): return answer(request, with: try delete(request))
        case .createGroup(let request): return answer(request, with: try createGroup(request))
        case .listGroups(let request): return answer(request, with: try listGroups(request))
        case .showGroup(let request): return answer(request, with: try showGroup(request))
        case .changeMember(let request): return answer(request, with: try change(request))
        case .changeGroup(let request): return answer(request, with: try change(request))
        case .deleteGroup(let request): return answer(request, with: try delete(request))
        case .backUpStore(let request): return answer(request, with: try backUp(request))
        case .showBackup(let request): return answer(request, with: showBackup())
        case .readStatistics(let request):
            return answer(request, with: readStatistics())
        case .readActivity(let request): return answer(request, with: read(request))
        case .listListeners(let request): return answer(request, with: listListeners())
        case .listRefusals(let request): return answer(request, with: listRefusals(request))
        case .listLogLines(let request): return answer(request, with: listLogLines(request))
        case .reloadConfiguration(let request): return answer(request, with: try reload())
        case .setLogLevel(let request): return answer(request, with: try setLevel(request))
        case .startTrace(let request):
            return answer(request, with: try start(request, by: nil))
        case .listTraces(let request): return answer(request, with: listTraces())
        case .readTrace(let request): return answer(request, with: try read(request))
        case .stopTrace(let request): return answer(request, with: try stop(request))
        case .addOperator(let request): return answer(request, with: try add(request))
        case .listOperators(let request): return answer(request, with: listOperators())
        case .revokeOperator(let request): return answer(request, with: try revoke(request))
        case .makeLoginLink(let request): return answer(request, with: try makeLink(request))
        case .showCluster(let request): return answer(request, with: try showCluster())
        case .stepDown(let request): return answer(request, with: try stepDown(request))
        case .showSelf(let request): return answer(request, with: try showSelf(nil))
        }
    }

    /// What it does while a change waits for the log of a cluster. It must not wait itself.
    ///
    /// - Parameter core: the one that it waits for.
    func serveMeanwhile(at now: Instant, of core: SharedBroker) {
        writeMetrics(at: now)
        guard let gate = core.gate, !gate.mayEmit else { return }
        var refusing = self
        refusing.refusesRequests = true
        refusing.answerRequests()
        refusing.answerInterfaces(at: now)
    }

    /// Whether the broker may answer: what another node of its cluster has changed since is not
    /// here.
    var mayAnswer: Bool {
        guard !refusesRequests else { return false }
        guard shards.cores.count > 1 else { return shared.gate?.mayEmit ?? true }
        // Requests about an app ask its shard: see ``checkPlace(of:)``.
        return true
    }

    /// What the statistics are read from, at this moment.
    private func statisticsSources() -> StatisticsSources {
        statisticsSources(of: ShardStatistics.sum(ShardStatistics.all(of: shards)))
    }

    /// - Parameter sum: of all shards.
    private func statisticsSources(of sum: ShardStatistics) -> StatisticsSources {
        StatisticsSources(
            counters: sum.counters, gauges: sum.gauges,
            loops: shards.loopHandles.map { $0.counters },
            rates: rates.counts, web: listeners.web.counts,
            api: StatisticsSources.API(
                requests: requests.answeredCount, failures: operators.failures.total),
            interfaces: interfaces.currentCounts,
            files: interfaces.files?.currentCounts ?? FileCounts(),
            passwords: passwords.current, process: ProcessUsage.now(),
            expiry: TrustExpiry(listeners: listeners, trust: trust, at: clock.moment()),
            cluster: shared.gate?.view?.withLock { $0 })
    }

    func statistics() -> BrokerStatistics { statistics(from: statisticsSources()) }

    private func statistics(from sources: StatisticsSources) -> BrokerStatistics {
        let uptime = loopClock.moment().instant.milliseconds(since: started.instant) / 1000
        return BrokerStatistics(version: version, uptimeSeconds: uptime, from: sources)
    }

    /// For `martlet stats`.
    private func readStatistics() -> ReadStatistics.Reply {
        let each = ShardStatistics.all(of: shards)
        let sources = statisticsSources(of: ShardStatistics.sum(each))
        var reply = statistics(from: sources).reply(latencies: BrokerTimes(of: shards).reply)
        if each.count > 1 { reply.shards = each.map { $0.values(beside: sources).reply } }
        return reply
    }

    /// Writes the metrics for the loops that wait for them.
    func writeMetrics(at now: Instant) {
        guard metrics.isAwaited else { return }
        let each = ShardStatistics.all(of: shards)
        let sources = statisticsSources(of: ShardStatistics.sum(each))
        let statistics = statistics(from: sources)
        let values = each.count > 1 ? each.map { $0.values(beside: sources) } : []
        let histograms = MetricHistogram.all(
            BrokerTimes(of: shards), of: shards.cores.map(\.commits))
        let tables = ShardStatistics.tableByteCounts(of: shards)
        var waiting = metrics.replace(until: now.advanced(bySeconds: 1)) { form in
            PrometheusText.text(
                statistics, shards: values, histograms: histograms, tables: tables, as: form)
        }
        while waiting != 0 {
            shards.loopHandles[waiting.trailingZeroBitCount].wake()
            waiting &= waiting - 1
        }
    }

    /// Whether any session subscribes to `$SYS` topics.
    var hasSystemSubscribers: Bool {
        shards.cores.contains { $0.enter { $0.broker.hasSystemSubscribers } }
    }

    /// Withholds the last values of `$SYS` topics from new subscriptions.
    func retireSystemTopics() {
        for core in shards.cores { core.enter { $0.broker.retireSystemValues() } }
    }

    /// Publishes the statistics of all shards as `$SYS` topics, for subscribers in each.
    func publish(_ topics: inout SystemTopics, at instant: Instant) {
        let sources = statisticsSources()
        let values = topics.values(statistics(from: sources), from: sources, at: instant)
        let now = loopClock.moment()
        for core in shards.cores {
            core.enter { state in
                state.broker.publishSystem(
                    values, at: core.local(now), effects: &state.effects)
            }
        }
    }

    // MARK: - Support

    /// Changes the core's state and returns when the change is on disk.
    func changeAndCommit<Result>(
        _ body: (inout SharedBroker.State) -> Result
    ) -> Result {
        let (result, sequence) = shared.enter { state in
            (body(&state), state.broker.pendingSequence)
        }
        shared.waitForCommit(of: sequence)
        return result
    }

    /// Like ``changeAndCommit(_:)``, for a change that may need space in the store.
    func growAndCommit<Value>(
        _ body: (inout SharedBroker.State) throws(NoRoom) -> Value
    ) throws(AdministrationRefusal) -> Value {
        let outcome = changeAndCommit { state in
            Result { () throws(NoRoom) in try body(&state) }
        }
        do throws(NoRoom) {
            return try outcome.get()
        } catch {
            throw refusal(of: error)
        }
    }

    func refusal(of error: NoRoom) -> AdministrationRefusal {
        guard error.limit.isOfStore else {
            return AdministrationRefusal(
                .quotaExceeded, "a limit is reached: \(error.limit.key) allows no more users")
        }
        let isDiskFull = shared.enter { $0.broker.storeLimit == .diskSpace }
        return AdministrationRefusal(
            .quotaExceeded,
            isDiskFull
                ? "the disk of the data directory is full: it has no room for this"
                : "the store is full: it has no room for this; martlet stats shows how much is "
                    + "used",
            cause: .full)
    }

    static func checkIdentifier(
        _ text: String, _ what: String
    ) throws(AdministrationRefusal) {
        guard TextRules.isIdentifier(Array(text.utf8).span.bytes) else {
            throw AdministrationRefusal(
                .clientIdentifierNotValid,
                "the \(what) \"\(text)\" must have 1 to 64 bytes, without /, +, # and "
                    + "control characters"
            )
        }
    }

    /// Refuses what is no name of an operator or a key.
    static func checkName(_ name: String, _ what: String) throws(AdministrationRefusal) {
        // A path with . or .. as a segment leads elsewhere (RFC 3986, 5.2.4), so that nobody could
        // remove the operator or the key over HTTP.
        guard Operators.isName(name), name != ".", name != ".." else {
            throw AdministrationRefusal(
                .clientIdentifierNotValid,
                "the \(what) \"\(name)\" must have 1 to \(Operators.nameByteCountMaximum) letters, "
                    + "digits, dots, hyphens, underscores and @")
        }
    }

    /// When a credential expires that is made now, in Unix seconds; the maximum for never. Rounded
    /// up: it is valid for at least as long as requested.
    ///
    /// - Parameter seconds: from now; nil for never.
    static func expiry(after seconds: UInt64?, at moment: Moment) -> UInt64 {
        guard let seconds else { return .max }
        let now = (moment.unixMilliseconds + 999) / 1_000
        let (sum, overflows) = now.addingReportingOverflow(seconds)
        return overflows ? .max : sum
    }

    /// Nothing is found in an app that does not exist, or whose deletion has begun.
    func unknownApp(_ app: String) -> AdministrationRefusal {
        AdministrationRefusal(
            .topicNameInvalid, unfinishedDeletion(app) ?? "there is no app \"\(app)\"",
            cause: .unknown)
    }

    /// What to say about an app whose deletion was interrupted; nil for others.
    func unfinishedDeletion(_ app: String) -> String? {
        let name = Array(app.utf8)
        guard let rest = shared.enter({ $0.broker.deletedApp(named: name) }) else { return nil }
        return "the app \"\(app)\" is being deleted, and \(rest.userCount) users and "
            + "\(rest.tokenCount) tokens of it are left; continue with: martlet app delete \(app)"
    }
}
