// The effect of one hostile device on the others: correct devices send messages and wait for
// results, while the device on one more line sends invalid input as fast as it can.

import Foundation
import Gateway
import MartletClient
import TestSurroundings
import Testing
import WireFormat
import class Threads.Locked

/// A device that keeps no rule, on a line of its own.
private final class HostileDevice: Sendable {
    /// What it does, again and again.
    enum Habit: CaseIterable {
        /// Bytes that are no frames.
        case noise
        /// OPEN and CONNECT, and anew before there is an answer.
        case logins
        /// It is let in, and pings without end.
        case pings
        /// The same with messages for a user whom nobody knows: each is refused.
        case messages
    }

    let place: String
    private let listener: Int32
    private let habit = Locked<Habit?>(nil)
    private let sentByteCount = Locked(0)
    private let isOpen = Locked(true)

    init() throws {
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let isListening = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 4) == 0
                    && getsockname(listener, $0, &length) == 0
            }
        }
        guard isListening else { throw TestFailure("no line: \(errno)") }
        place = "tcp://127.0.0.1:\(UInt16(bigEndian: address.sin_port))"
        let (habit, sentByteCount, isOpen) = (habit, sentByteCount, isOpen)
        Thread.detachNewThread {
            // This thread closes: after a close elsewhere the number could be another test's file.
            defer {
                isOpen.withLock {
                    $0 = false; close(listener)
                }
            }
            while case let line = accept(listener, nil, nil), line >= 0 {
                Thread.detachNewThread {
                    var room = [UInt8](repeating: 0, count: 65_536)
                    while read(line, &room, room.count) > 0 {}
                }
                Self.serve(line, habit, sentByteCount)
                shutdown(line, Int32(SHUT_RDWR))
            }
        }
    }

    deinit { end() }

    /// May be called twice.
    func end() { isOpen.withLock { if $0 { shutdown(listener, Int32(SHUT_RDWR)) } } }

    /// - Parameter habit: nil for a device that is silent.
    func take(up habit: Habit?) { self.habit.withLock { $0 = habit } }

    /// Bytes that the line has taken.
    var byteCount: Int { sentByteCount.withLock { $0 } }

    private static func serve(_ line: Int32, _ habit: Locked<Habit?>, _ count: Locked<Int>) {
        var last: Habit?
        while true {
            guard let now = habit.withLock({ $0 }) else {
                last = nil
                poll(nil, 0, 10)
                continue
            }
            let bytes = last == now ? again(now) : beginning() + again(now)
            last = now
            guard send(line, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else { return }
            count.withLock { $0 += bytes.count }
        }
    }

    private static func frames(_ packet: [UInt8], from counter: UInt8) -> [UInt8] {
        var line: [UInt8] = []
        SerialFrame.append(.data, counter: counter, packet[...], to: &line)
        return line
    }

    private static func encode(_ packet: some MRT.Packet, _ source: [UInt8] = []) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: packet.encodedByteCount)
        bytes.withUnsafeMutableBytes { room in
            var writer = PacketWriter(room.mutableBytes)
            source.withUnsafeBytes { packet.write(to: &writer, from: $0.bytes) }
        }
        return bytes
    }

    /// OPEN and CONNECT, behind which the counter is 2.
    private static func beginning() -> [UInt8] {
        var line: [UInt8] = [0]
        SerialFrame.append(.open, counter: 0, to: &line)
        return line + frames(encode(MRT.Connect()), from: 1)
    }

    /// What it sends as often as it can: of frames as many as the counter has values.
    private static func again(_ habit: Habit) -> [UInt8] {
        switch habit {
        case .noise: (0..<16_384).map { _ in .random(in: 0...255) }
        case .logins: (0..<200).flatMap { _ in beginning() }
        case .pings:
            (0...255).flatMap { frames(encode(MRT.Ping(isResponse: false)), from: $0 &+ 2) }
        case .messages:
            (0...255).flatMap { (counter: UInt8) -> [UInt8] in
                let source = Array("eve".utf8) + [0, 0x78]
                let message = MRT.Send(
                    grade: .transient, number: 0, target: .user(.init(offset: 0, count: 3)),
                    payload: .init(offset: 3, count: 2))
                return frames(encode(message, source), from: counter &+ 2)
            }
        }
    }
}

extension EndToEndTests {
    /// With `MARTLET_LINES=1000 MARTLET_LINE_SECONDS=20` it measures, and holds the times to
    /// their bound; `MARTLET_PROGRAMS` names a release build, and `MARTLET_SHOW` prints. Otherwise
    /// it asks for connections alone: times of a debug build beside other tests say nothing.
    @Suite(.timeLimit(.minutes(8 * Sanitizer.patience))) struct GatewayNeighbourTests {
        private static func number(_ name: String, else value: Int) -> Int {
            ProcessInfo.processInfo.environment[name].flatMap { Int($0) } ?? value
        }
        private static let lineCount = number("MARTLET_LINES", else: 200)
        private static let isMeasured = lineCount >= 1_000
        private static let seconds = number("MARTLET_LINE_SECONDS", else: 2)
        /// Messages of all devices together in a second.
        private static let rate = 100.0

        @Test
        func `a hostile device ends no other connection, and delays the others by a bounded time`()
            async throws
        {
            let names = (1..<Self.lineCount).map { "plant7-\($0)" }
            let broker = try await TestBroker()
            let bob = try await broker.client("bob")
            let reading = Task {
                for await event in bob.events {
                    if case .message(let message) = event { bob.acknowledge(message) }
                }
            }
            defer { reading.cancel() }
            let fleet = try LineFleet(names, isTerminal: false, outboxByteCount: 4_096)
            defer { fleet.end() }
            let hostile = try HostileDevice()
            defer { hostile.end() }
            let gateway = try ChildProcess(
                "martlet-gateway", fleet.options + ["--line=plant7-0=\(hostile.place)"],
                environment: [
                    "MARTLET_SERVER": "tls://localhost:\(broker.tlsPort)",
                    "MARTLET_CA": broker.authority,
                    "MARTLET_TOKEN": try broker.token(
                        "gate", rights: ["attach:plant7-*", "send:*"]),
                ])
            defer { gateway.signal(SIGKILL) }
            try await fleet.wait("all devices") { $0.connected == names.count }
            let quiet = try await measure(fleet, names.count)
            var report = "quiet: \(quiet)"
            for habit in HostileDevice.Habit.allCases {
                let before = hostile.byteCount
                hostile.take(up: habit)
                let loud = try await measure(fleet, names.count)
                // Its thread may have been paused all the time.
                try await eventually("\(habit): bytes on the line") {
                    hostile.byteCount - before > 4 * 1024
                }
                hostile.take(up: nil)
                let byteCount = hostile.byteCount - before
                report += "; \(habit), \(byteCount >> 10) KiB: \(loud)"
                #expect(byteCount > 4 * 1024, "\(habit): the line took nothing")
                if Self.isMeasured { #expect(loud.p99 <= quiet.p99 + 50, "\(report)") }
            }
            if ProcessInfo.processInfo.environment["MARTLET_SHOW"] != nil { print(report) }
            let end = await fleet.report()
            #expect(end.connected == names.count)
            #expect(end.connectionCount == names.count)
            #expect(end.refusals == [])
            #expect(!gateway.text.contains("event=broker_lost"))
        }

        struct Latency: CustomStringConvertible {
            var p50 = 0.0
            var p99 = 0.0
            var count = 0

            var description: String {
                "p50 \(String(format: "%.1f", p50)) ms, p99 \(String(format: "%.1f", p99)) ms"
                    + " of \(count)"
            }
        }

        /// Some seconds of messages from every device, and their times in milliseconds.
        private func measure(_ fleet: LineFleet, _ count: Int) async throws -> Latency {
            _ = await fleet.report(takesLatencies: true)
            let interval = Double(count) / Self.rate
            let each = max(1, Int((Double(Self.seconds) / interval).rounded(.up)))
            let before = await fleet.report().resolved
            // Their results wait for the receiver and for no disk.
            fleet.send(each, interval: interval, grade: .durable)
            try await fleet.wait("results") { $0.resolved == before + each * count }
            let times = await fleet.report(takesLatencies: true).latencies.sorted()
            func quantile(_ part: Double) -> Double {
                Double(times[min(times.count - 1, Int(Double(times.count) * part))]) / 1e6
            }
            return Latency(p50: quantile(0.5), p99: quantile(0.99), count: times.count)
        }
    }
}
