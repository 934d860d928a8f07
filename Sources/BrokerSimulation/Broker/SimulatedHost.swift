// The connections of an event loop without sockets: unread bytes, outgoing bytes, and which
// connections wait or close.

import BrokerCore
import BrokerTerms
import Dialects
import Primitives
import WireFormat

/// One connection at the broker.
struct HostConnection {
    let name: ConnectionID
    let link: Int
    var unread: [UInt8] = []
    var outgoing: [UInt8] = []
    /// Nothing is read before the answer to CONNECT.
    var isHeld = false
    /// Nothing is read until some of its requests are answered.
    var awaitsAnswers = false
    /// Its earlier requests wait for their share of a turn.
    var isWaiting = false
    var isAccepted = false
    /// It is closed after the last byte.
    var isClosing = false
    var lastHeard: Instant
    /// How long the client may be silent; at first, how long it may take to log in.
    var silenceMilliseconds = HostConnection.loginMilliseconds

    /// Time that a client has to log in.
    static let loginMilliseconds: UInt64 = 15_000
}

struct SimulatedHost: ConnectionHost {
    private let context: SimulationContext
    private let network: SimulatedNetwork
    private let loop: UInt8
    private(set) var slots: [HostConnection?] = []
    private var generations: [UInt32] = []
    /// The buffer of a packet before it is committed.
    private let room = UnsafeMutableRawPointer.allocate(byteCount: 1 << 17, alignment: 8)
    /// Connections that did not read and must be closed.
    var overflowed: [ConnectionID] = []
    /// Connections that may be read from again.
    var released: [ConnectionID] = []

    init(_ context: SimulationContext, _ network: SimulatedNetwork, loop: UInt8) {
        self.context = context
        self.network = network
        self.loop = loop
    }

    func free() { room.deallocate() }

    // MARK: Table

    /// Puts a connection into the lowest free slot, as the loop does: slots are reused at once.
    mutating func open(link: Int) -> ConnectionID {
        let slot = slots.firstIndex { $0 == nil } ?? slots.count
        if slot == slots.count {
            slots.append(nil)
            generations.append(0)
        }
        generations[slot] += 1
        let name = ConnectionID(loop: loop, slot: slot, generation: generations[slot])
        slots[slot] = HostConnection(name: name, link: link, lastHeard: context.now)
        return name
    }

    subscript(name: ConnectionID) -> HostConnection? {
        get {
            guard name.slot < slots.count, let connection = slots[name.slot] else { return nil }
            return connection.name == name ? connection : nil
        }
        set {
            // `host[name]?.field = value` also writes nil back if another connection has the slot
            // by now.
            guard self[name] != nil else { return }
            slots[name.slot] = newValue
        }
    }

    // MARK: ConnectionHost

    mutating func reservePacket(
        _ byteCount: Int, for connection: ConnectionID, _ priority: PacketPriority
    ) -> UnsafeMutableRawPointer? {
        guard let waiting = self[connection], !waiting.isClosing else { return nil }
        precondition(
            byteCount <= 1 << 17, "a packet of \(byteCount) bytes, at most 131,072 expected")
        let total = waiting.outgoing.count + byteCount
        let profile = context.profile
        if priority != .required || context.has(.lostDelivery) {
            return total > profile.outgoingMaximum ? nil : room
        }
        if total > profile.outgoingHardMaximum {
            overflowed.append(connection)
            network.givenUpByBroker(waiting.link)
            self[connection]?.isClosing = true
            return nil
        }
        return room
    }

    mutating func commitPacket(_ byteCount: Int, for connection: ConnectionID) {
        crossChannels(byteCount)
        let packet = UnsafeRawBufferPointer(start: room, count: byteCount)
        self[connection]?.outgoing += packet
    }

    /// For a planted bug: a packet gets the number of another channel.
    private func crossChannels(_ byteCount: Int) {
        let packet = UnsafeMutableRawBufferPointer(start: room, count: byteCount)
        guard packet[0] >> 4 == MRT.PacketType.channel.rawValue,
            context.misbehaves(.crossedChannels, perTenThousand: 300)
        else { return }
        // The number follows the length, and is a single byte here.
        packet[1 + VariableInteger.byteCount(byteCount - 2)] ^= 1
    }

    mutating func closeConnection(_ connection: ConnectionID) {
        if let closing = self[connection] { network.givenUpByBroker(closing.link) }
        self[connection]?.isClosing = true
    }

    mutating func acceptConnection(_ connection: ConnectionID, silenceMilliseconds: UInt64) {
        guard self[connection] != nil else { return }
        self[connection]?.isHeld = false
        self[connection]?.isAccepted = true
        self[connection]?.silenceMilliseconds = silenceMilliseconds
        released.append(connection)
    }

    mutating func holdConnection(_ connection: ConnectionID) {
        self[connection]?.isHeld = true
    }

    mutating func holdForAnswers(_ connection: ConnectionID) {
        self[connection]?.awaitsAnswers = true
    }

    mutating func releaseAfterAnswers(_ connection: ConnectionID) {
        guard self[connection] != nil, !context.has(.deafHost) else { return }
        let now = context.now
        self[connection]?.awaitsAnswers = false
        self[connection]?.lastHeard = now
        released.append(connection)
    }

    mutating func appendIncoming(_ bytes: UnsafeRawBufferPointer) -> ByteRange {
        preconditionFailure(
            "\(bytes.count) bytes appended, which only the broker's topic aliases need")
    }
}

/// Verifies the tokens of a run's users.
struct SimulatedAuthenticator: Authenticator {
    let context: SimulationContext

    mutating func claim(
        token: ByteRange, in bytes: UnsafeRawBufferPointer, from connection: ConnectionID
    ) -> Claim? {
        .token(identifier: token, digest: SimulatedAuthenticator.digest)
    }

    mutating func claim(
        app: ByteRange, key: ByteRange, user: ByteRange, in bytes: UnsafeRawBufferPointer
    ) -> Claim? { nil }

    mutating func claim(of connection: ConnectionID) -> Claim? { nil }

    mutating func makeRandomNumber() -> UInt64 { context.secretRandom.next() }

    /// The digest of all secrets.
    static let digest = Digest(words: (1, 2, 3, 4))
}

/// Writes the core's log events into the history.
struct SimulatedLog: LogSink {
    let history: History

    mutating func take(_ note: LogEvent, bytes: UnsafeRawBufferPointer) {
        history.note(
            .broker,
            "\(note.kind) \(note.connection) "
                + "\(String(decoding: note.user.bytes(in: bytes), as: UTF8.self))/"
                + "\(String(decoding: note.device.bytes(in: bytes), as: UTF8.self)), "
                + "\(note.reason.name)")
    }

    mutating func takeRefusal(_ connection: ConnectionID, _ reason: ReasonCode) {
        history.note(.broker, "refused \(connection) before the core: \(reason.name)")
    }
}
