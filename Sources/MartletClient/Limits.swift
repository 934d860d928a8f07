// The limits of a client that are not settings, each with its reason.

import WireFormat

/// Limits of the SDK.
enum ClientBounds {
    /// Bytes that wait in one connection before its client's machine is asked for more: enough to
    /// fill a long link, and few enough that acknowledgements are not delayed much.
    static let unsentByteCountMaximum = 256 * 1024
    /// The size of one write of a machine. The longest CONNECT (token, information, ids) must fit.
    static let transmitByteCount = 128 * 1024
    /// Unnumbered messages that wait for the application; later ones are dropped and counted,
    /// because their promise is at most once.
    static let transientBufferMaximum = 1_024
    /// Connection events that wait for an application that does not read.
    static let connectionEventsMaximum = 64
    /// Bytes of a SEND beside its ids, topic and payload: fixed header 5, number 9, options 15,
    /// target 5, with room to spare.
    static let sendOverheadMaximum = 64
    /// Bookkeeping of the outbox for each packet, as in ``ClientMemory``.
    static let outboxEntryOverhead = 16
}
