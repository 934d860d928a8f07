// The half of a session that exists while a connection belongs to it: the window of messages under
// way, and what was agreed for this connection. It ends with the connection, and everything in it
// is in the store or counted in the inbox by then.
//
// Invariants: numbers of the window rise; what is sent is at its front, and no more than the window
// that was agreed; the size of the window is the sum of its entries; window and backlog together
// are the inbox; reading is stopped at most once.

import BrokerTerms
import Primitives

/// One numbered message on its way to a connected session.
struct WindowEntry: BitwiseCopyable {
    var number: UInt64
    /// Index of the message in memory.
    var message: Index<Message>
    /// Place in the entries of the batch that stores it, while that batch is `Message.batch`.
    var batchEntry: UInt32
    var byteCount: UInt32
    /// The store refused it: it lives here only.
    var isUnstored = false
    /// Its PUBREL has left on this connection (QoS 2 of MQTT).
    var isReleased = false
    var state: EntryState
}

/// A session's connection and what is under way on it: 152 bytes, in an order that leaves
/// few gaps.
///
///     queue:   1 … 40 │ 41   42   43   44 │ 45   46   47 │ 48 … 90
///     acknowledged ───┘      sent ────────┘    loaded ───┘  └── backlog: on disk only
///                     └──────── window ──────────────────┘
struct ConnectedSession: ~Copyable {
    let connection: ConnectionID
    let session: Index<Session>
    private var narrowSentCount: UInt16 = 0
    private let narrowWindowMaximum: UInt16
    /// Publications of QoS 1 and 2 that the client may have unanswered, as it was told, and that it
    /// has (MQTT): all of them have identifiers.
    let publishWindow: UInt16
    private var unansweredCount: UInt16 = 0
    /// Entries of the queue behind the window.
    private(set) var backlogCount: UInt32
    private(set) var window = Ring<WindowEntry>()
    /// Bytes of the messages in the window.
    @NarrowCount private(set) var windowByteCount = 0
    /// The highest number delivered on this connection.
    private(set) var sentThrough: UInt64
    /// Numbers up to here are in the window, or were; the backlog lies above.
    private(set) var loadedThrough: UInt64
    /// Where the last batch with an acknowledgement of this queue has it.
    var acknowledgement = BatchPlace()
    /// Sessions that were let in on channels of this connection because of its right to attach.
    @NarrowCount private(set) var sensorCount = 0
    /// The batch whose commit the next delivery waits for, once that has been noted there.
    private var awaitedBatch: UInt64 = 0

    /// What the client was given to replace this connection with, and what it came with.
    let cookie: UInt64
    private let presentedCookie: UInt64
    /// What it was let in with.
    @Packed private(set) var access: Index<Access>? = nil
    /// The retained messages that are being sent to it; nil where there are none.
    @Packed private(set) var replay: Index<RetainedReplay>? = nil
    /// The user whom it sent to last; users stay.
    @Packed private(set) var lastReceiver: Index<User>? = nil
    private(set) var connectedUnixMilliseconds: UInt64 = 0
    /// How often the session has been taken over lately; passed on to the connection that does it.
    private(set) var takeovers: TakeoverCount
    private let narrowKeepAliveSeconds: UInt16
    private let hasPresentedCookie: Bool
    /// Whether the client has been told that it is accepted; nothing is delivered before.
    private(set) var isConfirmed = false
    private(set) var isLoading = false
    /// Whether its event loop was told not to read from it, because it has too many answers to
    /// come.
    private var isHeld = false
    /// Whether the session was there before this connection.
    let wasPresent: Bool
    /// Whether the client is to be told what it is called.
    let hasAssignedDevice: Bool

    /// - Parameters:
    ///   - start: the last number the receiver holds.
    ///   - backlogCount: entries in its queue.
    init(
        connection: ConnectionID, session: Index<Session>, wasPresent: Bool, windowMaximum: UInt16,
        start: UInt64, backlogCount: UInt32, cookie: UInt64, presentedCookie: UInt64?,
        keepAliveSeconds: UInt32, publishWindow: UInt16, hasAssignedDevice: Bool,
        takeovers: TakeoverCount
    ) {
        self.connection = connection
        self.session = session
        self.wasPresent = wasPresent
        narrowWindowMaximum = windowMaximum
        self.backlogCount = backlogCount
        sentThrough = start
        loadedThrough = start
        self.cookie = cookie
        self.presentedCookie = presentedCookie ?? 0
        hasPresentedCookie = presentedCookie != nil
        // No more fits into a CONNECT or CONNACK.
        narrowKeepAliveSeconds = UInt16(keepAliveSeconds)
        self.publishWindow = publishWindow
        self.hasAssignedDevice = hasAssignedDevice
        self.takeovers = takeovers
    }

    /// Whether a login comes from the client that this connection belongs to. Its CONNACK may have
    /// been lost with the connection: then the client still has the cookie that it came with.
    func belongs(toHolderOf cookie: UInt64?) -> Bool {
        cookie != nil
            && (cookie == self.cookie || (hasPresentedCookie && cookie == presentedCookie))
    }

    var keepAliveSeconds: UInt32 { UInt32(narrowKeepAliveSeconds) }

    /// Entries from the front of the window that have been delivered.
    private(set) var sentCount: UInt32 {
        get { UInt32(narrowSentCount) }
        set { narrowSentCount = UInt16(newValue) }
    }

    /// Unacknowledged deliveries that the client takes at a time.
    var windowMaximum: UInt32 { UInt32(narrowWindowMaximum) }

    /// Messages held in memory: twice what may be under way, so that there is something to send
    /// while the next ones are loaded.
    var windowCapacity: Int { Int(windowMaximum) * 2 }

    /// Whether the next message may go straight into the window: nothing older waits on disk, and
    /// there is room.
    func takesNext(byteCount: Int, windowBytesMaximum: Int) -> Bool {
        backlogCount == 0 && !isLoading && window.count < windowCapacity
            && (windowByteCount + byteCount <= windowBytesMaximum || window.isEmpty)
    }

    /// Puts the next entry of the queue into the window.
    mutating func append(_ entry: WindowEntry) {
        window.append(entry)
        windowByteCount += Int(entry.byteCount)
        loadedThrough = entry.number
    }

    /// Takes an entry out of the window.
    mutating func remove(at position: Int) -> WindowEntry {
        let entry = position == 0 ? window.removeFirst() : window.remove(at: position)
        windowByteCount -= Int(entry.byteCount)
        if position < sentCount { sentCount -= 1 }
        return entry
    }

    /// The PUBREL of an entry leaves on this connection.
    mutating func release(at position: Int) {
        window[position].isReleased = true
    }

    /// The receiver has an entry of QoS 2.
    mutating func receive(at position: Int) {
        window[position].state.options.insert(.received)
    }

    /// The store refused an entry, which lives in the window only.
    mutating func noteUnstored(at position: Int) {
        window[position].isUnstored = true
    }

    // MARK: - The backlog

    /// Entries have come into the queue behind the window.
    @inline(__always)
    mutating func addToBacklog(_ count: UInt32) {
        backlogCount += count
    }

    /// Entries of the backlog have left the queue, or come into the window.
    mutating func takeFromBacklog(_ count: UInt64) {
        precondition(count <= backlogCount, "\(count) entries of a backlog of \(backlogCount)")
        backlogCount -= UInt32(count)
    }

    /// The store has been asked for more of the queue, and is asked once at a time.
    mutating func beginLoad() {
        isLoading = true
    }

    mutating func endLoad() {
        isLoading = false
    }

    /// Whether the commit of a batch is to be awaited, and has not been noted.
    mutating func awaits(_ batch: UInt64) -> Bool {
        if awaitedBatch == batch { return false }
        awaitedBatch = batch
        return true
    }

    // MARK: - Deliveries

    /// The oldest entry that has not been delivered; nil without one, and while the client has as
    /// many deliveries unacknowledged as it takes.
    @inline(__always)
    var nextToSend: WindowEntry? {
        let position = Int(narrowSentCount)
        guard narrowSentCount < narrowWindowMaximum, position < window.count else { return nil }
        return window[position]
    }

    /// The entry that was next is on its way.
    @inline(__always)
    mutating func noteSent(_ number: UInt64) {
        narrowSentCount += 1
        sentThrough = max(sentThrough, number)
    }

    /// The number of the oldest delivery under way.
    var oldestSent: UInt64? { sentCount > 0 ? window[0].number : nil }

    // MARK: - The client

    /// The client is told that it is accepted.
    mutating func confirm(at moment: Moment) {
        isConfirmed = true
        connectedUnixMilliseconds = moment.unixMilliseconds
    }

    /// One more publication has to be answered. Returns whether reading stops now, because there
    /// are too many.
    mutating func countUnanswered() -> Bool {
        unansweredCount += 1
        guard unansweredCount > publishWindow, !isHeld else { return false }
        isHeld = true
        return true
    }

    /// A publication is answered. Returns whether reading goes on now, because half are.
    mutating func countAnswered() -> Bool {
        unansweredCount -= 1
        guard isHeld, unansweredCount <= publishWindow / 2 else { return false }
        isHeld = false
        return true
    }

    /// A sensor was let in on a channel of this connection, or has left.
    mutating func countSensors(_ step: Int) {
        sensorCount += step
    }

    /// The session gets its access.
    mutating func grant(_ new: Index<Access>) {
        precondition(access == nil, "a second access for session \(session.place)")
        access = new
    }

    /// Retained messages are sent to the client from here on.
    mutating func begin(_ new: Index<RetainedReplay>) { replay = new }

    /// All retained messages are sent, or the rest waits for another connection.
    mutating func endReplay() { replay = nil }

    /// The session's access ends, with its connection.
    mutating func withdrawAccess() {
        access = nil
    }

    /// The user that the client has sent to last.
    mutating func noteReceiver(_ user: Index<User>?) {
        lastReceiver = user
    }

    /// The turn of a login that waits to take the session over; nil where too many wait.
    mutating func takeTurn(at now: Instant) -> Instant? { takeovers.takeTurn(at: now) }

    /// Where a number stands in the window. Numbers rise from front to back.
    func position(of number: UInt64) -> Int? {
        var low = 0
        var high = window.count
        while low < high {
            let middle = (low + high) / 2
            if window[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low < window.count && window[low].number == number ? low : nil
    }
}

/// Counts takeovers of a session within a minute: two devices that bear one name take turns for as
/// long as they live, and are held back.
struct TakeoverCount {
    private static let windowMilliseconds: UInt64 = 60_000

    /// The last ones, oldest first; empty, and without memory of its own, for nearly every session.
    private var times: [Instant] = []
    /// When the last of those logins that wait has its turn.
    private var lastTurn = Instant(milliseconds: 0)

    /// The seconds until one more is not too many; nil where it is not.
    func secondsToWait(at now: Instant, maximum: Int) -> UInt32? {
        let recent = times.filter { now.milliseconds(since: $0) < Self.windowMilliseconds }
        guard recent.count >= maximum else { return nil }
        let oldest = recent.first ?? now
        let rest = Self.windowMilliseconds - now.milliseconds(since: oldest)
        return UInt32((rest + 999) / 1000)
    }

    /// Counts one more, and keeps as many as are needed to tell that they are too many.
    mutating func add(at now: Instant, keeping maximum: Int) {
        times.append(now)
        times.removeFirst(max(0, times.count - max(maximum, 1)))
        times.removeAll { now.milliseconds(since: $0) >= Self.windowMilliseconds }
    }

    /// The turn of one more that waits, behind those that wait already; nil where there are too
    /// many of them.
    mutating func takeTurn(at now: Instant) -> Instant? {
        let hold = CoreLimits.takeoverHoldMilliseconds
        let turn = max(now, lastTurn).advanced(byMilliseconds: hold)
        guard turn.milliseconds(since: now) <= CoreLimits.takeoverWaitMillisecondsMaximum else {
            return nil
        }
        lastTurn = turn
        return turn
    }
}
