// The limits of a client that are not settings, each with its reason.

import WireFormat

/// Limits of the SDK.
enum ClientBounds {
    /// Bytes that wait in one connection before its client's machine is asked for more: enough to
    /// fill a long link, little enough that acknowledgements do not stand behind much.
    static let unsentByteCountMaximum = 256 * 1024
    /// What a machine writes in one go. The longest CONNECT (token, information, ids) must fit.
    static let transmitByteCount = 128 * 1024
    /// Messages without a number that wait for the application; later ones are dropped and counted,
    /// since at most once is all that they promise.
    static let transientBufferMaximum = 1_024
    /// Changes of the connection that wait for an application which does not look.
    static let connectionEventsMaximum = 64
    /// Bytes of a SEND beside its ids, topic and payload: fixed header 5, number 9, options 15,
    /// target 5, with room to spare.
    static let sendOverheadMaximum = 64
    /// Bookkeeping of the outbox for each packet, as ``ClientMemory`` says.
    static let outboxEntryOverhead = 16
}
