// The client's half of MRT as a value: calls and the time go in, events and bytes come out. It
// performs no I/O, reads no clock, draws no random numbers and allocates nothing, so that the SDK,
// the simulation and a microcontroller run the same machine.
//
// After every call the program reads ``ClientMachine/nextEvent(now:)`` until it returns nil, then
// passes the bytes of ``ClientMachine/transmit(into:now:)`` to the transport until there are none,
// and calls ``ClientMachine/timePassed(now:)`` at ``ClientMachine/nextDeadline``.

import BrokerTerms
import Primitives
import WireFormat

public struct ClientMachine: ~Copyable {
    /// The phase of the connection, with its exits.
    enum Phase: Equatable {
        /// Not started, stopped by the program, or by a reason that forbids another attempt.
        /// `start` → wanting.
        case stopped
        /// Until the deadline before another attempt. Time → wanting; `stop` → stopped.
        case waiting
        /// A transport connection is being opened. `opened` → joining; `closed` or time → waiting.
        case opening
        /// CONNECT must be sent or was sent. CONNACK → joined; refusal, loss, time → waiting or
        /// stopped.
        case joining
        /// Loss → waiting; `leave` → leaving.
        case joined
        /// DISCONNECT must be sent or was sent. The broker's answer, loss or time → stopped.
        case leaving
    }

    var phase = Phase.stopped
    /// When the phase ends without an event; `never` in `stopped` and `joined`.
    var phaseDeadline = Instant.never

    let options: ClientOptions
    var identity: ClientIdentity
    var backoff: Backoff
    var rotation: ServerRotation

    // The next event for the program.
    var wantsConnection = false
    var disconnection: ClientDisconnection?

    // The inbox.
    /// (epoch, last acknowledged number): the record that the program should have stored.
    var inbox: MRT.Resume?
    /// The highest number passed to the program in this epoch; acknowledged or not.
    var highestDelivered: UInt64 = 0
    /// Whether an acknowledgement must be sent, and since when it waits.
    var acknowledgesInbox = false
    var acknowledgementDeadline = Instant.never
    /// The highest number that may be acknowledged on this connection: received on it, or its
    /// resume position.
    var highestReceived: UInt64 = 0
    /// The highest number that the broker was told on this connection: the resume position, or an
    /// acknowledgement.
    var acknowledgedThrough: UInt64 = 0
    /// Numbered deliveries since that number last increased: never more than the inbox window.
    var unacknowledgedCount: UInt32 = 0

    // The outbox.
    var log: OutboxLog
    var outbox: MRT.Outbox
    /// The broker knows that the results up to this number were received.
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
    /// AUTH packets of this connection without an answer.
    var unansweredAuthCount: UInt32 = 0
    /// A DISCONNECT to send.
    var farewell: MRT.ClientDisconnect?
    var connectedAt = Instant(milliseconds: 0)
    var lastSent = Instant(milliseconds: 0)
    var lastReceived = Instant(milliseconds: 0)
    /// When bytes must have arrived after a ping; `never` if none is open. The time also runs while
    /// the transport accepts no bytes, so that a blocked connection is detected.
    var pingDeadline = Instant.never

    // The receive memory: bytes before `parsed` were processed, those before `filled` have arrived.
    let receive: UnsafeMutableRawBufferPointer
    var parsed = 0
    var filled = 0
    /// The body of the packet of the last event.
    var eventBody = UnsafeRawBufferPointer(start: nil, count: 0)

    public init(
        identity: ClientIdentity, memory: ClientMemory, record: ClientRecord, options: ClientOptions
    ) {
        self.identity = identity
        self.options = options
        backoff = Backoff(seed: options.jitterSeed)
        rotation = ServerRotation(count: identity.serverCount)
        receive = memory.receive
        log = OutboxLog(
            memory.outbox, highestSent: max(record.outbox.highestUsed, record.highestSent))
        outbox = record.outbox
        inbox = record.inbox
        highestDelivered = record.inbox?.lastNumber ?? 0
        cookie = record.cookie
    }

    // MARK: Records to store

    /// The session epoch and the last acknowledged number, to be stored with the effects of
    /// messages.
    public var inboxRecord: MRT.Resume? { inbox }

    /// The present outbox record: confirmed results, used numbers.
    public var outboxRecord: MRT.Outbox {
        MRT.Outbox(
            epoch: outbox.epoch, resultsSeen: resultsSeen, highestUsed: outbox.highestUsed)
    }

    /// The cookie of the last CONNACK.
    public var resumeCookie: UInt64? { cookie }

    /// The result of every number up to this one is known.
    var resultsSeen: UInt64 {
        log.lowestUnresolved.map { $0 - 1 } ?? outbox.highestUsed
    }

    /// The address of the present connection or attempt, or of the next one: its index in
    /// ``ClientIdentity/servers``.
    public var server: Int { rotation.index }

    /// Whether the broker has accepted the login and the connection is open.
    public var isConnected: Bool { phase == .joined }

    // MARK: Lifecycle

    /// Connects, and stays connected from now on. This is an explicit login: it takes the session
    /// over from another connection, which later automatic logins do not.
    public mutating func start(now: Instant) {
        guard phase == .stopped || phase == .waiting else { return }
        isReconnect = false
        backoff.reset()
        wantConnection(now)
    }

    /// The transport connection is open, including TLS.
    public mutating func opened(now: Instant) {
        guard phase == .opening else { return }
        phase = .joining
        writesConnect = true
        phaseDeadline = now.advanced(byMilliseconds: ClientLimits.loginMillisecondsMaximum)
        lastReceived = now
        parsed = 0
        filled = 0
    }

    /// The transport connection ended, or could not be opened.
    public mutating func closed(now: Instant) {
        switch phase {
        case .stopped, .waiting: break
        case .opening, .joining, .joined, .leaving: lose(nil, now: now)
        }
    }

    /// Disconnects: no more events follow, the will is removed and the session stays for its
    /// expiry.
    ///
    /// - Parameter firesWill: disconnect with reason 4, which sends the will.
    /// - Parameter sessionExpirySeconds: replaces the session's expiry; 0 ends the session.
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

    /// Sets another credential: `identity` replaces the old one for every later login and, if the
    /// client is connected, is presented to the broker now.
    public mutating func replaceCredential(_ identity: ClientIdentity) {
        self.identity = identity
        writesAuth = phase == .joined && identity.connect.credential != .none
    }

    /// Reports a protocol error of the broker that only the program can detect. The connection ends
    /// as after an error that the machine detects, and is opened again after the usual wait.
    ///
    /// - Parameter delivery: the number of a delivery that the program did not process, and that
    ///   the broker delivers again on the next connection; 0 for none.
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

    /// The connection, or the attempt to connect, has ended.
    ///
    /// - Parameters:
    ///   - retryAfterSeconds: the wait that the broker advised; 0 for none.
    ///   - text: the text of a refused login, in the last packet.
    mutating func lose(
        _ reason: ReasonCode?, retryAfterSeconds: UInt32 = 0, text: ByteRange = .empty,
        now: Instant
    ) {
        let wasJoined = phase == .joined
        let server = rotation.index
        var isWithinRound = false
        let isOver = phase == .leaving || (reason.map(ClientMachine.forbidsRetry) ?? false)
        if wasJoined {
            let lasted = now.milliseconds(since: connectedAt)
            if lasted >= ClientLimits.goodConnectionMilliseconds { backoff.reset() }
        }
        if isOver {
            phase = .stopped
            phaseDeadline = .never
        } else {
            // A broker that advises a wait, and one whose session has ended, end the round: the
            // clients of a broker that has stopped must not come to the next one together.
            if wasJoined || retryAfterSeconds > 0 {
                rotation.endRound()
            } else {
                isWithinRound = rotation.failed(
                    redirectedTo: reason == .useAnotherServer
                        ? identity.server(named: bytes(text).bytes) : nil)
            }
            let wait =
                isWithinRound
                ? 0 : max(backoff.nextMilliseconds(), UInt64(retryAfterSeconds) * 1000)
            phase = .waiting
            phaseDeadline = now.advanced(byMilliseconds: wait)
        }
        disconnection = ClientDisconnection(
            reason: reason, retryAt: isOver ? nil : phaseDeadline, server: server,
            isWithinRound: isWithinRound, text: text)
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

    /// The same attempt would fail again, or two devices would take the session from each other
    /// forever (PROTOCOL.md section 10).
    static func forbidsRetry(_ reason: ReasonCode) -> Bool {
        switch reason {
        case .unsupportedProtocolVersion, .clientIdentifierNotValid, .badUserNameOrPassword,
            .notAuthorized, .banned, .badAuthenticationMethod, .sessionTakenOver, .serverMoved:
            true
        default: false
        }
    }
}
