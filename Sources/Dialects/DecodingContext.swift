// The context that the decoder's functions pass on: the packet that is read, and the decoder's
// surroundings, as one value.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

/// What decoding needs from outside: the connections to answer on, the verifier of credentials, and
/// the log.
protocol DecodingContext: ConnectionHost, Authenticator, LogSink, ~Copyable {}

/// One packet of a burst.
struct ReceivedPacket {
    let connection: ConnectionID
    let frame: PacketFrame
    /// The memory of the frame's ranges: the turn's incoming bytes, up to the end of the burst. A
    /// decoder may rewrite the bytes of its packet.
    let arena: UnsafeMutableRawBufferPointer

    @inline(__always)
    init(
        _ frame: PacketFrame, from connection: ConnectionID, in arena: UnsafeMutableRawBufferPointer
    ) {
        self.connection = connection
        self.frame = frame
        self.arena = arena
    }

    var bytes: UnsafeRawBufferPointer {
        @inline(__always) get { UnsafeRawBufferPointer(arena) }
    }

    var body: UnsafeRawBufferPointer {
        @inline(__always) get { frame.body.bytes(in: bytes) }
    }

    /// The position in the arena of a range of the body.
    @inline(__always)
    func place(_ range: ByteRange) -> ByteRange { range.shifted(by: Int(frame.body.offset)) }
}

/// The surroundings that the caller of the decoder supplies.
///
/// It holds addresses: Swift 6.3 has no type for a borrowed mutable value. They are valid while
/// `PacketDecoder.receive` runs, which creates the context and ends it.
struct DriverContext<
    Host: ConnectionHost & ~Copyable, Verifier: Authenticator & ~Copyable, Log: LogSink & ~Copyable
>: DecodingContext, ~Copyable {
    let host: UnsafeMutablePointer<Host>
    let authenticator: UnsafeMutablePointer<Verifier>
    let log: UnsafeMutablePointer<Log>
}

extension DriverContext where Host: ~Copyable, Verifier: ~Copyable, Log: ~Copyable {
    // MARK: ConnectionHost

    @inline(__always)
    func reservePacket(
        _ byteCount: Int, for connection: ConnectionID, _ priority: PacketPriority
    ) -> UnsafeMutableRawPointer? {
        host.pointee.reservePacket(byteCount, for: connection, priority)
    }

    @inline(__always)
    func commitPacket(_ byteCount: Int, for connection: ConnectionID) {
        host.pointee.commitPacket(byteCount, for: connection)
    }

    func closeConnection(_ connection: ConnectionID) {
        host.pointee.closeConnection(connection)
    }

    func acceptConnection(_ connection: ConnectionID, silenceMilliseconds: UInt64) {
        host.pointee.acceptConnection(connection, silenceMilliseconds: silenceMilliseconds)
    }

    func holdConnection(_ connection: ConnectionID) { host.pointee.holdConnection(connection) }

    func holdForAnswers(_ connection: ConnectionID) { host.pointee.holdForAnswers(connection) }

    func releaseAfterAnswers(_ connection: ConnectionID) {
        host.pointee.releaseAfterAnswers(connection)
    }

    func appendIncoming(_ bytes: UnsafeRawBufferPointer) -> ByteRange {
        host.pointee.appendIncoming(bytes)
    }

    // MARK: Authenticator

    func claim(
        token: ByteRange, in bytes: UnsafeRawBufferPointer, from connection: ConnectionID
    ) -> Claim? {
        authenticator.pointee.claim(token: token, in: bytes, from: connection)
    }

    func claim(
        app: ByteRange, key: ByteRange, user: ByteRange, in bytes: UnsafeRawBufferPointer
    ) -> Claim? {
        authenticator.pointee.claim(app: app, key: key, user: user, in: bytes)
    }

    func claim(of connection: ConnectionID) -> Claim? {
        authenticator.pointee.claim(of: connection)
    }

    func verify(
        _ login: PasswordLogin, from connection: ConnectionID
    ) -> PasswordVerdict {
        authenticator.pointee.verify(login, from: connection)
    }

    func makeRandomNumber() -> UInt64 { authenticator.pointee.makeRandomNumber() }

    func makeReference() -> UInt64 { authenticator.pointee.makeReference() }

    // MARK: LogSink

    func take(_ note: LogEvent, bytes: UnsafeRawBufferPointer) {
        log.pointee.take(note, bytes: bytes)
    }

    func takeRefusal(_ connection: ConnectionID, _ reason: ReasonCode) {
        log.pointee.takeRefusal(connection, reason)
    }

    func takeNames(
        _ connection: ConnectionID, user: RawSpan, device: RawSpan
    ) {
        log.pointee.takeNames(connection, user: user, device: device)
    }
}
