// The gateway as a program: a device on a pseudo-terminal, the gateway, a real broker, and a
// listener. Each of the first three is stopped while the others continue.

import Foundation
import MartletClient
import Primitives
import TestSurroundings
import Testing
import WireFormat

@testable import Gateway

/// A device of which the test decides every packet, at the far end of a terminal.
private final class SerialDevice {
    /// What the gateway opens.
    let path: String
    private let descriptor: Int32
    /// Kept open, so that the terminal does not hang up while no gateway is there.
    private let farEnd: Int32
    private var incoming: [UInt8] = []
    private var stream: [UInt8] = []
    private var counter: UInt8 = 0

    init() throws {
        // ioctl_tty(2): TIOCSPTLCK and TIOCGPTN, which Swift's Glibc does not name.
        let (lockRequest, numberRequest): (UInt, UInt) = (0x4004_5431, 0x8004_5430)
        var (lock, number): (Int32, Int32) = (0, 0)
        descriptor = Foundation.open("/dev/ptmx", O_RDWR | O_NOCTTY)
        guard descriptor >= 0, ioctl(descriptor, lockRequest, &lock) == 0,
            ioctl(descriptor, numberRequest, &number) == 0
        else { throw TestFailure("no pseudo-terminal: \(errno)") }
        path = "/dev/pts/\(number)"
        farEnd = Foundation.open(path, O_RDWR | O_NOCTTY)
        // Raw from the beginning: what is written before the gateway opens it is not echoed.
        var mode = termios()
        tcgetattr(descriptor, &mode)
        cfmakeraw(&mode)
        tcsetattr(descriptor, TCSANOW, &mode)
    }

    deinit {
        close(descriptor)
        close(farEnd)
    }

    private func put(_ kind: SerialFrame.Kind, _ payload: ArraySlice<UInt8> = []) throws {
        var line: [UInt8] = []
        SerialFrame.append(kind, counter: counter, payload, to: &line)
        counter &+= 1
        guard write(descriptor, line, line.count) == line.count else {
            throw TestFailure("the line takes nothing: \(errno)")
        }
    }

    /// The next frame of the gateway's.
    private func nextFrame() throws -> SerialFrame {
        for _ in 0..<1_000 * Sanitizer.patience {
            if let end = incoming.firstIndex(of: 0) {
                let encoded = Array(incoming[..<end])
                incoming.removeSubrange(...end)
                if encoded.isEmpty { continue }
                guard let frame = SerialFrame(encoded: encoded) else {
                    throw TestFailure("a damaged frame: \(encoded)")
                }
                return frame
            }
            var end = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&end, 1, 20) > 0 else { continue }
            var room = [UInt8](repeating: 0, count: 512)
            let count = read(descriptor, &room, room.count)
            guard count > 0 else { throw TestFailure("the line is gone: \(errno)") }
            incoming += room[..<count]
        }
        throw TestFailure("20 s passed without a frame")
    }

    /// Begins a connection; returns when the gateway has taken it.
    func begin() throws {
        counter = 0
        stream = []
        try put(.open)
        while try nextFrame().kind != .opened {}
    }

    /// Waits until the gateway ends the connection.
    func waitForClose() throws {
        while try nextFrame().kind != .close {}
    }

    func send(_ packet: some MRT.Packet, _ source: [UInt8] = []) throws {
        var bytes = [UInt8](repeating: 0, count: packet.encodedByteCount)
        bytes.withUnsafeMutableBytes { room in
            var writer = PacketWriter(room.mutableBytes)
            source.withUnsafeBytes { packet.write(to: &writer, from: $0.bytes) }
        }
        for start in stride(from: 0, to: bytes.count, by: SerialFrame.payloadMaximum) {
            try put(.data, bytes[start..<min(start + SerialFrame.payloadMaximum, bytes.count)])
        }
    }

    /// OPEN, and no wait for its answer.
    func sendOpen() throws {
        counter = 0
        stream = []
        try put(.open)
    }

    /// A frame that is none.
    func sendNoise() throws {
        let noise: [UInt8] = [0x55, 0x55, 0x00]
        guard write(descriptor, noise, noise.count) == noise.count else {
            throw TestFailure("the line takes nothing: \(errno)")
        }
    }

    /// A ping on channel 1.
    func sendChannel() throws { try put(.data, [0xA0, 0x04, 0x01, 0xC0, 0x00, 0x00]) }

    /// A packet whose length has five bytes.
    func sendNonsense() throws { try put(.data, [0xC0, 0x80, 0x80, 0x80, 0x80, 0x01]) }

    /// The next packet, which has to be of this type.
    func next(_ type: MRT.PacketType) throws -> (flags: UInt8, body: [UInt8]) {
        while true {
            let found = stream.withUnsafeBytes {
                PacketFrame.next(in: $0.bytes, at: 0, packetMaximum: 4_096)
            }
            if case .packet(let frame) = found {
                let body = Array(stream[Int(frame.body.offset)..<frame.endOffset])
                stream.removeFirst(frame.endOffset)
                guard frame.type == type.rawValue else {
                    throw TestFailure("packet \(frame.type) in place of \(type)")
                }
                return (frame.flags, body)
            }
            let frame = try nextFrame()
            guard frame.kind == .data else { throw TestFailure("\(frame.kind) in place of data") }
            stream += frame.payload
        }
    }

    /// Connects; gives what was granted.
    func login(_ change: (inout MRT.Connect) -> Void = { _ in }) throws -> MRT.ConnectAccepted {
        try begin()
        var connect = MRT.Connect()
        // It never pings.
        connect.keepAliveSeconds = 600
        connect.outbox = MRT.Outbox(epoch: 7, resultsSeen: 0, highestUsed: 0)
        change(&connect)
        try send(connect)
        let body = try next(.connack).body
        guard
            case .accepted(let accepted) = try body.withUnsafeBytes({
                try MRT.Connack(body: $0.bytes)
            })
        else { throw TestFailure("the device is refused: \(body)") }
        return accepted
    }

    /// Sends a text to bob, and waits for its result.
    func tellBob(_ number: UInt64, _ text: String) throws {
        let source = Array("bob".utf8) + [0] + Array(text.utf8)
        try send(
            MRT.Send(
                grade: .once, number: number, target: .user(ByteRange(offset: 0, count: 3)),
                payload: ByteRange(offset: 3, count: source.count - 3)), source)
        let result = try next(.result)
        let reason = try result.body.withUnsafeBytes {
            try MRT.SendResult(flags: result.flags, body: $0.bytes).reason
        }
        guard reason == .sent else { throw TestFailure("refused: \(reason)") }
    }

    /// The next delivery: its number and text.
    func nextDelivery() throws -> (number: UInt64, text: String) {
        let packet = try next(.deliver)
        return try packet.body.withUnsafeBytes { body in
            let deliver = try MRT.Deliver(flags: packet.flags, body: body.bytes)
            let text = deliver.payload.bytes(in: body).dropFirst()
            return (deliver.number, String(decoding: text, as: UTF8.self))
        }
    }

    func setWill() throws {
        let text = Array("bob".utf8) + [0] + Array("device lost".utf8)
        let will = MRT.Will(
            delaySeconds: 0, target: .user(ByteRange(offset: 0, count: 3)), isRaw: false,
            payload: ByteRange(offset: 3, count: text.count - 3))
        try send(MRT.OutgoingRequest(identifier: 1, operation: .setWill, part: will), text)
        _ = try next(.response)
    }
}

/// A gateway that does not outlive its test.
private final class TestGateway {
    let process: ChildProcess

    init(_ arguments: [String], environment: [String: String] = [:]) throws {
        process = try ChildProcess("martlet-gateway", arguments, environment: environment)
    }

    deinit { process.signal(SIGKILL) }
}

extension EndToEndTests {
    @Suite(.timeLimit(.minutes(3 * Sanitizer.patience))) struct GatewayTests {
        private func gateway(
            _ device: SerialDevice, _ broker: TestBroker
        ) async throws -> TestGateway {
            let child = try TestGateway(
                ["--line=plant7-1=\(device.path)", "--will-to=bob", "--will=gateway lost"],
                environment: [
                    "MARTLET_SERVER": "tls://localhost:\(broker.tlsPort)",
                    "MARTLET_CA": broker.authority,
                    "MARTLET_TOKEN": try broker.token(
                        "gate", rights: ["attach:plant7-*", "send:*"]),
                ])
            _ = try await child.process.line(with: "event=broker_connected")
            return child
        }

        @Test(.needsPseudoTerminals)
        func `a device on a serial line is a client like any other`() async throws {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let device = try SerialDevice()
            let gateway = try await gateway(device, broker)
            #expect(try !device.login().hasWill)
            try device.tellBob(1, "20.5")
            let message = try await bob.nextMessage()
            bob.acknowledge(message)
            #expect(message.from == "plant7-1")
            #expect(message.text == "20.5")
            _ = try await bob.send(OutgoingMessage(to: .user("plant7-1"), text: "on", grade: .once))
            let command = try device.nextDelivery()
            #expect(command.text == "on")
            try device.send(MRT.Ack(inboxNumber: command.number))
            // It says good-bye, and is answered.
            try device.send(MRT.ClientDisconnect())
            _ = try device.next(.disconnect)
            gateway.process.signal(SIGTERM)
            #expect(try await gateway.process.exit() == .code(0))
        }

        @Test(.needsPseudoTerminals)
        func `without the broker a device has no connection, and resumes when the broker returns`()
            async throws
        {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let device = try SerialDevice()
            let gateway = try await gateway(device, broker)
            let first = try device.login()
            try device.tellBob(1, "one")
            try await broker.killNow()
            try device.waitForClose()
            let lineCount = gateway.process.lines.count
            try await broker.start()
            // Asked for while the broker may still be away: it is taken when the gateway is back.
            let second = try device.login {
                $0.isReconnect = true
                $0.cookie = first.resumeCookie
                $0.resume = MRT.Resume(epoch: first.sessionEpoch, lastNumber: 0)
                $0.outbox = MRT.Outbox(epoch: 7, resultsSeen: 1, highestUsed: 1)
            }
            _ = try await gateway.process.line(with: "event=broker_connected", from: lineCount)
            #expect(second.sessionEpoch == first.sessionEpoch)
            try device.tellBob(2, "two")
            #expect(try await bob.nextTexts(2) == ["one", "two"])
        }

        @Test(.needsPseudoTerminals)
        func `the devices of a killed gateway are lost, and resume with the next one`()
            async throws
        {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let device = try SerialDevice()
            let first = try await gateway(device, broker)
            let epoch = try device.login().sessionEpoch
            try device.setWill()
            first.process.signal(SIGKILL)
            _ = try await first.process.exit()
            #expect(try await Set(bob.nextTexts(2)) == ["gateway lost", "device lost"])
            _ = try await bob.send(OutgoingMessage(to: .user("plant7-1"), text: "wait"))
            let second = try await gateway(device, broker)
            // The device still believes in its connection, and is told when it says something.
            try device.send(MRT.Ping(isResponse: false))
            try device.waitForClose()
            let granted = try device.login {
                $0.resume = MRT.Resume(epoch: epoch, lastNumber: 0)
            }
            #expect(granted.isSessionPresent)
            #expect(try device.nextDelivery().text == "wait")
            second.process.signal(SIGTERM)
            #expect(try await second.process.exit() == .code(0))
        }

        @Test(.needsPseudoTerminals)
        func `no will is sent for a device that returns after a broken line`() async throws {
            let broker = try await TestBroker()
            let device = try SerialDevice()
            let gateway = try await gateway(device, broker)
            let first = try device.login()
            try device.setWill()
            // It begins anew without a word, as after noise on the line.
            let second = try device.login {
                $0.isReconnect = true
                $0.cookie = first.resumeCookie
            }
            #expect(second.hasWill)
            #expect(try broker.counter("wills/sent") == 0)
            gateway.process.signal(SIGTERM)
            _ = try await gateway.process.exit()
        }

        @Test(.needsPseudoTerminals)
        func `a faulty or silent device is detached, and its messages wait`()
            async throws
        {
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let device = try SerialDevice()
            let gateway = try await gateway(device, broker)
            for (round, event) in ["device_faulty", "device_silent"].enumerated() {
                let granted = try device.login {
                    // Long enough for what it does before its silence.
                    $0.keepAliveSeconds = round == 0 ? 600 : 8
                    $0.outbox = nil
                }
                #expect(granted.isSessionPresent == (round == 1))
                if round == 1 {
                    let waiting = try device.nextDelivery()
                    #expect(waiting.text == "device_faulty")
                    try device.send(MRT.Ack(inboxNumber: waiting.number))
                }
                try device.setWill()
                if round == 0 { try device.sendNonsense() }
                // In the second round it says nothing any more.
                nonisolated(unsafe) let waiting = device
                try await onThread { try waiting.waitForClose() }
                _ = try await gateway.process.line(with: "event=\(event)")
                let will = try await bob.nextMessage()
                bob.acknowledge(will)
                #expect(will.from == "plant7-1")
                #expect(will.text == "device lost")
                _ = try await bob.send(OutgoingMessage(to: .user("plant7-1"), text: event))
            }
            let granted = try device.login { $0.outbox = nil }
            #expect(granted.isSessionPresent)
            #expect(!granted.hasWill)
            #expect(try device.nextDelivery().text == "device_silent")
            #expect(try broker.counter("wills/sent") == 2)
            gateway.process.signal(SIGTERM)
            #expect(try await gateway.process.exit() == .code(0))
        }

        @Test func `a line that refuses connections is reported once, and opened when it accepts`()
            async throws
        {
            let broker = try await TestBroker()
            // A port of its own that nobody listens to yet.
            let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(listener) }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            let isBound = withUnsafeMutablePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(listener, $0, length) == 0 && getsockname(listener, $0, &length) == 0
                }
            }
            try #require(isBound)
            let child = try TestGateway(
                ["--line=plant7-1=tcp://localhost:\(UInt16(bigEndian: address.sin_port))"],
                environment: [
                    "MARTLET_SERVER": "tls://localhost:\(broker.tlsPort)",
                    "MARTLET_CA": broker.authority, "MARTLET_TOKEN": try broker.token("gate"),
                ])
            _ = try await child.process.line(with: "event=line_unavailable")
            _ = try await child.process.line(with: "event=broker_connected")
            try #require(listen(listener, 1) == 0)
            _ = try await child.process.line(with: "event=line_open")
            let reports = child.process.lines.filter { $0.contains("event=line_") }
            #expect(reports.count == 2, "\(reports)")
            child.process.signal(SIGTERM)
            #expect(try await child.process.exit() == .code(0))
        }

        @Test(.needsPseudoTerminals)
        func `one read of OPEN, noise and data harms neither the gateway nor a device`()
            async throws
        {
            let broker = try await TestBroker()
            let device = try SerialDevice()
            let gateway = try await gateway(device, broker)
            // While the gateway stands still the device goes on, and a line is never only good.
            gateway.process.signal(SIGSTOP)
            for _ in 0..<3 {
                try device.sendOpen()
                try device.sendNoise()
                try device.sendOpen()
                try device.sendNonsense()
            }
            gateway.process.signal(SIGCONT)
            _ = try await gateway.process.line(with: "event=line_broken user=plant7-1")
            // A CHANNEL is nothing that a device may send; the connection to the broker stays. What
            // the gateway said meanwhile is still to be read.
            var isIn = false
            for _ in 0..<20 where !isIn { isIn = (try? device.login()) != nil }
            #expect(isIn)
            try device.sendChannel()
            _ = try await gateway.process.line(with: "reason=protocol-error")
            // The end of that connection, and answers to earlier ones, may still be to be read.
            var isTold = false
            for _ in 0..<20 where !isTold {
                isTold = (try? device.login()) != nil && (try? device.tellBob(1, "alive")) != nil
            }
            #expect(isTold)
            #expect(!gateway.process.text.contains("event=broker_lost"))
            // Who reads the log sees when.
            #expect(gateway.process.lines.allSatisfy { $0.hasPrefix("time=20") })
            gateway.process.signal(SIGHUP)
            #expect(try await gateway.process.exit() == .code(0))
        }

        @Test func `a token file that others can read is refused`() async throws {
            let broker = try await TestBroker()
            let path = "\(broker.directory)/gate.token"
            let token = try broker.token("gate", rights: ["attach:plant7-*"])
            try Data("\(token)\n".utf8).write(to: URL(fileURLWithPath: path))
            chmod(path, 0o644)
            let arguments = [
                "--line=plant7-1=/dev/null", "--server=tcp://127.0.0.1:\(broker.plainPort)",
                "--token-file=\(path)",
            ]
            let open = try TestGateway(arguments)
            #expect(try await open.process.exit() == .code(1))
            #expect(open.process.text.contains("chmod o= \(path)"))
            chmod(path, 0o600)
            let kept = try TestGateway(arguments)
            _ = try await kept.process.line(with: "event=broker_connected")
            // Scripts that rotate log files send it.
            kept.process.signal(SIGUSR1)
            kept.process.signal(SIGTERM)
            #expect(try await kept.process.exit() == .code(0))
            #expect(!kept.process.text.contains("event=broker_lost"))
        }

        @Test func `the log names why the broker cannot be reached, and once`() async throws {
            let broker = try await TestBroker()
            let token = try broker.token("gate", rights: ["attach:plant7-*"])
            let closed = try ReservedPort()
            let attempts = [
                ("tcp://127.0.0.1:\(closed)", "Connection refused"),
                ("tcp://127.0.0.1:\(broker.tlsPort)", "needs tls:// instead of tcp://"),
                ("tls://localhost:\(broker.plainPort)", "needs tcp:// instead of tls://"),
                ("tls://localhost:\(broker.tlsPort)", "certificate: "),
            ]
            for (server, text) in attempts {
                // The last one trusts the system's authorities alone.
                let trust = text == "certificate: " ? [] : ["--ca=\(broker.authority)"]
                let gateway = try TestGateway(
                    ["--line=plant7-1=/dev/null", "--server=\(server)", "--token=\(token)"] + trust)
                let line = try await gateway.process.line(with: "event=broker_unreachable")
                #expect(line.contains(text), "\(server): \(line)")
                gateway.process.signal(SIGTERM)
                #expect(try await gateway.process.exit() == .code(0))
                // Further attempts had the same cause.
                let lines = gateway.process.lines.filter { $0.contains("event=broker_") }
                #expect(lines.count == 1, "\(lines)")
            }
        }

        @Test func `a gateway whose token is refused reports it and ends`() async throws {
            let broker = try await TestBroker()
            let child = try TestGateway(
                [
                    "--line=a=/dev/null", "--server=tcp://127.0.0.1:\(broker.plainPort)",
                    "--token=nonsense",
                ])
            #expect(try await child.process.exit() == .code(5))
            #expect(child.process.text.contains("bad-user-name-or-password"))
        }
    }
}
