// Connections with WebSocket frames: the handler sees and says payload alone, over plain TCP and
// TLS, in any pieces, and slow readers and closing are as without frames.
import BrokerTerms
import NetTransport
import Primitives
import Synchronization
import Testing
import WireFormat

@Suite("A connection with WebSocket frames")
struct WebSocketTests {
    /// What the server says before it speaks in frames.
    private static let hello = Array("hello".utf8)

    /// A frame of a client.
    private static func frame(_ first: UInt8, _ payload: [UInt8]) -> [UInt8] {
        let mask: [UInt8] = [0xA5, 0x01, 0x7F, 0x3C]
        var bytes = [first]
        switch payload.count {
        case ...125: bytes.append(0x80 | UInt8(payload.count))
        case ...0xFFFF: bytes += [0xFE, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: bytes += [0xFF] + (0..<8).map { UInt8(payload.count >> (56 - 8 * $0) & 0xFF) }
        }
        return bytes + mask + payload.enumerated().map { $1 ^ mask[$0 % 4] }
    }

    /// What a client reads: payload of data frames, and the other frames.
    private struct Reading: Equatable {
        var payload: [UInt8] = []
        var frameCount = 0
        var pongs: [[UInt8]] = []
        var closeCode: Int?
        var isWhole = true
    }

    private static func read(_ stream: [UInt8]) -> Reading {
        var reading = Reading()
        var offset = hello.count
        while offset < stream.count {
            guard stream.count - offset >= 2 else { break }
            let header = stream[offset...].prefix(10)
            let short = Int(stream[offset + 1])
            #expect(short < 128, "a server's frame has a mask")
            let lengthByteCount = short == 126 ? 2 : short == 127 ? 8 : 0
            guard header.count >= 2 + lengthByteCount else { break }
            let length =
                lengthByteCount == 0
                ? short
                : header.dropFirst(2).prefix(lengthByteCount).reduce(0) { $0 << 8 | Int($1) }
            let start = offset + 2 + lengthByteCount
            guard start + length <= stream.count else { break }
            let payload = Array(stream[start..<start + length])
            switch stream[offset] {
            case 0x82:
                reading.payload += payload
                reading.frameCount += 1
            case 0x8A: reading.pongs.append(payload)
            case 0x88: reading.closeCode = Int(payload[0]) << 8 | Int(payload[1])
            default: Issue.record("a frame of type \(stream[offset])")
            }
            offset = start + length
        }
        reading.isWhole = offset == stream.count
        return reading
    }

    /// Connects and begins to speak in frames.
    private static func connect(
        _ bench: inout Bench
    ) throws -> (client: ConnectionID, server: ConnectionID) {
        let ends = try bench.connect()
        bench.recorder.upgrades.insert(ends.server)
        bench.recorder.greeting = hello
        bench.send(Array("upgrade".utf8), to: ends.client)
        bench.turn { _, recorder in recorder.received[ends.client] == hello }
        return ends
    }

    @Test(arguments: Security.allCases)
    func `echoes payload in one frame for each flush`(_ security: Security) throws {
        var bench = try Bench(security)
        let (client, _) = try Self.connect(&bench)
        var sent: [UInt8] = []
        var stream: [UInt8] = []
        for count in [1, 125, 126, 5_000, 60_000] {
            let payload = pattern(count)
            sent += payload
            stream += Self.frame(0x82, payload)
        }
        let frames = stream.count
        bench.send(stream, to: client)
        bench.turn { _, recorder in
            Self.read(recorder.received[client]!).payload.count == sent.count
        }
        let reading = Self.read(bench.recorder.received[client]!)
        #expect(reading.payload == sent)
        // A turn reads one burst, and answers it with one frame.
        #expect(reading.frameCount <= 1 + frames / 16_384)
        #expect(reading.isWhole)
        #expect(bench.loop.counters.webSocketsOpened == 1)
    }

    @Test(arguments: Security.allCases)
    func `shows a packet whole, however packets and frames are cut`(_ security: Security) throws {
        var bench = try Bench(security)
        bench.recorder.manner = .echoFrames(byteCount: 40)
        let (client, server) = try Self.connect(&bench)
        let packet = pattern(40)
        // A packet in two frames with a ping between them, cut at any byte.
        let stream =
            Self.frame(0x02, Array(packet[..<17])) + Self.frame(0x89, [1, 2, 3])
            + Self.frame(0x80, Array(packet[17...]))
        for cut in 1..<stream.count {
            bench.recorder.received[client] = Self.hello
            bench.send(Array(stream[..<cut]), to: client)
            let before = bench.loop.counters.receives
            bench.turn { loop, _ in loop.counters.receives > before }
            bench.send(Array(stream[cut...]), to: client)
            bench.turn { _, recorder in
                Self.read(recorder.received[client]!).payload.count == 40
            }
            let reading = Self.read(bench.recorder.received[client]!)
            #expect(reading.payload == packet)
            #expect(reading.pongs == [[1, 2, 3]])
        }
        #expect(bench.recorder.end(of: server) == nil)
    }

    @Test(arguments: Security.allCases)
    func `shows frames of text after their lengths, and writes what it is given`(
        _ security: Security
    ) throws {
        var bench = try Bench(security)
        let text = pattern(40)
        let shown: [UInt8] =
            [17, 0, 0, 0] + text[..<17] + [0, 0, 0, 0] + [23, 0, 0, 0x80] + text[17...]
        bench.recorder.form = .text
        bench.recorder.manner = .echoFrames(byteCount: shown.count)
        let (client, server) = try Self.connect(&bench)
        let ping = Self.frame(0x89, [1, 2, 3])
        let stream =
            Self.frame(0x01, Array(text[..<17])) + ping + Self.frame(0x00, [])
            + Self.frame(0x80, Array(text[17...]))
        for cut in 1..<stream.count {
            bench.recorder.received[client] = []
            bench.send(Array(stream[..<cut]), to: client)
            let before = bench.loop.counters.receives
            bench.turn { loop, _ in loop.counters.receives > before }
            bench.send(Array(stream[cut...]), to: client)
            let answer = [0x8A, 3, 1, 2, 3] + shown
            bench.turn { _, recorder in recorder.received[client]!.count == answer.count }
            #expect(bench.recorder.received[client] == answer)
        }
        #expect(bench.recorder.end(of: server) == nil)
        bench.recorder.received[client] = []
        bench.send(Self.frame(0x82, [1]), to: client)
        bench.turn { _, recorder in recorder.end(of: server) != nil }
        #expect(bench.loop.counters.webSocketFaults == 1)
    }

    @Test(arguments: Security.allCases)
    func `gathers a packet of announced length through pings and small frames`(
        _ security: Security
    ) throws {
        var bench = try Bench(security)
        let packet = pattern(300_000)
        bench.recorder.manner = .await(byteCount: packet.count)
        let (client, server) = try Self.connect(&bench)
        bench.loop.setPacketMaximum(packet.count, for: server)
        let showings = bench.recorder.showings
        var stream: [UInt8] = []
        for start in stride(from: 0, to: packet.count, by: 7_001) {
            stream += Self.frame(0x82, Array(packet[start..<min(start + 7_001, packet.count)]))
            stream += Self.frame(0x8A, [])
        }
        bench.send(stream, to: client)
        bench.turn { _, recorder in recorder.received[server] != nil }
        #expect(bench.recorder.received[server] == packet)
        #expect(bench.recorder.showings == showings + 2)
    }

    @Test(arguments: Security.allCases)
    func `keeps its frames in order for a slow reader`(_ security: Security) throws {
        var configuration = EventLoop.Configuration()
        configuration.kernelSendBufferBytes = 4096
        var bench = try Bench(security, configuration)
        let (client, server) = try Self.connect(&bench)
        var expected: [UInt8] = []
        // Appended in many turns while the reader rests: each flush is a frame.
        bench.loop.pauseReading(client)
        for turn in 0..<200 {
            let bytes = pattern(turn * 37 % 9_000 + 1)
            expected += bytes
            bench.send(bytes, to: server)
            _ = bench.loop.turn(&bench.recorder, waitMaximum: 0)
        }
        let isBlocked = bench.loop.isSendBlocked(server)
        #expect(isBlocked)
        bench.loop.resumeReading(client)
        bench.turn { _, recorder in
            Self.read(recorder.received[client]!).payload.count == expected.count
        }
        let reading = Self.read(bench.recorder.received[client]!)
        #expect(reading.payload == expected)
        #expect(reading.isWhole)
        #expect(bench.loop.outgoingByteCount(of: server) == 0)
        // And again, in a fresh block.
        bench.send([1, 2, 3], to: server)
        bench.turn { _, recorder in
            Self.read(recorder.received[client]!).payload == expected + [1, 2, 3]
        }
    }

    @Test func `shows a paused handler what came, and what came behind it later`() throws {
        var bench = try Bench()
        bench.recorder.manner = .pause
        let (client, server) = try Self.connect(&bench)
        let stream = Self.frame(0x82, [1, 2, 3]) + [0x82, 0x83, 0]
        bench.send(stream, to: client)
        bench.turn { _, recorder in recorder.received[server] == [1, 2, 3] }
        bench.recorder.manner = .collect
        bench.recorder.received[server] = nil
        bench.loop.resumeReading(server)
        bench.turn { _, recorder in recorder.received[server] == [1, 2, 3] }
        // The rest of the header, and the payload: a mask of zeros.
        bench.send([0, 0, 0, 4, 5, 6], to: client)
        bench.turn { _, recorder in recorder.received[server] == [1, 2, 3, 4, 5, 6] }
    }

    @Test(
        arguments: [
            ([0x82, 0x01, 0x00], 1002, "a frame without a mask"),
            ([0xC2, 0x80, 0, 0, 0, 0], 1002, "a reserved bit is set"),
            (
                [0x81, 0x80, 0, 0, 0, 0], 1003,
                "a text frame instead of a binary one, or the other way round"
            ),
            ([0x09, 0x80, 0, 0, 0, 0], 1002, "a fragment of a control frame"),
            (
                [0x82, 0xFF, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], 1009,
                "a frame that is too large"
            ),
        ] as [([UInt8], Int, String)])
    func `ends with a code for what breaks a rule`(
        stream: [UInt8], code: Int, detail: String
    ) throws {
        var bench = try Bench()
        let (client, server) = try Self.connect(&bench)
        bench.send(Self.frame(0x82, [9]) + stream + Self.frame(0x82, [10]), to: client)
        bench.turn { _, recorder in recorder.end(of: client) != nil }
        let reading = Self.read(bench.recorder.received[client]!)
        #expect(reading.payload == [9])
        #expect(reading.closeCode == code)
        bench.turn { _, recorder in recorder.end(of: server) != nil }
        #expect(bench.recorder.end(of: server)?.cause == .webSocketFault)
        #expect(bench.recorder.end(of: server)?.detail == detail)
        #expect(bench.loop.counters.webSocketFaults == 1)
    }

    @Test func `ends with a code for too many frames without data at once`() throws {
        for empty in [Self.frame(0x89, []), Self.frame(0x8A, []), Self.frame(0x82, [])] {
            var bench = try Bench()
            let (client, server) = try Self.connect(&bench)
            bench.send((0..<256).flatMap { _ in empty } + Self.frame(0x82, [9]), to: client)
            bench.turn { _, recorder in
                Self.read(recorder.received[client]!).payload == [9]
            }
            bench.send((0..<300).flatMap { _ in empty }, to: client)
            bench.turn { _, recorder in recorder.end(of: client) != nil }
            #expect(Self.read(bench.recorder.received[client]!).closeCode == 1008)
            bench.turn { _, recorder in recorder.end(of: server) != nil }
            #expect(
                bench.recorder.end(of: server)?.detail == "too many frames without data at once")
        }
    }

    @Test func `keeps few answers for a client that pings and does not read`() throws {
        var bench = try Bench()
        let (client, server) = try Self.connect(&bench)
        let payload = [UInt8](repeating: 7, count: 125)
        bench.loop.pauseReading(client)
        // The socket takes some 3 MB before the server's bytes wait.
        for _ in 0..<400 {
            bench.send((0..<200).flatMap { _ in Self.frame(0x89, payload) }, to: client)
            _ = bench.loop.turn(&bench.recorder, waitMaximum: 1)
        }
        #expect(bench.recorder.end(of: server) == nil)
        #expect(bench.loop.outgoingByteCount(of: server) <= 4_096 + 14)
        bench.loop.resumeReading(client)
        bench.turn { loop, _ in loop.outgoingByteCount(of: server) == 0 }
        bench.send(Self.frame(0x89, [1]), to: client)
        bench.turn { _, recorder in Self.read(recorder.received[client]!).pongs.last == [1] }
    }

    private final class Permission: Sendable {
        let isGiven = Atomic(false)
    }

    @Test func `holds pings while they may not be answered, and answers the last`() throws {
        let mayAnswer = Permission()
        var configuration = EventLoop.Configuration()
        configuration.mayAnswerPings = { mayAnswer.isGiven.load(ordering: .relaxed) }
        var bench = try Bench(.plain, configuration)
        let (client, server) = try Self.connect(&bench)
        let (other, _) = try Self.connect(&bench)
        for byte in 1...3 as ClosedRange<UInt8> {
            bench.send(Self.frame(0x89, [byte]), to: client)
            bench.send(Self.frame(0x89, [byte]), to: other)
        }
        bench.send(Self.frame(0x82, [9]), to: client)
        bench.send(Self.frame(0x82, [9]), to: other)
        bench.turn { _, recorder in
            [client, other].allSatisfy { Self.read(recorder.received[$0]!).payload == [9] }
        }
        #expect(Self.read(bench.recorder.received[client]!).pongs == [])
        let holds = bench.loop.hasHeldPings
        #expect(holds)
        // One that has gone gets nothing.
        bench.loop.close(other, afterFlush: false)
        bench.turn { _, recorder in recorder.ends.count == 2 }
        mayAnswer.isGiven.store(true, ordering: .relaxed)
        bench.loop.answerHeldPings { _ in true }
        let stillHolds = bench.loop.hasHeldPings
        #expect(!stillHolds)
        bench.turn { _, recorder in Self.read(recorder.received[client]!).pongs == [[3]] }
        bench.send(Self.frame(0x89, [4]), to: client)
        bench.turn { _, recorder in Self.read(recorder.received[client]!).pongs == [[3], [4]] }
        #expect(bench.recorder.end(of: server) == nil)
    }

    @Test(arguments: Security.allCases)
    func `answers a close frame, and counts as closed by its peer`(_ security: Security) throws {
        var bench = try Bench(security)
        let (client, server) = try Self.connect(&bench)
        bench.send(Self.frame(0x82, [1]) + Self.frame(0x88, [0x03, 0xE9]), to: client)
        bench.turn { _, recorder in
            recorder.end(of: server) != nil && recorder.end(of: client) != nil
        }
        let reading = Self.read(bench.recorder.received[client]!)
        #expect(reading.payload == [1])
        #expect(reading.closeCode == 1000)
        #expect(bench.recorder.end(of: server)?.cause == .peerClosed)
    }

    @Test func `says 1000 when the handler closes`() throws {
        var bench = try Bench()
        let (first, server) = try Self.connect(&bench)
        bench.send([5], to: server)
        bench.loop.close(server, afterFlush: true)
        bench.turn { _, recorder in recorder.end(of: first) != nil }
        #expect(Self.read(bench.recorder.received[first]!).payload == [5])
        #expect(Self.read(bench.recorder.received[first]!).closeCode == 1000)
    }

    @Test func `is not kept alive by pings`() throws {
        var bench = try Bench()
        bench.recorder.manner = .collect
        let (client, server) = try Self.connect(&bench)
        bench.loop.setDeadline(.keepAlive, for: server, afterMilliseconds: 300)
        bench.recorder.closesAtDeadline = true
        while bench.recorder.deadlines.isEmpty {
            bench.send(Self.frame(0x89, []), to: client)
            _ = bench.loop.turn(&bench.recorder, waitMaximum: 20)
        }
        #expect(bench.recorder.deadlines == [.keepAlive])
    }

    @Test func `costs no more than its payload to a loop that is asked for it`() throws {
        var bench = try Bench()
        let (_, server) = try Self.connect(&bench)
        #expect(bench.loop.outgoingByteCount(of: server) == 0)
        // Reserved and not committed: nothing is sent, and nothing waits.
        let room = bench.loop.reserve(10, for: server, .required)
        #expect(room != nil)
        #expect(bench.loop.outgoingByteCount(of: server) == 0)
        bench.send([1, 2], to: server)
        #expect(bench.loop.outgoingByteCount(of: server) == 2)
    }
}
