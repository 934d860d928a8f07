// The gateway's end of one serial line, as a value: bytes go in, events come out one by one. A
// damaged frame, or a gap in the counters, is a lost connection: the device connects again and
// resumes. Nothing is acknowledged or repeated here.
//
// An event is decoded when it is requested, from the oldest unread frame, in the phase at that
// moment. The effect of one event therefore applies to the next, even if their frames arrived
// together.

/// The state of one line. Every frame is valid input in every phase, and every call is allowed in
/// every phase, because the device decides what it sends, and when.
///
///     closed ──OPEN──► asked ──accept──► open ──gap, damage, CLOSE──► closed
///                        ▲                 │
///                        └──────OPEN───────┘
struct SerialLink {
    enum Phase: CaseIterable { case closed, asked, open }

    enum Event: Equatable {
        /// The device begins a connection, and waits until it is accepted.
        case asked
        /// The next bytes of the device's stream.
        case received(ArraySlice<UInt8>)
        /// The connection has ended. The device has been told, or has ended it itself.
        case lost
    }

    private(set) var phase = Phase.closed
    /// Bytes to write to the line.
    private var outgoing: [UInt8] = []
    private var outgoingStart = 0
    /// Received bytes that were not decoded.
    private var incoming: [UInt8] = []
    private var incomingStart = 0
    /// The incomplete frame.
    private var encoded: [UInt8] = []
    /// It is longer than any frame: bytes are discarded until the next 00.
    private var isOverlong = false
    /// Bytes that were no frame while the device had no connection.
    private var noiseByteCount = 0
    private var incomingCounter: UInt8 = 0
    private var outgoingCounter: UInt8 = 0

    /// The number of received bytes that were not decoded.
    var incomingByteCount: Int { incoming.count - incomingStart }

    /// The number of bytes to write to the line.
    var outgoingByteCount: Int { outgoing.count - outgoingStart }

    // MARK: - From the device

    /// Bytes arrived; ``next()`` returns their events.
    mutating func append(_ bytes: UnsafeRawBufferPointer) { incoming += bytes }

    /// The next event; nil if no complete frame gives one.
    mutating func next() -> Event? {
        while incomingStart < incoming.count {
            let byte = incoming[incomingStart]
            incomingStart += 1
            if incomingStart == incoming.count {
                incoming.removeAll(keepingCapacity: true)
                incomingStart = 0
            }
            guard byte == 0 else {
                if !isOverlong, encoded.count == SerialFrame.encodedMaximum {
                    isOverlong = true
                    countNoise(encoded.count)
                }
                if isOverlong { countNoise(1) } else { encoded.append(byte) }
                continue
            }
            let frame = isOverlong ? nil : SerialFrame(encoded: encoded)
            if frame == nil, !isOverlong { countNoise(encoded.count) }
            let isEmpty = encoded.isEmpty
            encoded.removeAll(keepingCapacity: true)
            isOverlong = false
            if !isEmpty, let event = event(of: frame) { return event }
        }
        return nil
    }

    /// Damage ends an open connection, which is an event of its own.
    private mutating func countNoise(_ byteCount: Int) {
        if phase == .closed { noiseByteCount += byteCount }
    }

    /// The number of bytes that were no frame since the last call.
    mutating func takeNoise() -> Int {
        defer { noiseByteCount = 0 }
        return noiseByteCount
    }

    /// - Parameter frame: nil for a damaged one.
    private mutating func event(of frame: SerialFrame?) -> Event? {
        if let frame, frame.kind == .open, frame.counter == 0 {
            phase = .asked
            incomingCounter = 1
            return .asked
        }
        switch phase {
        case .closed:
            // It does not know yet that the connection has ended: the gateway may have been
            // restarted. One answer at a time is enough.
            if frame?.kind == .data, outgoingByteCount == 0 { sendClose() }
            return nil
        case .asked:
            close()
            return .lost
        case .open:
            if let frame, frame.kind == .data, frame.counter == incomingCounter {
                incomingCounter &+= 1
                return .received(frame.payload)
            }
            // A gap, damage, or a CLOSE of the device.
            close()
            return .lost
        }
    }

    // MARK: - To the device

    /// Accepts the device's connection, if it has requested one.
    mutating func accept() {
        guard phase == .asked else { return }
        phase = .open
        SerialFrame.append(.opened, counter: 0, to: &outgoing)
        outgoingCounter = 1
    }

    /// Sends bytes of the stream to the device; without a connection they are discarded.
    mutating func send(_ bytes: [UInt8]) {
        guard phase == .open else { return }
        for start in stride(from: 0, to: bytes.count, by: SerialFrame.payloadMaximum) {
            let end = min(start + SerialFrame.payloadMaximum, bytes.count)
            SerialFrame.append(.data, counter: outgoingCounter, bytes[start..<end], to: &outgoing)
            outgoingCounter &+= 1
        }
    }

    /// Ends the connection and tells the device.
    mutating func close() {
        if phase == .open { sendClose() }
        phase = .closed
    }

    /// Ends the connection and discards the bytes for the device.
    mutating func cut() {
        // The bytes that were taken may end within a frame: a 00 ends that frame.
        outgoing = [0]
        outgoingStart = 0
        close()
    }

    private mutating func sendClose() {
        SerialFrame.append(.close, counter: outgoingCounter, to: &outgoing)
    }

    /// The line has ended, and its connection with it.
    mutating func reset() { self = SerialLink() }

    /// The next bytes to write to the line, at most `maximum`.
    mutating func takeOutgoing(atMost maximum: Int = .max) -> [UInt8] {
        let end = outgoingStart + min(maximum, outgoingByteCount)
        let bytes = Array(outgoing[outgoingStart..<end])
        outgoingStart = end
        if outgoingStart == outgoing.count {
            outgoing.removeAll(keepingCapacity: true)
            outgoingStart = 0
        }
        return bytes
    }
}
