// The bridge as a value: bytes of both brokers and the time go in, bytes and effects come out. It
// opens no socket and writes no file. Three rules give its guarantee:
//
//   * A publication is acknowledged to the MQTT broker after Martlet's result, a delivery to
//     Martlet after PUBACK or PUBCOMP. At any moment one side holds each message and knows that it
//     must resend it.
//   * The data that distinguishes a repetition from a new message is in the record before anything
//     is sent that depends on it: the handler saves a changed record before it sends the turn's
//     bytes.
//   * Messages that are unanswered when a connection ends are sent again in their old order, before
//     new ones, and under their old number or packet identifier.

import ClientCore
import ClientProgram
import MartletClient
import Primitives
import WireFormat

/// An effect of the bridge.
package enum BridgeEffect: Equatable {
    case dialForeign
    case dialMartlet
    /// Close the connection after its pending bytes are sent.
    case hangUpForeign
    case hangUpMartlet
    case log(String)
    /// The bridge cannot continue.
    case fail(String)
}

package struct MessageBridge: ~Copyable {
    /// A reload changes the rules and the time between totals, and nothing else.
    var settings: BridgeSettings
    var rules: RuleSet { settings.rules }
    /// Settings of a reload that wait until the MQTT broker has answered a request.
    var nextSettings: BridgeSettings?
    /// When they have waited too long.
    var reloadDeadline = Instant.never
    private let jitterSeed: UInt64
    private let freshEpoch: UInt64

    package var foreign: ForeignLink
    /// Nil until the first number of this run is known.
    package var martlet: MartletLink?
    /// The granted terms; nil while the MQTT broker is not connected.
    var terms: ForeignTerms?
    /// The MQTT broker's socket has too many unsent bytes.
    var isForeignClogged = false

    var inward: InwardExchanges
    var outward: OutwardExchanges
    /// The parts of the record outside the exchanges.
    var base: BridgeRecord
    /// The record has changed since it was last taken.
    private(set) var isDirty = true

    var totals = BridgeTotals()
    private var effects: [BridgeEffect] = []
    /// The bridge's own user in Martlet.
    var ownUser: [UInt8] = []
    /// The reason for which the connection to Martlet ended last.
    var martletDetail = ""
    /// For each broker, the subscriptions that its session should have, and those that it has.
    var foreignSubscriptions: DesiredSubscriptions
    var martletSubscriptions: DesiredSubscriptions
    /// Distinguishes the subscriptions at the MQTT broker of before a change of the rules from
    /// those after it. Random at the start, so that it differs from those of earlier runs.
    var subscriptionIdentifier: UInt32
    var copies = SubscriptionCopies()
    /// Counts the requests to the MQTT broker: an answer belongs to the last one.
    var lastForeignRequest: UInt64 = 0
    /// The time until which messages of an earlier run may be repeated; `never` before the MQTT
    /// broker is connected.
    var recoveryDeadline = Instant.never
    /// When messages that the MQTT broker has not repeated since it connected count as expired.
    /// Each repetition moves both times, because on a slow line the next one may still be in
    /// flight.
    var staleDeadline = Instant.never
    var nextRetry = Instant.never
    var nextSubscriptionRetry = Instant.never
    var nextUnmatchedLine = Instant(milliseconds: 0)
    var nextTotals = Instant.never
    private(set) var drainDeadline: Instant?
    private(set) var hasLeft = false

    /// - Parameters:
    ///   - stored: the record of an earlier run; nil for none.
    ///   - freshEpoch: the outbox epoch, random and not 0.
    package init(
        _ settings: BridgeSettings, stored: BridgeRecord?, jitterSeed: UInt64, freshEpoch: UInt64
    ) {
        self.settings = settings
        self.jitterSeed = jitterSeed
        self.freshEpoch = freshEpoch
        base =
            stored
            ?? BridgeRecord(
                clientIdentifier: settings.foreign.clientIdentifier, outboxEpoch: freshEpoch)
        foreignSubscriptions = DesiredSubscriptions(
            settings.rules.foreignWants, earlier: base.foreignFilters.keys)
        martletSubscriptions = DesiredSubscriptions(
            settings.rules.martletWants, earlier: base.martletFilters.keys)
        subscriptionIdentifier =
            UInt32(
                freshEpoch % UInt64(BridgeLimits.subscriptionIdentifierMaximum)) + 1
        inward = InwardExchanges(base.inward)
        outward = OutwardExchanges(base.outward)
        foreign = ForeignLink(
            settings.foreign, packetMaximum: settings.packetMaximum, jitterSeed: jitterSeed)
    }

    // MARK: - Life

    package mutating func start(now: Instant) {
        scheduleTotals(now)
        if inward.isMissingAny {
            log("recovery", "missing=\(inward.notes.count { !$0.isSettled })")
        } else {
            startMartlet(now)
        }
        foreign.start(now: now)
    }

    /// Begins Martlet's side, when every message whose number is in the record was repeated or
    /// counts as expired. Numbers that are not sent again are complete; if there are none, the
    /// numbering begins anew.
    mutating func startMartlet(_ now: Instant) {
        guard martlet == nil else { return }
        let lostCount = inward.forgetMissing()
        if lostCount > 0 { log("recovery_incomplete", "lost=\(lostCount)") }
        let found = inward.found
        if let first = found.first {
            base.reservedThrough = max(base.reservedThrough, found.last!.number!)
            var record = ClientRecord(outboxEpoch: base.outboxEpoch)
            record.outbox.highestUsed = base.reservedThrough
            record.outbox.resultsSeen = first.number! - 1
            makeMartlet(record)
        } else {
            base.outboxEpoch = freshEpoch
            base.reservedThrough = 0
            makeMartlet(ClientRecord(outboxEpoch: freshEpoch))
        }
        for entry in found { resend(entry, now) }
        recordChange()
        martlet!.machine.start(now: now)
    }

    private mutating func makeMartlet(_ record: ClientRecord) {
        var record = record
        record.inbox = base.inbox
        record.cookie = base.cookie
        martlet = MartletLink(
            settings.martlet, packetMaximum: settings.packetMaximum, record: record,
            jitterSeed: jitterSeed ^ .max)
    }

    /// Accepts no new messages from now on, and ends when the open exchanges are complete.
    mutating func drain(now: Instant) {
        guard drainDeadline == nil else { return }
        drainDeadline = now.advanced(byMilliseconds: BridgeLimits.drainMilliseconds)
    }

    var isDraining: Bool { drainDeadline != nil }

    private var isIdle: Bool {
        let isMartletThere = martlet?.machine.isConnected ?? false
        return (!isMartletThere || inward.sentCount == 0)
            && (terms == nil || outward.inFlightCount == 0)
    }

    // MARK: - Bytes

    package mutating func foreignReceived(_ bytes: UnsafeRawBufferPointer, now: Instant) {
        foreign.received(bytes, now: now)
        takeForeignEvents(now)
    }

    package mutating func martletReceived(_ bytes: UnsafeRawBufferPointer, now: Instant) {
        guard let martlet else { return }
        var rest = bytes
        while !rest.isEmpty {
            let space = martlet.machine.receiveSpace()
            let count = min(space.count, rest.count)
            space.copyMemory(from: UnsafeRawBufferPointer(rebasing: rest[..<count]))
            martlet.machine.received(byteCount: count, now: now)
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            takeMartletEvents(now)
        }
    }

    /// The address of Martlet for the present or the next connection.
    var martletServer: ServerAddress { settings.martlet.servers[martlet?.machine.server ?? 0] }

    /// The connection to Martlet has ended, or could not be opened.
    package mutating func martletClosed(_ detail: String, now: Instant) {
        martletDetail = detail
        martlet?.machine.closed(now: now)
    }

    // MARK: - A turn

    /// Executes everything that follows from the turn's bytes, and from the time.
    package mutating func work(now: Instant) {
        foreign.timePassed(now: now)
        martlet?.machine.timePassed(now: now)
        if now >= recoveryDeadline, martlet == nil { startMartlet(now) }
        if now >= staleDeadline {
            // While nothing is read, a repetition may still be in flight.
            staleDeadline =
                foreign.isReadingPaused
                ? now.advanced(byMilliseconds: BridgeLimits.recoveryMilliseconds) : .never
            if !foreign.isReadingPaused, inward.forgetStale() { recordChange() }
        }
        takeForeignEvents(now)
        takeMartletEvents(now)
        applyReload(now)
        // Before the messages, which may leave no room in the outbox for a request.
        pumpSubscriptions(now)
        pumpInward(now)
        pumpOutward(now)
        if now >= nextTotals {
            logTotals()
            logMissing()
            scheduleTotals(now)
        }
        if let drainDeadline, !hasLeft, isIdle || now >= drainDeadline { leave(now) }
    }

    /// More messages wait than a broker that respects the window can have sent. Reading completes
    /// those that wait for PUBREL, and ends the wait for an earlier run.
    var wantsPause: Bool {
        guard martlet != nil, inward.openCount > 0 else { return false }
        let waitingCount = max(inward.openCount, inward.unansweredCount)
        return waitingCount > 4 * settings.foreign.inFlightMaximum
    }

    private mutating func leave(_ now: Instant) {
        hasLeft = true
        logTotals()
        martlet?.machine.leave(now: now)
        foreign.leave(now: now)
    }

    /// After the next line of totals; `never` if there is only the last.
    mutating func scheduleTotals(_ now: Instant) {
        nextTotals =
            settings.totalsSeconds > 0
            ? now.advanced(bySeconds: UInt64(settings.totalsSeconds)) : .never
    }

    package mutating func logTotals() {
        totals.filters = UInt64(foreignSubscriptions.filterCount + martletSubscriptions.filterCount)
        totals.missing = UInt64(
            foreignSubscriptions.missing.count + martletSubscriptions.missing.count)
        log("totals", totals.line)
    }

    var nextDeadline: Instant {
        var deadline = min(foreign.nextDeadline, nextRetry, nextTotals, staleDeadline)
        deadline = min(deadline, nextSubscriptionRetry, reloadDeadline)
        if let martlet {
            deadline = min(deadline, martlet.machine.nextDeadline)
        } else {
            deadline = min(deadline, recoveryDeadline)
        }
        if let drainDeadline, !hasLeft { deadline = min(deadline, drainDeadline) }
        return deadline
    }

    // MARK: - The record and the effects

    mutating func recordChange() { isDirty = true }

    /// The record to sync before any byte of this turn is sent; nil if nothing has changed.
    package mutating func takeRecord() -> BridgeRecord? {
        guard isDirty else { return nil }
        isDirty = false
        totals.recordWrites += 1
        if let martlet {
            base.inbox = martlet.machine.inboxRecord
            base.cookie = martlet.machine.resumeCookie
        }
        base.inward = inward.notes
        base.outward = outward.notes
        return base
    }

    mutating func add(_ effect: BridgeEffect) { effects.append(effect) }

    mutating func log(_ event: String, _ fields: String) {
        effects.append(.log("event=\(event) \(fields)"))
    }

    package mutating func takeEffects() -> [BridgeEffect] {
        defer { effects = [] }
        return effects
    }

    /// The time until the next attempt of a message that was refused temporarily.
    func retryTime(after attempts: UInt64, _ now: Instant) -> Instant {
        let wait = BridgeLimits.retryMillisecondsMinimum << min(attempts, 7)
        return now.advanced(byMilliseconds: min(wait, BridgeLimits.retryMillisecondsMaximum))
    }
}
