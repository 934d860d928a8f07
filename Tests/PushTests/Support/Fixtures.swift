// What the tests of the relay's values have in common: settings, events, and a time that they move.

import BrokerTerms
import MartletClient
import Primitives
import WakeTemplates

@testable import Push
@testable import Relay

enum Fixture {
    static let secretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    static let secret = WebhookSecret(secretText)!

    static func settings(_ change: (inout PushSettings) -> Void = { _ in }) -> PushSettings {
        var settings = PushSettings(
            RelaySettings(
                servers: [ServerAddress(host: "b", port: 1)], token: "t", device: "d",
                stateFile: "s"))
        settings.relay.retryMilliseconds = 100
        settings.relay.retrySecondsMaximum = 10
        settings.webhook = RequestSettings(secrets: [secret])
        settings.sms = RequestSettings(
            url: "https://sms.example", secrets: [secret], numberPrefixes: ["+"])
        change(&settings)
        return settings
    }

    static func request(
        _ user: String = "bob", ids: [UInt64] = [1], kind: String = "webhook",
        address: (UInt64) -> String = { "https://h\($0).example/w" }, count: Int = 1,
        time: UInt64 = 1_800_000_000_000, more: String = ""
    ) -> String {
        let targets = ids.map {
            #"{"id":\#($0),"device":"phone","kind":"\#(kind)","address":"\#(address($0))","#
                + #""environment":"production","language":"de"}"#
        }
        return #"{"event":"WAKE_REQUEST","user":"\#(user)","#
            + #""targets":[\#(targets.joined(separator: ","))],"#
            + #""from":"alice","group":"g","time":\#(time),"count":\#(count)\#(more)}"#
    }

    static func withdrawn(_ user: String = "bob", target: UInt64? = nil) -> String {
        let target = target.map { #""target":\#($0),"# } ?? ""
        return #"{"event":"WAKE_WITHDRAWN","user":"\#(user)",\#(target)"time":1800000000000}"#
    }

    static func message(_ json: String, number: UInt64, epoch: UInt64 = 7) -> IncomingMessage {
        IncomingMessage(
            kind: .brokerEvent(json: json), from: "", time: 1_800_000_000_000, content: .bytes([]),
            record: InboxRecord(epoch: epoch, number: number))
    }

    static func moment(_ milliseconds: UInt64) -> Moment {
        Moment(
            instant: Instant(milliseconds: milliseconds),
            unixMilliseconds: 1_800_000_000_000 + milliseconds)
    }

    static func wake(
        _ kind: WakeKind = .webhook, address: String = "https://h.example/w", push: String = "",
        text: String = "hello", group: String = "crew"
    ) -> Wake {
        Wake(
            sequence: 3, user: "bob",
            target: PushTarget(id: 1, device: "phone", kind: kind, address: address),
            identifier: "msg_00112233445566778899aabbccddeeff", from: "alice", group: group,
            time: 1_800_000_000_000, count: 4, expiry: 1_800_000_600_000, reference: "",
            push: Array(push.utf8), text: text, isTest: false)
    }
}

/// A dispatcher with its record, without sockets and files.
struct ModelRelay {
    var dispatcher: WakeDispatcher
    /// What is on disk.
    var record: PushRecord
    var acknowledged: InboxRecord?
    var time: UInt64 = 1_000
    var number: UInt64 = 0
    /// Attempts under way.
    var attempts: [WakeDispatcher.Attempt] = []
    let settings: PushSettings

    /// What the relay's own clock is ahead, in milliseconds.
    var clockError: Int64 = 0

    var now: Moment {
        let moment = Fixture.moment(time)
        return Moment(
            instant: moment.instant,
            unixMilliseconds: UInt64(Int64(moment.unixMilliseconds) + clockError))
    }

    init(
        _ settings: PushSettings, record: PushRecord = PushRecord(), time: UInt64 = 1_000,
        seed: UInt64 = 1
    ) {
        self.settings = settings
        self.record = record
        self.time = time
        dispatcher = WakeDispatcher(
            settings, stored: record, seed: seed, now: Fixture.moment(time))
        dispatcher.connected(
            as: "relay", serverTime: now.unixMilliseconds, now: now.instant)
    }

    mutating func accept(_ json: String) {
        number += 1
        dispatcher.accept(Fixture.message(json, number: number), now: now)
    }

    /// Begins what may begin.
    mutating func begin() {
        dispatcher.timePassed(now: now)
        while let attempt = dispatcher.nextAttempt(now: now) { attempts.append(attempt) }
    }

    mutating func finish(_ outcome: SendOutcome, at index: Int = 0) {
        dispatcher.finish(attempts.remove(at: index), with: outcome, now: now)
    }

    mutating func save() {
        if let entries = dispatcher.nextWrite(now: now.instant) {
            for entry in entries { record.apply(entry) }
            dispatcher.recordWritten()
        }
        if let position = dispatcher.takeAcknowledgement() { acknowledged = position }
    }

    /// The steps of the log, in order.
    var steps: [String] {
        dispatcher.log.all.map { $0.step.name + ($0.detail.isEmpty ? "" : " \($0.detail)") }
    }

    var ids: [UInt64] { attempts.map(\.wake.target.id) }
}

extension SendOutcome {
    static let down = SendOutcome.failed("down", retryAfterSeconds: 0, isDestination: true)
}
