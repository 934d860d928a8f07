// The subscriptions and groups of both sessions: requested while there is room, counted by the
// brokers' answers, and requested again after a refusal.

import BrokerTerms
import ClientCore
import Primitives
import WireFormat

extension MessageBridge {
    mutating func pumpSubscriptions(_ now: Instant) {
        askForeign(now)
        askMartlet(now)
        nextSubscriptionRetry = .never
        if terms != nil {
            nextSubscriptionRetry = foreignSubscriptions.nextDeadline(after: now)
        }
        if martlet?.machine.isConnected ?? false {
            nextSubscriptionRetry = min(
                nextSubscriptionRetry, martletSubscriptions.nextDeadline(after: now))
        }
    }

    // MARK: - The MQTT broker

    /// The session is the one of the earlier answers.
    mutating func recordKeptForeign() {
        for (index, entry) in foreignSubscriptions.entries.enumerated() {
            guard case .filter(let filter, let qos) = entry.want,
                base.foreignFilters[filter] == qos
            else { continue }
            foreignSubscriptions.markKept(index)
        }
    }

    /// One request at a time, so that an answer belongs to one request.
    private mutating func askForeign(_ now: Instant) {
        guard let terms, !isDraining, !foreignSubscriptions.isAnythingAsked else { return }
        var filters: [(text: String, qos: MQTT.QoS)] = []
        var obsolete: [String] = []
        var byteCount = 0
        lastForeignRequest += 1
        for index in foreignSubscriptions.due(now) {
            let entry = foreignSubscriptions.entries[index]
            let filter: String
            switch entry.want {
            case .filter(let text, let qos):
                guard obsolete.isEmpty, let qos = MQTT.QoS(rawValue: qos) else { continue }
                filter = text
                filters.append((text, qos))
            case .obsolete(let text):
                guard filters.isEmpty else { continue }
                filter = text
                obsolete.append(text)
            case .group: continue
            }
            // Each filter adds two bytes of length and one of options; the packet has some bytes
            // before them.
            byteCount += filter.utf8.count + 3
            let isFull =
                filters.count + obsolete.count > BridgeLimits.filtersPerRequestMaximum
                || byteCount + BridgeLimits.requestHeaderByteCountMaximum > terms.packetMaximum
            if isFull {
                if filters.isEmpty { obsolete.removeLast() } else { filters.removeLast() }
                guard filters.isEmpty, obsolete.isEmpty else { break }
                let wait = foreignSubscriptions.refuse(index, reason: .packetTooLarge, now: now)
                logRefusal(side: "mqtt", want: entry.want, reason: .packetTooLarge, wait: wait)
                byteCount = 0
                continue
            }
            foreignSubscriptions.markAsked(index, lastForeignRequest)
            // The session may have it from now on, even if the answer is lost.
            if base.foreignFilters[filter] == nil {
                base.foreignFilters[filter] = BridgeRecord.unconfirmed
                recordChange()
            }
        }
        if !filters.isEmpty {
            // Only filters that end can overlap new ones.
            let isNeeded =
                terms.takesSubscriptionIdentifiers && foreignSubscriptions.isAnythingObsolete
            foreign.subscribe(
                filters, identifier: isNeeded ? subscriptionIdentifier : 0, now: now)
        }
        if !obsolete.isEmpty { foreign.unsubscribe(obsolete, now: now) }
    }

    /// SUBACK or UNSUBACK: a code for each filter of the request.
    mutating func foreignAnswered(_ codes: [UInt8], _ now: Instant) {
        let asked = foreignSubscriptions.asked(lastForeignRequest)
        for (index, code) in zip(asked, codes) {
            let want = foreignSubscriptions.entries[index].want
            guard code < 0x80 else {
                let reason = ReasonCode(rawValue: code) ?? .unspecifiedError
                let wait = foreignSubscriptions.refuse(index, reason: reason, now: now)
                logRefusal(side: "mqtt", want: want, reason: reason, wait: wait)
                continue
            }
            foreignSubscriptions.confirm(index)
            switch want {
            case .filter(let filter, let qos):
                base.foreignFilters[filter] = qos
                if code < qos { logLowered("mqtt", want, granted: code) }
            case .obsolete(let filter): base.foreignFilters[filter] = nil
            case .group: break
            }
        }
        recordChange()
        if foreignSubscriptions.takeReport(now) { logSubscribed("mqtt", foreignSubscriptions) }
    }

    // MARK: - Martlet

    /// Sends due requests, while the client's outbox has room.
    private mutating func askMartlet(_ now: Instant) {
        guard let martlet, martlet.machine.isConnected, !isDraining else { return }
        for index in martletSubscriptions.due(now) {
            let want = martletSubscriptions.entries[index].want
            do throws(ClientError) {
                let identifier = try martlet.request(want)
                martletSubscriptions.markAsked(index, identifier)
            } catch {
                switch error {
                case .outboxFull, .notConnected: return
                case .refused(let reason):
                    let wait = martletSubscriptions.refuse(index, reason: reason, now: now)
                    logRefusal(side: "martlet", want: want, reason: reason, wait: wait)
                    continue
                }
            }
            // The session may have it from now on, even if the answer is lost.
            if case .filter(let filter, let qos) = want, base.martletFilters[filter] != qos {
                base.martletFilters[filter] = qos
                recordChange()
            }
        }
    }

    mutating func martletAnswered(_ response: MRT.Response, _ now: Instant) {
        for index in martletSubscriptions.asked(response.identifier) {
            let want = martletSubscriptions.entries[index].want
            if response.reason.isFailure {
                let wait = martletSubscriptions.refuse(index, reason: response.reason, now: now)
                logRefusal(side: "martlet", want: want, reason: response.reason, wait: wait)
                continue
            }
            martletSubscriptions.confirm(index)
            switch want {
            case .filter(_, let qos):
                let granted = martlet?.copy(response.content).first ?? qos
                if granted < qos { logLowered("martlet", want, granted: granted) }
            case .obsolete(let filter):
                base.martletFilters[filter] = nil
                recordChange()
            case .group: break
            }
        }
        if martletSubscriptions.takeReport(now) { logSubscribed("martlet", martletSubscriptions) }
    }

    // MARK: - The log

    private mutating func logSubscribed(_ side: String, _ subscriptions: DesiredSubscriptions) {
        log(
            "subscribed",
            "side=\(side) filters=\(subscriptions.filterCount) "
                + "missing=\(subscriptions.missing.count)"
        )
    }

    private mutating func logRefusal(
        side: String, want: DesiredSubscriptions.Want, reason: ReasonCode, wait: UInt64
    ) {
        log(
            "subscription_refused",
            "side=\(side) \(want.name) reason=\(reason.name) retry_ms=\(wait)")
    }

    private mutating func logLowered(
        _ side: String, _ want: DesiredSubscriptions.Want, granted: UInt8
    ) {
        log("subscription_lowered", "side=\(side) \(want.name) granted=\(granted)")
    }

    /// Lists the subscriptions and groups of the rules that no broker has confirmed, with each
    /// `totals`.
    mutating func logMissing() {
        let sides = [("mqtt", foreignSubscriptions), ("martlet", martletSubscriptions)]
        for (side, subscriptions) in sides {
            for entry in subscriptions.missing.prefix(BridgeLimits.missingLinesMaximum) {
                let reason = entry.reason.map { "\($0.name)" } ?? "unanswered"
                log(
                    "subscription_missing",
                    "side=\(side) \(entry.want.name) reason=\(reason) "
                        + "refusals=\(entry.refusalCount)")
            }
        }
    }
}

extension MartletLink {
    /// Sends the request of an entry.
    ///
    /// - Returns: the id of the request.
    fileprivate func request(_ want: DesiredSubscriptions.Want) throws(ClientError) -> UInt64 {
        switch want {
        case .filter(let filter, let qos): try request(.subscribe, [qos] + filter.utf8)
        case .obsolete(let filter): try request(.unsubscribe, Array(filter.utf8))
        case .group(let group):
            // A name and its length byte.
            try request(.groupJoin, [UInt8(clamping: group.utf8.count)] + group.utf8)
        }
    }

    private func request(
        _ operation: MRT.Operation, _ parameters: [UInt8]
    ) throws(ClientError) -> UInt64 {
        try parameters.span.bytes.withUnsafeBytes { bytes throws(ClientError) in
            try machine.request(operation, parameters: bytes)
        }
    }
}

extension RuleSet {
    /// The subscriptions that the rules need at the MQTT broker.
    var foreignWants: [DesiredSubscriptions.Want] {
        inward.map { .filter($0.filter.text, qos: $0.qos.rawValue) }
    }

    /// The subscriptions that the rules need at Martlet, and the groups that they name.
    var martletWants: [DesiredSubscriptions.Want] {
        var filters: [String: UInt8] = [:]
        var groups: Set<String> = []
        for rule in outward {
            switch rule.source {
            case .topic(let filter): filters[filter.text] = rule.qos.rawValue
            case .group(let group?): groups.insert(group)
            case .group(nil), .inbox, .broadcast: break
            }
        }
        for rule in inward {
            if case .group(let template) = rule.target, template.isFixed {
                groups.insert(template.source)
            }
        }
        return filters.sorted { $0.key < $1.key }.map { .filter($0.key, qos: $0.value) }
            + groups.sorted().map { .group($0) }
    }
}
