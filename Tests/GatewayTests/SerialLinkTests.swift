// A serial line in the gateway: frames byte by byte, damage and gaps.

import Testing

@testable import Gateway

@Suite struct SerialFrameTests {
    /// Counter 0, kind 0 and the CRC-32 of both, FF 12 D9 41, with the zeros taken out.
    @Test func `an OPEN frame has the bytes that devices send`() {
        var line: [UInt8] = []
        SerialFrame.append(.open, counter: 0, to: &line)
        #expect(line == [0x01, 0x01, 0x05, 0xFF, 0x12, 0xD9, 0x41, 0x00])
        let frame = SerialFrame(encoded: Array(line.dropLast()))
        #expect(frame?.kind == .open)
        #expect(frame?.counter == 0)
        #expect(frame?.payload == [])
    }

    @Test func `any payload survives encoding and decoding`() {
        for count in 0...SerialFrame.payloadMaximum {
            for fill: UInt8 in [0x00, 0x01, 0xFF] {
                let payload = [UInt8](repeating: fill, count: count)
                var line: [UInt8] = []
                SerialFrame.append(.data, counter: 200, payload[...], to: &line)
                #expect(line.firstIndex(of: 0) == line.count - 1)
                #expect(line.count - 1 <= SerialFrame.encodedMaximum)
                let frame = SerialFrame(encoded: Array(line.dropLast()))
                #expect(frame?.payload == payload[...])
                #expect(frame?.counter == 200)
            }
        }
    }

    @Test func `a frame with any bit flipped is refused`() {
        var line: [UInt8] = []
        SerialFrame.append(.data, counter: 7, [1, 2, 3], to: &line)
        let encoded = Array(line.dropLast())
        for index in encoded.indices {
            for bit in 0..<8 {
                var damaged = encoded
                damaged[index] ^= 1 << bit
                #expect(SerialFrame(encoded: damaged) == nil)
            }
        }
    }

    @Test func `the checksum is that of Ethernet`() {
        #expect(Checksum.crc32(Array("123456789".utf8)[...]) == 0xCBF4_3926)
    }
}

@Suite struct SerialLinkTests {
    private var link = SerialLink()

    private func frame(
        _ kind: SerialFrame.Kind, _ counter: UInt8, _ payload: [UInt8] = []
    ) -> [UInt8] {
        var line: [UInt8] = []
        SerialFrame.append(kind, counter: counter, payload[...], to: &line)
        return line
    }

    private mutating func receive(_ bytes: [UInt8]) -> [SerialLink.Event] {
        bytes.withUnsafeBytes { link.append($0) }
        var events: [SerialLink.Event] = []
        while let event = link.next() { events.append(event) }
        return events
    }

    private mutating func open() {
        #expect(receive(frame(.open, 0)) == [.asked])
        link.accept()
        #expect(link.takeOutgoing() == frame(.opened, 0))
    }

    @Test mutating func `a device gets an answer when it is accepted`() {
        #expect(receive(frame(.open, 0)) == [.asked])
        #expect(link.takeOutgoing() == [])
        link.accept()
        #expect(link.takeOutgoing() == frame(.opened, 0))
        link.send(Array(1...100))
        #expect(
            link.takeOutgoing()
                == frame(.data, 1, Array(1...64)) + frame(.data, 2, Array(65...100)))
    }

    @Test mutating func `data arrives in order, in whatever pieces`() {
        open()
        let line = frame(.data, 1, [1, 0, 2]) + frame(.data, 2, [3])
        var events: [SerialLink.Event] = []
        for byte in line { events += receive([byte]) }
        #expect(events == [.received([1, 0, 2]), .received([3])])
    }

    @Test mutating func `a gap ends the connection, and the device is told`() {
        open()
        #expect(receive(frame(.data, 2, [1])) == [.lost])
        #expect(link.takeOutgoing() == frame(.close, 1))
        #expect(receive(frame(.data, 3, [1])) == [])
    }

    @Test mutating func `a damaged frame ends it too`() {
        open()
        var damaged = frame(.data, 1, [1, 2, 3])
        damaged[3] ^= 0x10
        #expect(receive(damaged) == [.lost])
    }

    @Test mutating func `an endless frame counts as damaged`() {
        open()
        #expect(receive([UInt8](repeating: 0x55, count: 10_000)) == [])
        #expect(receive([0]) == [.lost])
    }

    @Test mutating func `a new OPEN replaces the previous connection`() {
        open()
        #expect(receive(frame(.open, 0)) == [.asked])
        link.accept()
        _ = link.takeOutgoing()
        #expect(receive(frame(.data, 1, [9])) == [.received([9])])
    }

    @Test mutating func `a device is told that its connection has ended`() {
        #expect(receive(frame(.data, 17, [1])) == [])
        #expect(link.takeOutgoing() == frame(.close, 0))
    }

    @Test mutating func `counters wrap after 255`() {
        open()
        for index in 0..<600 {
            let counter = UInt8(truncatingIfNeeded: 1 + index)
            #expect(receive(frame(.data, counter, [7])) == [.received([7])])
        }
    }

    // MARK: - Every frame in every phase

    /// What may stand between two 00.
    enum Arrival: CaseIterable {
        case open, openCounted, opened, data, dataGap, close, damaged
    }

    private func bytes(_ arrival: Arrival) -> [UInt8] {
        switch arrival {
        case .open: frame(.open, 0)
        case .openCounted: frame(.open, 3)
        case .opened: frame(.opened, 0)
        case .data: frame(.data, 1, [7])
        case .dataGap: frame(.data, 9, [7])
        case .close: frame(.close, 1)
        case .damaged: [0x55, 0x55, 0x00]
        }
    }

    private static func link(in phase: SerialLink.Phase) -> SerialLink {
        var suite = SerialLinkTests()
        if phase != .closed { _ = suite.receive(suite.frame(.open, 0)) }
        if phase == .open { suite.link.accept() }
        _ = suite.link.takeOutgoing()
        return suite.link
    }

    /// The event, the phase afterwards, and whether the device is told that its connection is over.
    private static let table:
        [SerialLink.Phase: [Arrival: (SerialLink.Event?, SerialLink.Phase, Bool)]] = [
            .closed: [
                .open: (.asked, .asked, false), .openCounted: (nil, .closed, false),
                .opened: (nil, .closed, false), .data: (nil, .closed, true),
                .dataGap: (nil, .closed, true), .close: (nil, .closed, false),
                .damaged: (nil, .closed, false),
            ],
            .asked: [
                .open: (.asked, .asked, false), .openCounted: (.lost, .closed, false),
                .opened: (.lost, .closed, false), .data: (.lost, .closed, false),
                .dataGap: (.lost, .closed, false), .close: (.lost, .closed, false),
                .damaged: (.lost, .closed, false),
            ],
            .open: [
                .open: (.asked, .asked, false), .openCounted: (.lost, .closed, true),
                .opened: (.lost, .closed, true), .data: (.received([7]), .open, false),
                .dataGap: (.lost, .closed, true), .close: (.lost, .closed, true),
                .damaged: (.lost, .closed, true),
            ],
        ]

    @Test(arguments: SerialLink.Phase.allCases, Arrival.allCases)
    mutating func `every frame is handled in every phase`(
        phase: SerialLink.Phase, arrival: Arrival
    ) throws {
        link = Self.link(in: phase)
        let (event, next, isTold) = try #require(Self.table[phase]?[arrival])
        #expect(receive(bytes(arrival)) == (event.map { [$0] } ?? []))
        #expect(link.phase == next)
        let told = link.takeOutgoing()
        #expect(told.isEmpty != isTold)
        if isTold { #expect(SerialFrame(encoded: Array(told.dropLast()))?.kind == .close) }
    }

    @Test(arguments: SerialLink.Phase.allCases)
    func `every call is valid in every phase`(phase: SerialLink.Phase) {
        var link = Self.link(in: phase)
        link.accept()
        #expect(link.phase == (phase == .closed ? .closed : .open))
        link = Self.link(in: phase)
        link.send([1, 2, 3])
        #expect(link.takeOutgoing().isEmpty == (phase != .open))
        link.close()
        #expect(link.phase == .closed)
        link = Self.link(in: phase)
        link.send([UInt8](repeating: 1, count: 1_000))
        link.cut()
        #expect(link.phase == .closed)
        // The frame that may be half out is ended, and nothing is left of the others.
        #expect(link.takeOutgoing().count < 20)
    }

    @Test mutating func `the effect of one frame applies to the next of the same read`() {
        // A gateway that stood still for a moment finds them all at once.
        let read = frame(.open, 0) + frame(.open, 0) + frame(.data, 1, [5])
        read.withUnsafeBytes { link.append($0) }
        #expect(link.next() == .asked)
        link.accept()
        #expect(link.next() == .asked)
        link.accept()
        #expect(link.next() == .received([5]))
        #expect(link.next() == nil)
        #expect(link.takeOutgoing() == frame(.opened, 0) + frame(.opened, 0))
    }
}
