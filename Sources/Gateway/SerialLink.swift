// The gateway's end of one serial line, as a value: bytes come in, events come out one by one. A
// frame that is damaged, or a gap in the counters, is a lost connection: the device connects anew
// and resumes. Nothing is acknowledged and nothing is sent again here.
//
// An event is made when it is asked for, of the oldest frame that was not looked at, in the phase
// that holds then. So what one event changes is known to the next, however many frames arrived
// together.

/// One line's state. Every frame has an answer in every phase, and no call has a phase in which it
/// must not be made: what a device sends, and when, is the device's choice.
///
///     closed ──OPEN──► asked ──accept──► open ──gap, damage, CLOSE──► closed
///                        ▲                 │
///                        └──────OPEN───────┘
struct SerialLink {
    enum Phase: CaseIterable { case closed, asked, open }

    enum Event: Equatable {
        /// The device begins a connection, and waits until it is taken.
        case asked
        /// The next bytes of the device's stream.
        case received(ArraySlice<UInt8>)
        /// The connection is over. The device has been told, or has ended it itself.
        case lost
    }

    private(set) var phase = Phase.closed
    /// What is to be written to the line.
    private var outgoing: [UInt8] = []
    private var outgoingStart = 0
    /// What has arrived and was not looked at.
    private var incoming: [UInt8] = []
    private var incomingStart = 0
    /// The frame that is arriving.
    private var encoded: [UInt8] = []
    /// Longer than any frame: nothing until the next 00 is worth reading.
    private var isOverlong = false
    private var incomingCounter: UInt8 = 0
    private var outgoingCounter: UInt8 = 0

    /// Bytes that have arrived and were not looked at.
    var incomingByteCount: Int { incoming.count - incomingStart }

    /// Bytes to be written to the line.
    var outgoingByteCount: Int { outgoing.count - outgoingStart }

    // MARK: - From the device

    /// Bytes arrived; ``next()`` tells what they bring.
    mutating func append(_ bytes: UnsafeRawBufferPointer) { incoming += bytes }

    /// The next event; nil while no whole frame brings one.
    mutating func next() -> Event? {
        while incomingStart < incoming.count {
            let byte = incoming[incomingStart]
            incomingStart += 1
            if incomingStart == incoming.count {
                incoming.removeAll(keepingCapacity: true)
                incomingStart = 0
            }
            guard byte == 0 else {
                isOverlong = isOverlong || encoded.count == SerialFrame.encodedMaximum
                if !isOverlong { encoded.append(byte) }
                continue
            }
            let frame = isOverlong ? nil : SerialFrame(encoded: encoded)
            let isEmpty = encoded.isEmpty
            encoded.removeAll(keepingCapacity: true)
            isOverlong = false
            if !isEmpty, let event = event(of: frame) { return event }
        }
        return nil
    }

    /// - Parameter frame: nil for one that is damaged.
    private mutating func event(of frame: SerialFrame?) -> Event? {
        if let frame, frame.kind == .open, frame.counter == 0 {
            phase = .asked
            incomingCounter = 1
            return .asked
        }
        switch phase {
        case .closed:
            // It does not know yet that the connection is over: the gateway may have been
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
            // A gap, damage, or the device's own end.
            close()
            return .lost
        }
    }

    // MARK: - To the device

    /// Takes the device's connection, where it has asked for one.
    mutating func accept() {
        guard phase == .asked else { return }
        phase = .open
        SerialFrame.append(.opened, counter: 0, to: &outgoing)
        outgoingCounter = 1
    }

    /// Sends bytes of the stream to the device; without a connection they go nowhere.
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

    /// Ends the connection without what waits for the device.
    mutating func cut() {
        // What was taken may end within a frame: a 00 ends that one.
        outgoing = [0]
        outgoingStart = 0
        close()
    }

    private mutating func sendClose() {
        SerialFrame.append(.close, counter: outgoingCounter, to: &outgoing)
    }

    /// The line itself is gone: whatever was under way is too.
    mutating func reset() { self = SerialLink() }

    /// The next bytes to be written to the line, at most `maximum`.
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
