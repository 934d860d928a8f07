// The effects of a call of the core: one buffer for each event loop, with the bytes that its
// effects refer to. The core fills a buffer; the event loop exchanges it for an empty one and
// executes its effects.

import BrokerTerms
import Primitives

/// The effects for one event loop, in order, with the bytes they refer to.
public struct LoopEffects: ~Copyable, Sendable {
    public var effects: PlainBuffer<Effect>
    public var publications: PlainBuffer<Publication>
    public var refusals: PlainBuffer<Refusal>
    /// For deliveries through several subscriptions that have identifiers.
    public var identifierLists: ContiguousArray<[UInt32]> = []
    public var bytes: ByteArena
    /// The stamp of the last publication's message; 0 for none.
    var lastStamp: UInt64 = 0
    /// How many of the first effects a result of the store has caused. They tell of its batch, and
    /// of answers that waited behind one of the batch because their connection gets them in order.
    private(set) var storedCount = 0

    public init() {
        effects = PlainBuffer(capacity: 1024)
        publications = PlainBuffer()
        refusals = PlainBuffer()
        bytes = ByteArena(capacity: 1 << 16)
    }

    /// The same effects in no more memory than they need.
    public init(copying other: borrowing LoopEffects) {
        effects = PlainBuffer(copying: other.effects)
        publications = PlainBuffer(copying: other.publications)
        refusals = PlainBuffer(copying: other.refusals)
        identifierLists = other.identifierLists
        bytes = ByteArena(capacity: other.bytes.count)
        _ = bytes.append(other.bytes.bytes)
        storedCount = other.storedCount
    }

    /// Whether they tell of something that was decided after the last batch whose result the core
    /// has. Deliveries tell of nothing.
    public var tellsUnstored: Bool {
        effects.elements.dropFirst(storedCount).contains {
            if case .deliver = $0 { false } else { true }
        }
    }

    fileprivate mutating func noteStored() { storedCount = effects.count }

    /// Bytes of memory that the buffer holds, about.
    public var heldByteCount: Int {
        let lists = identifierLists.reduce(0) { $0 + 32 + $1.count * MemoryLayout<UInt32>.stride }
        return effects.heldByteCount + publications.heldByteCount + refusals.heldByteCount
            + bytes.heldByteCount + lists
    }

    public var isEmpty: Bool { effects.isEmpty }

    /// The cost of its effects, in the unit of ``CoreLimits/turnWorkMaximum``.
    @inline(__always)
    var work: Int { effects.count + bytes.count / CoreLimits.bytesPerWork }

    /// Empties the buffer. It keeps the memory that the budget of a turn fills, and releases the
    /// rest.
    public mutating func removeAll() {
        effects.removeAll(retainingAtMost: CoreLimits.loopEffectsMaximum)
        publications.removeAll(retainingAtMost: CoreLimits.loopEffectsMaximum)
        refusals.removeAll(retainingAtMost: CoreLimits.loopEffectsMaximum)
        if identifierLists.capacity > CoreLimits.loopEffectsMaximum { identifierLists = [] }
        identifierLists.removeAllKeepingCapacity()
        bytes.removeAll()
        lastStamp = 0
        storedCount = 0
    }

    /// The publication of a message for this event loop: its block is appended once, however many
    /// deliveries refer to it. `stamp` identifies the message; the deliveries of a message are
    /// contiguous.
    @inline(__always)
    private mutating func publication(
        stamp: UInt64, deadline: Instant, _ append: (inout ByteArena) -> ByteRange
    ) -> UInt32 {
        if lastStamp != stamp {
            publications.append(
                Publication(block: append(&bytes), deadline: deadline, stamp: stamp))
            lastStamp = stamp
        }
        return UInt32(publications.count - 1)
    }
}

/// The effects of all event loops. Owned by the caller and reused.
public struct Effects: ~Copyable, @unchecked Sendable {
    private let loops: UnsafeMutablePointer<LoopEffects>
    public let loopCount: Int

    public init(loopCount: Int = 1) {
        precondition(
            loopCount > 0 && loopCount <= LoopLimits.countMaximum,
            "\(loopCount) loops, of 1 to \(LoopLimits.countMaximum)")
        self.loopCount = loopCount
        loops = .allocate(capacity: loopCount)
        for loop in 0..<loopCount { (loops + loop).initialize(to: LoopEffects()) }
    }

    deinit {
        loops.deinitialize(count: loopCount)
        loops.deallocate()
    }

    @inlinable
    public subscript(loop: UInt8) -> LoopEffects {
        unsafeAddress { UnsafePointer(address(loop)) }
        unsafeMutableAddress { address(loop) }
    }

    /// The same effects, during one call.
    var reference: EffectsReference { EffectsReference(loops: loops, loopCount: loopCount) }

    @usableFromInline
    func address(_ loop: UInt8) -> UnsafeMutablePointer<LoopEffects> {
        precondition(Int(loop) < loopCount, "event loop \(loop) of \(loopCount)")
        return loops + Int(loop)
    }

    /// The cost of all effects that no event loop has fetched, in the unit of
    /// ``CoreLimits/turnWorkMaximum``.
    public var work: Int {
        var sum = 0
        for loop in 0..<loopCount { sum += (loops + loop).pointee.work }
        return sum
    }

    /// The loops whose effects tell of nothing unstored, with a bit for each.
    var storedLoops: UInt64 {
        var bits: UInt64 = 0
        for loop in 0..<loopCount where !(loops + loop).pointee.tellsUnstored {
            bits |= 1 << UInt64(loop)
        }
        return bits
    }

    /// Notes that a result of the store has caused what these loops have got since
    /// ``storedLoops``.
    func noteStored(_ bits: UInt64) {
        for loop in 0..<loopCount where bits & (1 << UInt64(loop)) != 0 {
            (loops + loop).pointee.noteStored()
        }
    }

    /// Exchanges an event loop's effects for an empty buffer.
    public mutating func exchange(_ loop: UInt8, with other: inout LoopEffects) {
        swap(&address(loop).pointee, &other)
    }
}

extension LoopEffects {
    /// Delivers a message that is not in the table of messages. Its block is written for its first
    /// receiver.
    @inline(__always)
    mutating func deliver(
        _ message: TransientMessage, to connection: ConnectionID,
        _ dialect: SessionDialect, state: EntryState
    ) {
        let publication = publication(stamp: message.stamp, deadline: message.deadline) { bytes in
            let range = bytes.reserve(message.byteCount)
            message.parts.write(to: bytes.mutableBytes(range))
            return range
        }
        deliver(publication, to: connection, dialect: dialect, number: 0, state: state)
    }

    /// Delivers a message from its block. `number` is 0 for a transient delivery.
    @inline(__always)
    mutating func deliver(
        stamp: UInt64, block: UnsafeRawBufferPointer, deadline: Instant,
        to connection: ConnectionID, _ dialect: SessionDialect, number: UInt64 = 0,
        state: EntryState
    ) {
        let publication = publication(stamp: stamp, deadline: deadline) { $0.append(block) }
        deliver(publication, to: connection, dialect: dialect, number: number, state: state)
    }

    @inline(__always)
    private mutating func deliver(
        _ publication: UInt32, to connection: ConnectionID, dialect: SessionDialect, number: UInt64,
        state: EntryState
    ) {
        effects.append(
            .deliver(
                Delivery(
                    connection: connection, number: number, publication: publication,
                    grade: state.grade, options: state.options, dialect: dialect,
                    packetIdentifier: number == 0 ? 0 : PacketIdentifier.derived(from: number),
                    subscriptionIdentifier: state.subscriptionIdentifier)))
    }

    /// Reports the result of a send to its sender.
    public mutating func appendResult(
        _ connection: ConnectionID, number: UInt64, reason: ReasonCode,
        messageIdentifier: UnsafeRawBufferPointer, reference: UInt64 = 0,
        refusedCount: UInt32 = 0, refusals: [Refusal] = [], cause: LimitName = .none,
        verdict: VerdictNote? = nil
    ) {
        let first = UInt32(self.refusals.count)
        self.refusals.append(contentsOf: refusals)
        var identifier = ByteRange.empty
        if let verdict {
            identifier = append(messageIdentifier: Array(messageIdentifier), verdict)
        } else if !messageIdentifier.isEmpty {
            identifier = bytes.append(messageIdentifier)
        }
        effects.append(
            .reportResult(
                SendResult(
                    connection: connection, number: number, reason: reason,
                    cause: verdict?.cause ?? (cause.hasVerdict ? .none : cause),
                    messageIdentifier: identifier,
                    reference: reference, refusedCount: refusedCount, firstRefusal: first,
                    namedRefusalCount: UInt32(refusals.count))))
    }

    /// Answers a SUBSCRIBE or an UNSUBSCRIBE (MQTT).
    mutating func answerFilters(
        to connection: ConnectionID, request: FilterAnswer.Request, identifier: UInt64,
        codes: [UInt8]
    ) {
        effects.append(
            .mqtt(
                .answerFilters(
                    FilterAnswer(
                        connection: connection, request: request, requestIdentifier: identifier,
                        codes: bytes.append(codes)))))
    }

    /// Reports the id of a wake target.
    mutating func reportWakeTarget(
        to connection: ConnectionID, request requestIdentifier: UInt64, target: UInt64
    ) {
        effects.append(
            .mrt(
                .reportWakeTarget(
                    connection, requestIdentifier: requestIdentifier, target: target)))
    }

    /// Reports the wake targets of a user.
    mutating func reportWakeTargets(
        to connection: ConnectionID, request requestIdentifier: UInt64, entries: [UInt8]
    ) {
        effects.append(
            .mrt(
                .reportWakeTargets(
                    connection, requestIdentifier: requestIdentifier,
                    entries: bytes.append(entries))))
    }

    /// Answers a recall or a replacement.
    mutating func reportRecall(
        to connection: ConnectionID, request requestIdentifier: UInt64, answer: [UInt8]
    ) {
        effects.append(
            .mrt(
                .reportRecall(
                    connection, requestIdentifier: requestIdentifier, answer: bytes.append(answer)))
        )
    }

    mutating func respond(
        to connection: ConnectionID, request requestIdentifier: UInt64, reason: ReasonCode,
        body: borrowing [UInt8] = []
    ) {
        effects.append(
            .mrt(
                .respond(
                    connection, requestIdentifier: requestIdentifier, reason,
                    body: bytes.append(body))))
    }
}

extension ByteArena {
    /// Appends an array's bytes. Borrowed, so that each message does not retain and release a name
    /// in a table.
    mutating func append(_ array: borrowing [UInt8]) -> ByteRange {
        array.span.withUnsafeBytes { append($0) }
    }
}

/// The effects of a caller, which does not move them until the call returns.
struct EffectsReference: BitwiseCopyable {
    fileprivate let loops: UnsafeMutablePointer<LoopEffects>
    fileprivate let loopCount: Int

    @inline(__always)
    subscript(loop: UInt8) -> LoopEffects {
        unsafeAddress { UnsafePointer(address(loop)) }
        nonmutating unsafeMutableAddress { address(loop) }
    }

    @inline(__always)
    private func address(_ loop: UInt8) -> UnsafeMutablePointer<LoopEffects> {
        precondition(Int(loop) < loopCount, "event loop \(loop) of \(loopCount)")
        return loops + Int(loop)
    }
}
