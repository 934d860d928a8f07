// Tells the back end of an app what happens in the broker: a numbered message to the user of a
// relay. An app without such a user costs one comparison.
//
// An event in the middle of a step, such as a full queue in the middle of a message's way, waits
// for the deadlines of the same turn, because it is a message itself.

import BrokerTerms
import Primitives

extension Broker {
    /// Tells of a connection that ended without a DISCONNECT, once in an interval for each user.
    mutating func reportLoss(of session: Index<Session>, _ reason: ReasonCode, at moment: Moment) {
        guard limits.hasBrokerEvents,
            let event = event(
                .sessionLost, "SESSION_LOST", of: session, at: moment, isPaced: true,
                { $0.write("reason", number: UInt64(reason.rawValue)) })
        else { return }
        wait(event, at: moment)
    }

    /// Tells of a session whose time is over, in the batch of its end.
    mutating func reportSessionExpiry(of session: Index<Session>, in step: inout Step) {
        guard limits.hasBrokerEvents else { return }
        let count = UInt64(sessions[session].inbox.count)
        guard
            let event = event(
                .sessionExpired, "SESSION_EXPIRED", of: session, at: step.moment, isPaced: false,
                { $0.write("messages", number: count) })
        else { return }
        tell(event, in: &step)
    }

    /// Tells of a queue of a user that is full, once in an interval.
    mutating func reportFullQueue(
        of user: Index<User>, device: Name?, _ limit: LimitName, at moment: Moment
    ) {
        guard limits.hasBrokerEvents,
            let event = event(
                .queueFull, "QUEUE_FULL", of: user, at: moment, isPaced: true,
                { text in
                    if let device, !device.isEmpty { text.write("device", string: device) }
                    if limit != .none { text.write("limit", word: "\(limit.key)") }
                })
        else { return }
        wait(event, at: moment)
    }

    private mutating func event(
        _ kind: BrokerEventKinds, _ name: StaticString, of session: Index<Session>,
        at moment: Moment, isPaced: Bool, _ write: (inout BrokerEventText) -> Void
    ) -> BrokerEventQueue.Event? {
        let device = sessions[session].device
        return event(
            kind, name, of: sessions[session].user, at: moment, isPaced: isPaced
        ) { text in
            if !device.isEmpty { text.write("device", string: device) }
            write(&text)
        }
    }

    /// An event about a user; nil if the app is not told of it.
    ///
    /// - Parameter isPaced: whether a user has one in an interval. The text is not made for others.
    private mutating func event(
        _ kind: BrokerEventKinds, _ name: StaticString, of user: Index<User>, at moment: Moment,
        isPaced: Bool, _ write: (inout BrokerEventText) -> Void
    ) -> BrokerEventQueue.Event? {
        let app = registry.apps[registry.users[user].app].name
        let userName = Array(registry.users[user].name)
        // An event about the relay itself would make the next one.
        guard let policy = limits.policy(ofApp: app).events, policy.kinds.contains(kind),
            userName != policy.relay
        else { return nil }
        if isPaced {
            switch brokerEvents.take(kind, of: user, at: moment.instant) {
            case .due: break
            case .told: return nil
            case .noRoom:
                counters.brokerEventsLost += 1
                return nil
            }
        }
        var text = BrokerEventText(name, ofUser: userName)
        write(&text)
        text.write("time", number: moment.unixMilliseconds)
        return BrokerEventQueue.Event(app: app, user: userName, text: text.end())
    }

    private mutating func wait(_ event: BrokerEventQueue.Event, at moment: Moment) {
        if brokerEvents.count == 0 { _ = deadlines.insert(.brokerEvents, at: moment.instant) }
        if !brokerEvents.add(event) { counters.brokerEventsLost += 1 }
    }

    /// Tells of some of the events that wait.
    mutating func sendWaitingEvents(in step: inout Step) {
        for event in brokerEvents.take(CoreLimits.brokerEventsPerDeadline) {
            tell(event, in: &step)
        }
        if brokerEvents.count > 0 {
            _ = deadlines.insert(.brokerEvents, at: step.moment.instant)
        }
    }

    private mutating func tell(_ event: BrokerEventQueue.Event, in step: inout Step) {
        guard let app = app(named: event.app),
            let policy = limits.policy(ofApp: event.app).events
        else { return }
        tell(policy, event.text, from: event.user, app: app, in: &step)
    }

    private mutating func tell(
        _ policy: BrokerEventPolicy, _ payload: [UInt8], from name: [UInt8], app: Index<App>,
        in step: inout Step
    ) {
        var isTaken = false
        if let receiver = user(named: policy.relay, app: app) {
            sendSystemMessage(
                .brokerEvent, about: [], payload: payload, from: name,
                expirySeconds: CoreLimits.brokerEventValiditySeconds, at: step.moment
            ) { broker, message, tally in
                broker.enqueue(
                    message, devicesOf: receiver, excluding: nil, tally: &tally, in: &step)
                isTaken = tally.taken > 0
            }
        }
        if isTaken {
            counters.brokerEventsTold += 1
        } else {
            counters.brokerEventsLost += 1
        }
        workload.charge(1)
    }

    // MARK: - Events of the whole broker

    /// Tells each app that asks for it of logins that were refused.
    ///
    /// - Parameters:
    ///   - count: how many, since the last call.
    ///   - address: from where the newest one came, in characters of a JSON string.
    public mutating func tellRefusedLogins(
        _ count: UInt64, newest user: String, address: String, code: UInt64, at moment: Moment,
        effects: inout Effects
    ) {
        tellApps(.loginRefused, "LOGIN_REFUSED", about: user, at: moment, effects: &effects) {
            $0.write("count", number: count)
            $0.write("address", string: Array(address.utf8))
            $0.write("reason", number: code)
        }
    }

    /// Tells each app that asks for it of a certificate or a revocation list that expires soon.
    ///
    /// - Parameter days: until then; negative after it.
    public mutating func tellExpiringCertificate(
        _ what: String, days: Int64, at moment: Moment, effects: inout Effects
    ) {
        tellApps(
            .certificateExpiring, "CERTIFICATE_EXPIRING", about: "", at: moment, effects: &effects
        ) {
            $0.write("what", string: Array(what.utf8))
            $0.write("days", raw: Array("\(days)".utf8))
        }
    }

    private mutating func tellApps(
        _ kind: BrokerEventKinds, _ name: StaticString, about user: String, at moment: Moment,
        effects: inout Effects, _ write: (inout BrokerEventText) -> Void
    ) {
        guard limits.hasBrokerEvents else { return }
        var text = BrokerEventText(name, ofUser: Array(user.utf8))
        write(&text)
        text.write("time", number: moment.unixMilliseconds)
        let payload = text.end()
        var step = Step(at: moment, effects: effects)
        // Only apps with settings of their own have events.
        for app in limits.appsWithBrokerEvents {
            guard let index = self.app(named: app),
                let policy = limits.policy(ofApp: app).events, policy.kinds.contains(kind)
            else { continue }
            tell(policy, payload, from: policy.relay, app: index, in: &step)
            commits.commitSoon()
        }
    }
}
