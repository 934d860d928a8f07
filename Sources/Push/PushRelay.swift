// A relay for wake-ups, as its loop runs it: attempts with the senders of all kinds, the record,
// and what the broker is told.

import ClientProgram
import Glibc
import JSON5
import MartletClient
import Primitives
import Relay
import WakeTemplates

struct PushRelay: RelayWork, ~Copyable {
    typealias Content = PushRecord

    private let settings: PushSettings
    let session: BrokerSession?
    let pool: TransferPool
    private let returns: PushReturns
    private var dispatcher: WakeDispatcher
    private var record: RecordFile<PushRecord>
    private var apns: APNsSender
    private var fcm: FCMSender?
    private let mqtt: MQTTSender?
    private let datagrams: DatagramSender?
    /// Attempts under way. A tag of 0 is the request for an access token.
    private var attempts: [UInt64: WakeDispatcher.Attempt] = [:]
    private var lastTag: UInt64 = 0
    /// Attempts that wait for an access token.
    private var tokenless: [WakeDispatcher.Attempt] = []
    private var isConnected = false
    private var isClockOff = false

    /// - Parameter session: nil without a broker, for tests.
    init(
        _ settings: PushSettings, record: consuming RecordFile<PushRecord>,
        session: BrokerSession?, waker: RelayWaker
    ) {
        self.settings = settings
        self.session = session
        returns = PushReturns(waker)
        pool = TransferPool(
            waker, rules: AddressRules(allowed: settings.relay.privateNetworks),
            requestsMaximum: min(settings.concurrency, PushLimits.connectionsMaximum))
        dispatcher = WakeDispatcher(
            settings, stored: record.stored, seed: .random(in: 0...(.max)), now: SystemClocks.now)
        self.record = record
        apns = APNsSender(settings.apns)
        fcm = settings.fcm.map { FCMSender($0) }
        mqtt = settings.mqtt.map { [returns] in MQTTSender($0, returns: returns) }
        if let udp = settings.udp {
            datagrams = DatagramSender(udp, returns: returns)
        } else {
            datagrams = nil
        }
    }

    deinit { mqtt?.stop() }

    mutating func start(now: Instant) throws(RelayFailure) {
        Self.raiseDescriptorLimit(
            to: settings.concurrency + PushLimits.otherDescriptorsMaximum)
        if let mqtt, !mqtt.start() { throw .noThread }
        do throws(RecordFailure) {
            try record.renew(from: &dispatcher)
        } catch {
            throw .record(error)
        }
        session?.start(wants: [], obsolete: [])
    }

    /// Each request has a descriptor, and the usual limit is 1,024.
    private static func raiseDescriptorLimit(to count: Int) {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0,
            limit.rlim_cur < rlim_t(count)
        else { return }
        limit.rlim_cur = min(limit.rlim_max, rlim_t(count))
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    // MARK: - Inputs and time

    mutating func take(_ input: RelayInput, now: Moment) {
        switch input {
        case .connected(let terms):
            isConnected = true
            dispatcher.connected(
                as: terms.user, serverTime: terms.serverTime, now: now.instant)
            dispatcher.log(
                "connected",
                "server=\(terms.server) user=\(quoted(terms.user.utf8)) "
                    + "session=\(terms.isNewInbox ? "new" : "present")")
        case .disconnected: isConnected = false
        case .message(let message): dispatcher.accept(message, now: now)
        // It subscribes to nothing and publishes nothing.
        default: break
        }
    }

    mutating func countDropped(_ count: Int) {
        dispatcher.totals.dropped += UInt64(clamping: count)
    }

    mutating func timePassed(now: Moment) {
        dispatcher.timePassed(now: now)
        for value in returns.takeAll() {
            switch value {
            case .sent(let tag, let outcome): finish(tag, outcome, now: now)
            case .removed(let key, let refusal):
                dispatcher.finish(removal: key, refusal: refusal, now: now)
            case .reported(let outcome): dispatcher.finish(report: outcome, now: now)
            }
        }
    }

    mutating func turnEnded() {}

    func nextDeadline(now: Instant) -> Instant { dispatcher.nextDeadline(now: now) }

    /// Whether nothing is under way, and the broker has been told what became of the wake-ups.
    /// Without a connection it is told after the next start.
    var isQuiet: Bool {
        dispatcher.inFlightCount == 0 && !(isConnected && dispatcher.hasReports)
    }

    mutating func drain(now: Instant) { dispatcher.drain() }

    // MARK: - Attempts

    mutating func begin(now: Moment) {
        while let key = dispatcher.nextRemoval(now: now.instant) { remove(key) }
        if let reports = dispatcher.nextReport(now: now.instant) { report(reports) }
        while let attempt = dispatcher.nextAttempt(now: now) { begin(attempt, now) }
    }

    private mutating func begin(_ attempt: WakeDispatcher.Attempt, _ now: Moment) {
        switch attempt.phase {
        case .hook:
            guard let hook = settings.hook else {
                preconditionFailure("a question for \(attempt.wake.sequence), and no hook")
            }
            start(RequestSender.question(for: attempt.wake, hook, now: now), attempt)
        case .send(let content): send(attempt, content, now: now)
        }
    }

    private mutating func send(
        _ attempt: WakeDispatcher.Attempt, _ content: WakeContent, now: Moment
    ) {
        let wake = attempt.wake
        switch wake.target.kind {
        case .webhook, .sms:
            let isSMS = wake.target.kind == .sms
            guard let requests = isSMS ? settings.sms : settings.webhook else {
                preconditionFailure("a wake-up \(wake.sequence) for a URL, which is not set")
            }
            start(
                RequestSender.request(for: wake, content, requests, now: now), attempt, now: now)
        case .apns: start(apns.request(for: wake, content, now: now), attempt, now: now)
        case .fcm: sendFCM(attempt, content, now: now)
        case .mqtt:
            guard let mqtt, let broker = settings.mqtt else {
                preconditionFailure("a wake-up \(wake.sequence) for MQTT, which is not set")
            }
            guard broker.permits(wake.target.address, user: wake.user) else {
                return dispatcher.finish(
                    attempt, with: .refused("topic-not-allowed", isFinal: true), isLocal: true,
                    now: now)
            }
            lastTag += 1
            attempts[lastTag] = attempt
            let seconds = (max(wake.expiry, now.unixMilliseconds) - now.unixMilliseconds) / 1_000
            mqtt.publish(
                topic: wake.target.address, content.content.json,
                expirySeconds: UInt32(clamping: seconds), tag: lastTag)
        case .udp:
            lastTag += 1
            attempts[lastTag] = attempt
            // The same nonce in all datagrams of a wake-up: an odd multiple of its number (2^64 /
            // golden ratio), so that numbers differ in all bytes.
            let nonce = wake.sequence &* 0x9E37_79B9_7F4A_7C15
            if let outcome = sendDatagram(wake, nonce: nonce) {
                finish(lastTag, outcome, now: now)
            }
        }
    }

    private func sendDatagram(_ wake: Wake, nonce: UInt64) -> SendOutcome? {
        switch datagrams {
        case nil: preconditionFailure("a wake-up \(wake.sequence) for UDP, which is not set")
        case .some(let sender): sender.send(wake, nonce: nonce, tag: lastTag)
        }
    }

    private mutating func sendFCM(
        _ attempt: WakeDispatcher.Attempt, _ content: WakeContent, now: Moment
    ) {
        guard let access = fcm?.access(now: now) else {
            preconditionFailure("a wake-up \(attempt.wake.sequence) for FCM, which is not set")
        }
        switch access {
        case .ready(let token):
            start(
                fcm!.request(for: attempt.wake, content, token: token, now: now), attempt, now: now)
        case .wanted:
            pool.begin(fcm!.tokenRequest(now: now), tag: 0)
            tokenless.append(attempt)
        case .asked: tokenless.append(attempt)
        }
    }

    private mutating func start(
        _ request: Result<TransferRequest, SendFault>, _ attempt: WakeDispatcher.Attempt,
        now: Moment
    ) {
        switch request {
        case .success(let request): start(request, attempt)
        case .failure(let fault):
            dispatcher.finish(
                attempt, with: fault.outcome, isLocal: true, isOfContent: fault.isOfContent,
                now: now)
        }
    }

    private mutating func start(_ request: TransferRequest, _ attempt: WakeDispatcher.Attempt) {
        lastTag += 1
        attempts[lastTag] = attempt
        pool.begin(request, tag: lastTag)
    }

    mutating func take(_ completion: TransferPool.Completion, now: Moment) {
        let answer = DestinationAnswer(
            result: completion.result, content: completion.answer,
            serverSeconds: completion.serverSeconds, wasConnected: completion.wasConnected)
        guard completion.tag != 0 else { return takeToken(answer, now) }
        guard let attempt = attempts.removeValue(forKey: completion.tag) else {
            preconditionFailure("request \(completion.tag) has ended before")
        }
        if case .hook = attempt.phase {
            let next = dispatcher.finish(
                hook: attempt, with: RequestSender.answer(answer), now: now)
            if let next { begin(next, now) }
            return
        }
        let outcome: SendOutcome
        switch attempt.wake.target.kind {
        case .apns:
            outcome = apns.outcome(answer)
            logClock(apns.clockOffset(answer, now: now))
        case .fcm: outcome = fcm!.outcome(answer, of: completion.tag)
        case .webhook: outcome = RequestSender.outcome(answer, isOfTarget: true)
        case .sms, .mqtt, .udp: outcome = RequestSender.outcome(answer)
        }
        dispatcher.finish(attempt, with: outcome, now: now)
    }

    private mutating func finish(_ tag: UInt64, _ outcome: SendOutcome, now: Moment) {
        guard let attempt = attempts.removeValue(forKey: tag) else {
            preconditionFailure("attempt \(tag) has ended before")
        }
        dispatcher.finish(attempt, with: outcome, now: now)
    }

    private mutating func takeToken(_ answer: DestinationAnswer, _ now: Moment) {
        let attempts = tokenless
        tokenless = []
        if let reason = fcm?.accept(token: answer, after: lastTag, now: now) {
            dispatcher.log("access_token_refused", "reason=\(quoted(reason.utf8))")
            for attempt in attempts {
                dispatcher.finish(
                    attempt,
                    with: .failed("oauth \(reason)", retryAfterSeconds: 0, isDestination: true),
                    now: now)
            }
            return
        }
        for attempt in attempts { begin(attempt, now) }
    }

    /// Logs once that Apple does not accept the time of the relay's tokens.
    private mutating func logClock(_ offset: Int?) {
        guard let offset else { return }
        if !isClockOff {
            dispatcher.log(
                "provider_token_refused",
                "clock_offset_s=\(offset) hint=\"check the clock, the key and the team\"")
        }
        isClockOff = true
    }

    private func remove(_ key: WakeKey) {
        guard let session else { return returns.put(.removed(key, refusal: nil)) }
        let returns = returns
        Task {
            do throws(MartletError) {
                try await session.client.removeWakeTarget(key.id, of: key.user)
                returns.put(.removed(key, refusal: nil))
            } catch {
                // The targets of a user who was deleted meanwhile are gone too.
                if case .refused(.topicNameInvalid, _) = error {
                    returns.put(.removed(key, refusal: nil))
                } else {
                    returns.put(.removed(key, refusal: "\(error)"))
                }
            }
        }
    }

    private func report(_ reports: [WakeReport]) {
        guard let session else { return returns.put(.reported(.taken)) }
        let returns = returns
        Task {
            do throws(MartletError) {
                try await session.client.report(reports)
                returns.put(.reported(.taken))
            } catch {
                switch error {
                case .refused, .invalid: returns.put(.reported(.refused("\(error)")))
                default: returns.put(.reported(.failed))
                }
            }
        }
    }

    // MARK: - The record

    var mayResend: Bool { !dispatcher.deadLetters.isEmpty }

    mutating func resend(_ sequences: [UInt64], now: Moment) {
        dispatcher.resend(sequences, now: now)
    }

    var hasUnwritten: Bool { dispatcher.hasUnwritten }

    mutating func save(now: Instant, isForced: Bool) throws(RecordFailure) {
        guard let entries = dispatcher.nextWrite(now: now, isForced: isForced) else { return }
        do throws(RecordFailure) {
            try record.append(entries, isSynced: true)
            dispatcher.recordWritten()
        } catch {
            guard case .noRoom(let reason) = error else { throw error }
            guard try record.makeRoom(for: &dispatcher) else {
                return dispatcher.notWritten(reason, now: now)
            }
        }
        try record.compact(from: &dispatcher)
    }

    mutating func takeAcknowledgement() -> InboxRecord? { dispatcher.takeAcknowledgement() }

    // MARK: - The log

    mutating func log(_ event: String, _ fields: String) { dispatcher.log(event, fields) }

    mutating func logTotals() { dispatcher.logTotals() }

    mutating func takeLines() -> [String] { dispatcher.takeLines() }
}
