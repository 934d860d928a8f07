// One line of a gateway: where it is, how far its connection is, and which channel speaks for the
// device at its other end.

import MartletClient
import NetTransport
import Primitives

/// What is known of one line.
struct Line {
    /// Between two attempts to open it: twice as long each time, until something is heard.
    static let redialMillisecondsMinimum: UInt64 = 500
    /// A device that is plugged in is found within these.
    static let redialMillisecondsMaximum: UInt64 = 8_000

    let settings: LineSettings
    let user: [UInt8]
    /// The loop's name for it; nil while it is not open and not being opened.
    var connection: ConnectionID?
    /// The connection stands.
    var isOpen = false
    /// Its name is being looked up.
    var soughtServer: ServerAddress?
    /// Whether the log has been told that it cannot be opened.
    var isReported = false
    /// When opening it is tried again.
    var redialAt = Instant(milliseconds: 0)
    var redialMilliseconds = Line.redialMillisecondsMinimum
    var link = SerialLink()
    var conversation = NodeConversation()
    /// The channel of the conversation; nil before the device's CONNECT.
    var channel: UInt32?
    /// The channel of an earlier connection that the broker still believes in: the device may come
    /// back and replace it, as it would a half-open connection of its own.
    var ghost: UInt32?
    /// Silence after which the device is lost; 0 for any.
    var silenceMillisecondsMaximum: UInt64 = 0
    var lastHeard = Instant(milliseconds: 0)

    init(_ settings: LineSettings) {
        self.settings = settings
        user = Array(settings.user.utf8)
    }

    /// It is gone, or could not be opened.
    mutating func closed(now: Instant) {
        connection = nil
        isOpen = false
        link.reset()
        redialAt = now.advanced(byMilliseconds: redialMilliseconds)
        redialMilliseconds = min(redialMilliseconds * 2, Self.redialMillisecondsMaximum)
    }

    /// When the device is lost if nothing is heard of it.
    var silenceDeadline: Instant {
        let isAttached = channel != nil && conversation.phase == .open
        guard isAttached || ghost != nil, silenceMillisecondsMaximum > 0 else { return .never }
        return lastHeard.advanced(byMilliseconds: silenceMillisecondsMaximum)
    }

    /// When there is something to do without anything being heard.
    var nextDeadline: Instant {
        guard connection == nil else { return silenceDeadline }
        return soughtServer == nil ? redialAt : .never
    }
}
