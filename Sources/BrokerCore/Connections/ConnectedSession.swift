// The state of a session while it has a connection: the window of messages under way, and what was
// negotiated for this connection. It ends with the connection; by then every entry is in the store
// or counted in the inbox.
//
// Invariants: the numbers of the window rise; the entries that were sent are at its front, and are
// at most the negotiated window; the size of the window is the sum of its entries; window and
// backlog together are the inbox; reading is stopped at most once.

import BrokerTerms
import Primitives

/// A numbered message on its way to a connected session.
struct WindowEntry: BitwiseCopyable {
    var number: UInt64
    /// Index of the message in memory.
    var message: Index<Message>
    /// Position among the entries of the batch that stores it, while that batch is `Message.batch`.
    var batchEntry: UInt32
    var byteCount: UInt32
    /// The store refused it, so it is in the window only.
    var isUnstored = false
    /// Its PUBREL was sent on this connection (QoS 2 of MQTT).
    var isReleased = false
    var state: EntryState
}

/// A session's connection and the messages under way on it: 152 bytes, in an order with little
/// padding.
///
///     queue:   1 … 40 │ 41   42   43   44 │ 45   46   47 │ 48 … 90
///     acknowledged ───┘      sent ────────┘    loaded ───┘  └── backlog: on disk only
///                     └──────── window ──────────────────┘
struct ConnectedSession: ~Copyable {
    let connection: ConnectionID
    let session: Index<Session>
    private var narrowSentCount: UInt16 = 0
    private let narrowWindowMaximum: UInt16
    /// MQTT: the number of QoS 1 and 2 publications that the client may have without an answer, as
    /// it was told, and the number that it has. All of them have identifiers.
    let publishWindow: UInt16
    private var unansweredCount: UInt16 = 0
    /// Number of entries of the queue after the window.
    private(set) var backlogCount: UInt32
    private(set) var window = Ring<WindowEntry>()
    /// Bytes of the messages in the window.
    @NarrowCount private(set) var windowByteCount = 0
    /// The highest number delivered on this connection.
    private(set) var sentThrough: UInt64
    /// The highest number that is or was in the window; the backlog has higher ones.
    private(set) var loadedThrough: UInt64
    /// The position of the last acknowledgement of this queue in its batch.
    var acknowledgement = BatchPosition()
    /// Number of sensors that are attached on channels of this connection.
    @NarrowCount private(set) var sensorCount = 0
    /// The batch for whose commit the next delivery waits, if that batch knows it.
    private var awaitedBatch: UInt64 = 0

    /// The cookie with which the client may replace this connection, and the one that it presented.
    let cookie: UInt64
    private let presentedCookie: UInt64
    /// The access that the login was granted.
    @Packed private(set) var access: Index<Access>? = nil
    /// The replay of retained messages to this connection; nil if there is none.
    @Packed private(set) var replay: Index<RetainedReplay>? = nil
    /// The last receiver of a message of this client. Users are never removed.
    @Packed private(set) var lastReceiver: Index<User>? = nil
    private(set) var connectedUnixMilliseconds: UInt64 = 0
    /// Recent takeovers of the session. The connection that takes it over gets them.
    private(set) var takeovers: TakeoverCount
    private let narrowKeepAliveSeconds: UInt16
    private let hasPresentedCookie: Bool
    /// Whether the client was told that it is accepted; nothing is delivered before.
    private(set) var isConfirmed = false
    private(set) var isLoading = false
    /// Whether its event loop has stopped reading, because too many publications have no answer.
    private var isReadingPaused = false
    /// Whether the session existed before this connection.
    let wasPresent: Bool
    /// Whether the client must be told its name.
    let hasAssignedDevice: Bool

    /// - Parameters:
    ///   - start: the last number that has left the queue.
    ///   - receivedThrough: the last number that the receiver says it has, if that is higher.
    ///   - backlogCount: the number of entries in its queue.
    init(
        connection: ConnectionID, session: Index<Session>, wasPresent: Bool, windowMaximum: UInt16,
        start: UInt64, receivedThrough: UInt64 = 0, backlogCount: UInt32, cookie: UInt64,
        presentedCookie: UInt64?,
        keepAliveSeconds: UInt32, publishWindow: UInt16, hasAssignedDevice: Bool,
        takeovers: TakeoverCount
    ) {
        self.connection = connection
        self.session = session
        self.wasPresent = wasPresent
        narrowWindowMaximum = windowMaximum
        self.backlogCount = backlogCount
        sentThrough = max(start, receivedThrough)
        loadedThrough = start
        self.cookie = cookie
        self.presentedCookie = presentedCookie ?? 0
        hasPresentedCookie = presentedCookie != nil
        // CONNECT and CONNACK have 16 bits for it.
        narrowKeepAliveSeconds = UInt16(keepAliveSeconds)
        self.publishWindow = publishWindow
        self.hasAssignedDevice = hasAssignedDevice
        self.takeovers = takeovers
    }

    /// Whether a login comes from the client of this connection. The client may not have received
    /// the cookie if its CONNACK was lost; then it presents the cookie of this login again.
    func belongs(toOwnerOf cookie: UInt64?) -> Bool {
        cookie != nil
            && (cookie == self.cookie || (hasPresentedCookie && cookie == presentedCookie))
    }

    var keepAliveSeconds: UInt32 { UInt32(narrowKeepAliveSeconds) }

    /// Number of entries, from the front of the window, that have been delivered.
    private(set) var sentCount: UInt32 {
        get { UInt32(narrowSentCount) }
        set { narrowSentCount = UInt16(newValue) }
    }

    /// Maximum number of deliveries that the client has not acknowledged.
    var windowMaximum: UInt32 { UInt32(narrowWindowMaximum) }

    /// Maximum number of messages in memory: twice the window, so that there are messages to send
    /// while the next ones are loaded.
    var windowCapacity: Int { Int(windowMaximum) * 2 }

    /// Whether the next message may be added to the window: no older one is on disk only, and there
    /// is room.
    func takesNext(byteCount: Int, windowBytesMaximum: Int) -> Bool {
        backlogCount == 0 && !isLoading && window.count < windowCapacity
            && (windowByteCount + byteCount <= windowBytesMaximum || window.isEmpty)
    }

    /// Adds the next entry of the queue to the window.
    mutating func append(_ entry: WindowEntry) {
        window.append(entry)
        windowByteCount += Int(entry.byteCount)
        loadedThrough = entry.number
    }

    /// Removes an entry from the window.
    mutating func remove(at position: Int) -> WindowEntry {
        let entry = position == 0 ? window.removeFirst() : window.remove(at: position)
        windowByteCount -= Int(entry.byteCount)
        if position < sentCount { sentCount -= 1 }
        return entry
    }

    /// Notes that the PUBREL of an entry is sent on this connection.
    mutating func release(at position: Int) {
        window[position].isReleased = true
    }

    /// Notes that the receiver has confirmed an entry of QoS 2.
    mutating func receive(at position: Int) {
        window[position].state.options.insert(.received)
    }

    /// Notes that the store refused an entry, which is in the window only.
    mutating func noteUnstored(at position: Int) {
        window[position].isUnstored = true
    }

    // MARK: - The backlog

    /// Notes that an entry was read that the receiver has: it does not enter the window.
    mutating func noteRead(_ number: UInt64) { loadedThrough = number }

    /// Notes that all entries up to a number were read, or are gone.
    mutating func noteRead(through number: UInt64) { loadedThrough = max(loadedThrough, number) }

    /// Adds entries that were queued after the window.
    @inline(__always)
    mutating func addToBacklog(_ count: UInt32) {
        backlogCount += count
    }

    /// Subtracts entries of the backlog that left the queue or entered the window.
    mutating func takeFromBacklog(_ count: UInt64) {
        precondition(count <= backlogCount, "\(count) entries of a backlog of \(backlogCount)")
        backlogCount -= UInt32(count)
    }

    /// Notes that the store has been asked for more of the queue. There is one request at a time.
    mutating func beginLoad() {
        isLoading = true
    }

    mutating func endLoad() {
        isLoading = false
    }

    /// Notes that the next delivery waits for a batch. Returns false if the batch knows it already.
    mutating func awaits(_ batch: UInt64) -> Bool {
        if awaitedBatch == batch { return false }
        awaitedBatch = batch
        return true
    }

    // MARK: - Deliveries

    /// The oldest entry that has not been delivered; nil if there is none, or if the client has a
    /// full window of unacknowledged deliveries.
    @inline(__always)
    var nextToSend: WindowEntry? {
        let position = Int(narrowSentCount)
        guard narrowSentCount < narrowWindowMaximum, position < window.count else { return nil }
        return window[position]
    }

    /// Counts the delivery of the next entry.
    @inline(__always)
    mutating func noteSent(_ number: UInt64) {
        narrowSentCount += 1
        sentThrough = max(sentThrough, number)
    }

    /// The number of the oldest unacknowledged delivery; nil if there is none.
    var oldestSent: UInt64? { sentCount > 0 ? window[0].number : nil }

    // MARK: - The client

    /// Notes that the client is told that it is accepted.
    mutating func confirm(at moment: Moment) {
        isConfirmed = true
        connectedUnixMilliseconds = moment.unixMilliseconds
    }

    /// Counts one more publication without an answer. Returns true if reading must stop now,
    /// because there are too many.
    mutating func countUnanswered() -> Bool {
        unansweredCount += 1
        guard unansweredCount > publishWindow, !isReadingPaused else { return false }
        isReadingPaused = true
        return true
    }

    /// Counts an answered publication. Returns true if reading may continue now, because half of
    /// them are answered.
    mutating func countAnswered() -> Bool {
        unansweredCount -= 1
        guard isReadingPaused, unansweredCount <= publishWindow / 2 else { return false }
        isReadingPaused = false
        return true
    }

    /// Changes the number of attached sensors by `step`.
    mutating func countSensors(_ step: Int) {
        sensorCount += step
    }

    /// Sets the access of the session.
    mutating func grant(_ new: Index<Access>) {
        precondition(access == nil, "a second access for session \(session.place)")
        access = new
    }

    /// Begins a replay of retained messages.
    mutating func begin(_ new: Index<RetainedReplay>) { replay = new }

    /// Ends the replay: all messages were sent, or the rest waits for another connection.
    mutating func endReplay() { replay = nil }

    /// Removes the access, when the connection ends.
    mutating func withdrawAccess() {
        access = nil
    }

    /// Remembers the last receiver of a message of this client.
    mutating func noteReceiver(_ user: Index<User>?) {
        lastReceiver = user
    }

    /// The time of the turn of a login that waits to take the session over; nil if too many wait.
    mutating func reserveTakeoverTime(at now: Instant) -> Instant? {
        takeovers.reserveTakeoverTime(at: now)
    }

    /// The position of a number in the window; nil if it is not there.
    func position(of number: UInt64) -> Int? {
        let position = position(notBefore: number)
        return position < window.count && window[position].number == number ? position : nil
    }

    /// The position in the window of the first number that is at least this one; the end of the
    /// window if there is none.
    func position(notBefore number: UInt64) -> Int {
        var low = 0
        var high = window.count
        while low < high {
            let middle = (low + high) / 2
            if window[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

/// Counts the takeovers of a session within a minute. Two devices with one name would replace each
/// other for as long as they run, so they are delayed.
struct TakeoverCount {
    private static let windowMilliseconds: UInt64 = 60_000

    /// The last takeovers, oldest first; empty, and without memory, for nearly every session.
    private var times: [Instant] = []
    /// Time of the turn of the last login that waits.
    private var lastTakeoverTime = Instant(milliseconds: 0)

    /// The seconds until one more takeover is within the maximum; nil if it already is.
    func secondsToWait(at now: Instant, maximum: Int) -> UInt32? {
        let recent = times.filter { now.milliseconds(since: $0) < Self.windowMilliseconds }
        guard recent.count >= maximum else { return nil }
        let oldest = recent.first ?? now
        let rest = Self.windowMilliseconds - now.milliseconds(since: oldest)
        return UInt32((rest + 999) / 1000)
    }

    /// Counts one more takeover, and keeps as many times as the maximum needs.
    mutating func add(at now: Instant, keeping maximum: Int) {
        times.append(now)
        times.removeFirst(max(0, times.count - max(maximum, 1)))
        times.removeAll { now.milliseconds(since: $0) >= Self.windowMilliseconds }
    }

    /// The time of the turn of one more login, after those that wait already; nil if too many do.
    mutating func reserveTakeoverTime(at now: Instant) -> Instant? {
        let delay = CoreLimits.takeoverDelayMilliseconds
        let time = max(now, lastTakeoverTime).advanced(byMilliseconds: delay)
        guard time.milliseconds(since: now) <= CoreLimits.takeoverWaitMillisecondsMaximum else {
            return nil
        }
        lastTakeoverTime = time
        return time
    }
}
