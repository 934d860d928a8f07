// The client's half of MRT as a value: calls and the time come in, events and bytes come out. It
// does no I/O, reads no clock, draws no random number that was not handed in and allocates nothing,
// so that the SDK, the simulation and a microcontroller run the same machine.
//
// After every call the program drains ``ClientMachine/nextEvent(now:)``, then hands what
// ``ClientMachine/transmit(into:now:)`` gives to the transport until it gives nothing, and calls
// ``ClientMachine/timePassed(now:)`` at ``ClientMachine/nextDeadline``.

import BrokerTerms
import Primitives
import WireFormat

public struct ClientMachine: ~Copyable {
    /// Where the connection stands, with its exits.
    enum Phase: Equatable {
        /// Not started, left, or stopped by a reason that forbids another attempt. `start` →
        /// wanting.
        case stopped
        /// Until the deadline before another attempt. Time → wanting; `stop` → stopped.
        case waiting
        /// A transport is being opened. `opened` → joining; `closed` or time → waiting.
        case opening
        /// CONNECT is to be sent or was sent. CONNACK → joined; refusal, loss, time → waiting or
        /// stopped.
        case joining
        /// Loss → waiting; `leave` → leaving.
        case joined
        /// DISCONNECT is to be sent or was sent. The broker's answer, loss or time → stopped.
        case leaving
    }

    var phase = Phase.stopped
    /// When the phase ends by itself; `never` in `stopped` and `joined`.
    var phaseDeadline = Instant.never

    let options: ClientOptions
    var identity: ClientIdentity
    var backoff: Backoff

    // What is told to the program next.
    var wantsConnection = false
    var disconnection: ClientDisconnection?

    // The inbox.
    /// (epoch, last acknowledged number): what the program should have stored.
    var inbox: MRT.Resume?
    /// The highest number that was given to the program under this epoch; acknowledged or not.
    var highestDelivered: UInt64 = 0
    /// An acknowledgement is to be sent, and since when it waits.
    var acknowledgesInbox = false
    var acknowledgementDeadline = Instant.never
    /// The highest number that may be acknowledged on this connection: received on it, or resumed
    /// from.
    var highestReceived: UInt64 = 0
    /// The highest number that the broker was told on this connection: resumed from, or
    /// acknowledged.
    var acknowledgedThrough: UInt64 = 0
    /// Numbered deliveries that arrived since that number was last raised: never more than the
    /// inbox window.
    var unacknowledgedCount: UInt32 = 0

    // The outbox.
    var log: OutboxLog
    var outbox: MRT.Outbox
    /// The broker knows that results are seen up to this number.
    var announcedResultsSeen: UInt64 = 0
    var nextRequestIdentifier: UInt64 = 1
    var checksSizes = false

    // The connection.
    var cookie: UInt64?
    var accepted = MRT.ConnectAccepted()
    var isFirstConnect = true
    var isReconnect = false
    var writesConnect = false
    var writesPing = false
    var writesAuth = false
    /// AUTH packets of this connection that have no answer.
    var unansweredAuthCount: UInt32 = 0
    /// A DISCONNECT that is to be written.
    var farewell: MRT.ClientDisconnect?
    var connectedAt = Instant(milliseconds: 0)
    var lastSent = Instant(milliseconds: 0)
    var lastReceived = Instant(milliseconds: 0)
    /// Until when something must arrive, because a ping was due; `never` where none is open. It
    /// runs also while the transport takes nothing: a line that is stuck must not hide itself.
    var pingDeadline = Instant.never

    // The receive memory: bytes before `parsed` are done with, those before `filled` have arrived.
    let receive: UnsafeMutableRawBufferPointer
    var parsed = 0
    var filled = 0
    /// The body of the packet that the last event was made of.
    var eventBody = UnsafeRawBufferPointer(start: nil, count: 0)

    public init(
        identity: ClientIdentity, memory: ClientMemory, record: ClientRecord, options: ClientOptions
    ) {
        self.identity = identity
        self.options = options
        backoff = Backoff(seed: options.jitterSeed)
        receive = memory.receive
        log = OutboxLog(
            memory.outbox, highestSent: max(record.outbox.highestUsed, record.highestSent))
        outbox = record.outbox
        inbox = record.inbox
        highestDelivered = record.inbox?.lastNumber ?? 0
        cookie = record.cookie
    }

    // MARK: What to store

    /// The session epoch and the last acknowledged number, to be stored with the effects of
    /// messages.
    public var inboxRecord: MRT.Resume? { inbox }

    /// The client's own numbering as it stands: results seen, numbers used.
    public var outboxRecord: MRT.Outbox {
        MRT.Outbox(
            epoch: outbox.epoch, resultsSeen: resultsSeen, highestUsed: outbox.highestUsed)
    }

    /// The cookie of the last CONNACK.
    public var resumeCookie: UInt64? { cookie }

    /// What became of every number up to this one is known.
    var resultsSeen: UInt64 {
        log.lowestUnresolved.map { $0 - 1 } ?? outbox.highestUsed
    }

    /// Whether the broker has accepted the login and the connection stands.
    public var isConnected: Bool { phase == .joined }

    // MARK: Life

    /// Begin to connect, and stay connected from now on. This is an explicit login: it takes the
    /// session over from another connection, where later automatic ones do not.
    public mutating func start(now: Instant) {
        guard phase == .stopped || phase == .waiting else { return }
        isReconnect = false
        backoff.reset()
        wantConnection(now)
    }

    /// The transport is open, TLS included.
    public mutating func opened(now: Instant) {
        guard phase == .opening else { return }
        phase = .joining
        writesConnect = true
        phaseDeadline = now.advanced(byMilliseconds: ClientLimits.loginMillisecondsMaximum)
        lastReceived = now
        parsed = 0
        filled = 0
    }

    /// The transport ended, or could not be opened.
    public mutating func closed(now: Instant) {
        switch phase {
        case .stopped, .waiting: break
        case .opening, .joining, .joined, .leaving: lose(nil, now: now)
        }
    }

    /// Leave: nothing arrives afterwards, the will is removed and the session stays for its expiry.
    ///
    /// - Parameter firesWill: leave as if lost (reason 4).
    /// - Parameter sessionExpirySeconds: replaces the session's expiry; 0 ends it.
    public mutating func leave(
        firesWill: Bool = false, sessionExpirySeconds: UInt32? = nil, now: Instant
    ) {
        switch phase {
        case .joined:
            phase = .leaving
            farewell = MRT.ClientDisconnect(
                reason: firesWill ? .disconnectWithWill : .normalDisconnection,
                sessionExpirySeconds: sessionExpirySeconds)
            phaseDeadline = now.advanced(
                byMilliseconds: ClientLimits.disconnectMillisecondsMaximum)
        case .opening, .joining:
            phase = .leaving
            lose(nil, now: now)
        case .waiting, .stopped:
            phase = .stopped
            phaseDeadline = .never
            wantsConnection = false
        case .leaving: break
        }
    }

    /// Take another credential: `identity` replaces the old one for every later login, and, where
    /// the connection stands, proves itself to the broker now.
    public mutating func replaceCredential(_ identity: ClientIdentity) {
        self.identity = identity
        writesAuth = phase == .joined && identity.connect.credential != .none
    }

    /// Reports a protocol error of the broker that only the program can detect. The connection ends
    /// as after an error that the machine detects, and is tried again after the usual wait.
    ///
    /// - Parameter delivery: the number of a delivery that the program did not take, and that the
    ///   broker sends again on the next connection; 0 for none.
    public mutating func refuse(_ reason: ReasonCode, delivery: UInt64 = 0, now: Instant) {
        if delivery > 0 { highestDelivered = min(highestDelivered, delivery - 1) }
        switch phase {
        case .stopped, .waiting: break
        case .opening, .joining, .joined, .leaving: lose(reason, now: now)
        }
    }

    // MARK: Transitions

    private mutating func wantConnection(_ now: Instant) {
        phase = .opening
        phaseDeadline = now.advanced(byMilliseconds: ClientLimits.loginMillisecondsMaximum)
        wantsConnection = true
    }

    /// The connection, or the attempt at one, is over.
    ///
    /// - Parameter retryAfterSeconds: what the broker advised; 0 for nothing.
    mutating func lose(
        _ reason: ReasonCode?, retryAfterSeconds: UInt32 = 0, now: Instant
    ) {
        let wasJoined = phase == .joined
        let isOver = phase == .leaving || (reason.map(ClientMachine.forbidsRetry) ?? false)
        if wasJoined {
            let lasted = now.milliseconds(since: connectedAt)
            if lasted >= ClientLimits.goodConnectionMilliseconds { backoff.reset() }
        }
        if isOver {
            phase = .stopped
            phaseDeadline = .never
        } else {
            let wait = max(backoff.nextMilliseconds(), UInt64(retryAfterSeconds) * 1000)
            phase = .waiting
            phaseDeadline = now.advanced(byMilliseconds: wait)
        }
        disconnection = ClientDisconnection(
            reason: reason, retryAt: isOver ? nil : phaseDeadline)
        wantsConnection = false
        forgetConnection()
    }

    private mutating func forgetConnection() {
        writesConnect = false
        writesPing = false
        writesAuth = false
        unansweredAuthCount = 0
        farewell = nil
        pingDeadline = .never
        acknowledgesInbox = false
        acknowledgementDeadline = .never
        unacknowledgedCount = 0
        parsed = 0
        filled = 0
        log.rewind()
    }

    /// The same attempt would fail again, or two devices would throw each other out for ever
    /// (PROTOCOL.md section 10).
    static func forbidsRetry(_ reason: ReasonCode) -> Bool {
        switch reason {
        case .unsupportedProtocolVersion, .clientIdentifierNotValid, .badUserNameOrPassword,
            .notAuthorized, .banned, .badAuthenticationMethod, .sessionTakenOver, .serverMoved:
            true
        default: false
        }
    }
}
