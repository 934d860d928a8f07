// What the tests of the relay's values have in common: hooks, messages, and a time that they move.

import Primitives

@testable import MartletClient
@testable import Relay
@testable import Webhooks

enum Fixture {
    static let secret = WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")!

    static func hook(_ name: String = "a", _ change: (inout HookSettings) -> Void = { _ in })
        -> HookSettings
    {
        var hook = HookSettings(name: name, url: "http://x/\(name)", secrets: [secret])
        hook.kinds = [.messageUser, .messageGroup]
        change(&hook)
        return hook
    }

    static func settings(_ hooks: [HookSettings]) -> WebhookSettings {
        let relay = RelaySettings(
            servers: [ServerAddress(host: "b", port: 1)], token: "t", device: "d", stateFile: "s")
        var settings = WebhookSettings(relay, hooks: hooks)
        settings.relay.retryMilliseconds = 100
        settings.relay.retrySecondsMaximum = 10
        return settings
    }

    static func message(
        _ text: String, from: String = "alice", number: UInt64, epoch: UInt64 = 1
    ) -> IncomingMessage {
        IncomingMessage(
            kind: .unicast, from: from, time: 1_000, content: .text(text),
            record: number == 0 ? nil : InboxRecord(epoch: epoch, number: number))
    }

    /// What a broker grants.
    static func terms(
        isSessionPresent: Bool = true, isNewInbox: Bool = false, inboxWindow: UInt16 = 1_000,
        payloadMaximum: UInt32 = 65_536
    ) -> ConnectionTerms {
        ConnectionTerms(
            user: "relay", isSessionPresent: isSessionPresent, isNewInbox: isNewInbox,
            sessionEpoch: 1, serverTime: Fixture.moment(1_000).unixMilliseconds,
            keepAliveSeconds: 60, sessionExpirySeconds: 60,
            inboxWindow: inboxWindow, sendWindow: 64, messageMaximum: 65_536,
            payloadMaximum: payloadMaximum, unreadCount: nil,
            server: ServerAddress(host: "b", port: 1))
    }

    static func moment(_ milliseconds: UInt64) -> Moment {
        Moment(
            instant: Instant(milliseconds: milliseconds),
            unixMilliseconds: 1_800_000_000_000 + milliseconds)
    }
}

/// A dispatcher with its record, without sockets and files.
struct ModelRelay {
    var dispatcher: EventDispatcher
    /// What is on disk.
    var content: RecordContent
    /// Entries that a loss of power may take.
    var unsynced: [RecordEntry] = []
    var acknowledged: InboxRecord?
    var time: UInt64 = 1_000
    /// Requests under way.
    var attempts: [EventDispatcher.Attempt] = []

    /// What the relay's own clock is ahead, in milliseconds.
    var clockError: Int64 = 0

    var now: Moment {
        let moment = Fixture.moment(time)
        return Moment(
            instant: moment.instant,
            unixMilliseconds: UInt64(Int64(moment.unixMilliseconds) + clockError))
    }

    init(_ settings: WebhookSettings, content: RecordContent = RecordContent(), seed: UInt64 = 1) {
        self.content = content
        dispatcher = EventDispatcher(
            settings, stored: content, seed: seed, now: Fixture.moment(1_000))
        dispatcher.connected(Fixture.terms(), now: Fixture.moment(1_000).instant)
        _ = dispatcher.takeLines()
    }

    mutating func accept(_ message: IncomingMessage) { dispatcher.accept(message, now: now) }

    /// Begins what may begin.
    mutating func begin() {
        dispatcher.timePassed(now: now)
        while let attempt = dispatcher.nextAttempt(now: now) { attempts.append(attempt) }
    }

    mutating func finish(_ status: Int, at index: Int = 0, retryAfter: UInt64 = 0) {
        dispatcher.finish(
            attempts.remove(at: index),
            with: .answered(status: status, retryAfterSeconds: retryAfter), now: now)
    }

    mutating func save() {
        if let write = dispatcher.nextWrite(now: now.instant) {
            unsynced += write.entries
            if write.isSynced {
                for entry in unsynced { content.apply(entry) }
                unsynced = []
            }
            dispatcher.written(write)
        }
        if let position = dispatcher.takeAcknowledgement() { acknowledged = position }
    }

    /// The texts of the events of the requests under way.
    var texts: [String] { attempts.map(\.text) }
}

extension EventDispatcher.Attempt {
    var text: String {
        let body = String(decoding: body, as: UTF8.self)
        return body.matches(of: /"b":"([^"]*)"/).map { String($0.output.1) }.joined(separator: "+")
    }
}
