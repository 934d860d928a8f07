// The gateway's end of one serial line, as a value: bytes come in, the device's stream and what
// happened come out. A frame that is damaged, or a gap in the counters, is a lost connection: the
// device connects anew and resumes. Nothing is acknowledged and nothing is sent again here.

/// One line's state.
///
///     closed ──OPEN──► asked ──accept──► open ──gap, damage, CLOSE──► closed
///                        ▲                 │
///                        └──────OPEN───────┘
struct SerialLink {
    enum Phase { case closed, asked, open }

    enum Event: Equatable {
        /// The device begins a connection, and waits until it is taken.
        case asked
        /// The next bytes of the device's stream.
        case received(ArraySlice<UInt8>)
        /// The connection is over. The device has been told, or said so itself.
        case lost
    }

    private(set) var phase = Phase.closed
    /// What is to be written to the line.
    private(set) var outgoing: [UInt8] = []
    /// The frame that is arriving.
    private var encoded: [UInt8] = []
    /// Longer than any frame: nothing until the next 00 is worth reading.
    private var isOverlong = false
    private var incomingCounter: UInt8 = 0
    private var outgoingCounter: UInt8 = 0

    /// Bytes arrived; what they bring.
    mutating func receive(_ bytes: UnsafeRawBufferPointer) -> [Event] {
        var events: [Event] = []
        for byte in bytes {
            if byte != 0 {
                isOverlong = isOverlong || encoded.count == SerialFrame.encodedMaximum
                if !isOverlong { encoded.append(byte) }
                continue
            }
            let frame = isOverlong ? nil : SerialFrame(encoded: encoded)
            let isEmpty = encoded.isEmpty
            encoded.removeAll(keepingCapacity: true)
            isOverlong = false
            if !isEmpty, let event = event(of: frame) { events.append(event) }
        }
        return events
    }

    private mutating func event(of frame: SerialFrame?) -> Event? {
        if let frame, frame.kind == .open, frame.counter == 0 {
            phase = .asked
            incomingCounter = 1
            return .asked
        }
        switch (phase, frame?.kind) {
        case (.open, .data) where frame!.counter == incomingCounter:
            incomingCounter &+= 1
            return .received(frame!.payload)
        case (.open, _), (.asked, _):
            // A gap, damage, or the device's own end.
            close()
            return .lost
        case (.closed, .data):
            // It does not know yet that the connection is over: the gateway may have been
            // restarted.
            sendClose()
            return nil
        case (.closed, _):
            return nil
        }
    }

    /// The device's connection is taken.
    mutating func accept() {
        precondition(phase == .asked, "nobody asked")
        phase = .open
        SerialFrame.append(.opened, counter: 0, to: &outgoing)
        outgoingCounter = 1
    }

    /// Sends bytes of the stream to the device.
    mutating func send(_ bytes: [UInt8]) {
        precondition(phase == .open, "no connection to send on")
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

    private mutating func sendClose() {
        SerialFrame.append(.close, counter: outgoingCounter, to: &outgoing)
    }

    /// The line itself is gone: whatever was under way is too.
    mutating func reset() { self = SerialLink() }

    mutating func takeOutgoing() -> [UInt8] {
        defer { outgoing.removeAll(keepingCapacity: true) }
        return outgoing
    }
}
