// Devices on a gateway's lines: the client's machine behind the frames of a serial line. One thread
// serves all of them.

import ClientCore
import Foundation
import Gateway
import Primitives
import TestSurroundings
import WireFormat
import class Threads.Locked

/// One device, which only the thread of its fleet touches.
private final class LineDevice {
    /// What it is to do, and has done.
    struct Work {
        /// Messages that it is to send, and has handed to its machine.
        var wanted = 0
        var handed = 0
        /// Between two messages; 0 sends as fast as there is room.
        var intervalNanoseconds: UInt64 = 0
        var nextAt: UInt64 = 0
        var grade = MRT.Grade.once
        /// It does not read.
        var isDeaf = false
    }

    let name: String
    /// What the gateway opens.
    let place: String
    private let listener: Int32
    private(set) var descriptor: Int32 = -1
    /// Kept open, so that a terminal does not hang up while no gateway is there.
    private let farEnd: Int32
    private let memory: [UnsafeMutableRawBufferPointer]
    private var machine: ClientMachine
    private var (isOpen, isAsking, isWanted) = (false, false, false)
    private var askedAt = Instant(milliseconds: 0)
    /// Between two OPEN. A second one that crosses the answer to the first one would cost a login.
    private static let askMilliseconds: UInt64 = 2_000
    private var outgoing: [UInt8] = []
    private var encoded: [UInt8] = []
    private var (incomingCounter, outgoingCounter): (UInt8, UInt8) = (0, 0)
    private var handedAt: [UInt64: UInt64] = [:]

    var work = Work()
    private(set) var isConnected = false
    private(set) var connectionCount = 0
    private(set) var isOutboxFull = false
    /// The line takes nothing.
    private(set) var isHeldBack = false
    private(set) var resolvedCount = 0
    private(set) var refusals: [String] = []
    private(set) var received: [String] = []
    /// From handing a message over to its result.
    var latencies: [UInt64] = []

    init(_ name: String, isTerminal: Bool, outboxByteCount: Int) throws {
        self.name = name
        if isTerminal {
            (descriptor, farEnd, place) = try Self.terminal()
            listener = -1
        } else {
            (listener, place) = try Self.listening()
            farEnd = -1
        }
        memory = [2_048, outboxByteCount].map { .allocate(byteCount: $0, alignment: 16) }
        var connect = MRT.Connect()
        connect.keepAliveSeconds = 60
        connect.sessionExpirySeconds = 3_600
        machine = ClientMachine(
            identity: ClientIdentity(
                connect: connect, bytes: UnsafeRawBufferPointer(start: nil, count: 0)),
            memory: ClientMemory(receive: memory[0], outbox: memory[1]),
            record: ClientRecord(outboxEpoch: .random(in: 1 ... .max)),
            options: ClientOptions(jitterSeed: .random(in: 0 ... .max)))
        machine.start(now: Self.now)
    }

    deinit {
        for end in [descriptor, farEnd, listener] where end >= 0 { close(end) }
        for room in memory { room.deallocate() }
    }

    static var nanoseconds: UInt64 { clock_gettime_nsec() }
    private static var now: Instant { Instant(milliseconds: nanoseconds / 1_000_000) }

    private static func terminal() throws -> (Int32, Int32, String) {
        // ioctl_tty(2): TIOCSPTLCK and TIOCGPTN, which Swift's Glibc does not name.
        let (lockRequest, numberRequest): (UInt, UInt) = (0x4004_5431, 0x8004_5430)
        var (lock, number): (Int32, Int32) = (0, 0)
        let descriptor = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK)
        guard descriptor >= 0, ioctl(descriptor, lockRequest, &lock) == 0,
            ioctl(descriptor, numberRequest, &number) == 0
        else { throw TestFailure("no pseudo-terminal: \(errno)") }
        let path = "/dev/pts/\(number)"
        let farEnd = open(path, O_RDWR | O_NOCTTY)
        var mode = termios()
        tcgetattr(descriptor, &mode)
        cfmakeraw(&mode)
        tcsetattr(descriptor, TCSANOW, &mode)
        return (descriptor, farEnd, path)
    }

    private static func listening() throws -> (Int32, String) {
        let listener = try LoopbackListener(backlog: 4, isNonBlocking: true)
        return (listener.descriptor, "tcp://127.0.0.1:\(listener.port)")
    }

    // MARK: - The line

    /// What the thread waits for.
    var polled: pollfd {
        guard descriptor >= 0 else {
            return pollfd(fd: listener, events: Int16(POLLIN), revents: 0)
        }
        let reads = work.isDeaf ? 0 : POLLIN
        return pollfd(
            fd: descriptor, events: Int16(reads | (outgoing.isEmpty ? 0 : POLLOUT)), revents: 0)
    }

    /// Whether there may be something to do without the line.
    func isDue(_ nanoseconds: UInt64) -> Bool {
        let now = Instant(milliseconds: nanoseconds / 1_000_000)
        if machine.nextDeadline <= now { return true }
        if isAskDue(now) { return true }
        return isSendDue(nanoseconds)
    }

    private func isAskDue(_ now: Instant) -> Bool {
        isAsking && now >= askedAt.advanced(byMilliseconds: Self.askMilliseconds)
    }

    private func isSendDue(_ nanoseconds: UInt64) -> Bool {
        work.handed < work.wanted && nanoseconds >= work.nextAt && !isOutboxFull
    }

    func service() {
        let now = Self.now
        if descriptor < 0 {
            descriptor = accept(listener, nil, nil)
            if descriptor >= 0 {
                _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
                if isWanted { ask(now) }
            }
        }
        if descriptor >= 0, !work.isDeaf { read(now) }
        machine.timePassed(now: now)
        drain(now)
        if isAskDue(now) { ask(now) }
        handOver()
        write(now)
        // As much as the line takes: nobody calls again where it is free and nothing arrives.
        while isOpen, outgoing.isEmpty, transmit(now) { write(now) }
    }

    private func lineLost(_ now: Instant) {
        guard listener >= 0 else { return }
        close(descriptor)
        descriptor = -1
        outgoing = []
        encoded = []
        connectionLost(now)
    }

    private func connectionLost(_ now: Instant) {
        (isOpen, isAsking) = (false, false)
        machine.closed(now: now)
        drain(now)
    }

    private func ask(_ now: Instant) {
        isWanted = true
        guard descriptor >= 0 else { return }
        (isAsking, askedAt) = (true, now)
        // What stood there may end within a frame: a 00 ends that one.
        outgoing = [0]
        SerialFrame.append(.open, counter: 0, to: &outgoing)
        (incomingCounter, outgoingCounter) = (0, 1)
    }

    private func read(_ now: Instant) {
        var room = [UInt8](repeating: 0, count: 16_384)
        while descriptor >= 0 {
            let count = Foundation.read(descriptor, &room, room.count)
            if count == 0 || count < 0 && errno != EAGAIN && errno != EIO {
                lineLost(now)
                return
            }
            guard count > 0 else { return }
            for byte in room[..<count] {
                guard byte == 0 else {
                    encoded.append(byte)
                    continue
                }
                if !encoded.isEmpty { take(SerialFrame(encoded: encoded), now) }
                encoded.removeAll(keepingCapacity: true)
            }
        }
    }

    private func take(_ frame: SerialFrame?, _ now: Instant) {
        if isAsking, let frame, frame.kind == .opened, frame.counter == 0 {
            (isAsking, isWanted, isOpen) = (false, false, true)
            incomingCounter = 1
            machine.opened(now: now)
            return
        }
        guard isOpen else { return }
        guard let frame, frame.kind == .data, frame.counter == incomingCounter else {
            connectionLost(now)
            return
        }
        incomingCounter &+= 1
        var rest = frame.payload
        while !rest.isEmpty, isOpen {
            let space = machine.receiveSpace()
            let count = min(space.count, rest.count)
            space.copyBytes(from: rest.prefix(count))
            rest = rest.dropFirst(count)
            machine.received(byteCount: count, now: now)
            drain(now)
        }
    }

    private func write(_ now: Instant) {
        while !outgoing.isEmpty, descriptor >= 0 {
            let count = Foundation.write(descriptor, outgoing, outgoing.count)
            if count < 0 {
                isHeldBack = errno == EAGAIN
                if !isHeldBack { lineLost(now) }
                return
            }
            outgoing.removeFirst(count)
        }
        isHeldBack = false
    }

    // MARK: - The machine

    private func drain(_ now: Instant) {
        while let event = machine.nextEvent(now: now) {
            switch event {
            case .connectionWanted: ask(now)
            case .connected:
                isConnected = true
                connectionCount += 1
            case .disconnected: (isOpen, isAsking, isConnected) = (false, false, false)
            case .delivered(let deliver):
                // A text message begins with its type.
                received.append(
                    String(decoding: machine.bytes(deliver.payload).dropFirst(), as: UTF8.self))
                if deliver.number > 0 { machine.acknowledge(through: deliver.number, now: now) }
            case .resolved(let result):
                resolvedCount += 1
                isOutboxFull = false
                if result.reason != .sent { refusals.append("\(name): \(result.reason)") }
                if let start = handedAt.removeValue(forKey: result.number) {
                    latencies.append(Self.nanoseconds - start)
                }
            case .groupChanged, .answered, .credentialAnswered, .carried: break
            }
        }
    }

    private func handOver() {
        let now = Self.nanoseconds
        while isSendDue(now) {
            let source = Array("bob".utf8) + [0] + Array(LineFleet.text(name, work.handed).utf8)
            let message = MRT.Send(
                grade: work.grade, number: 0, target: .user(ByteRange(offset: 0, count: 3)),
                payload: ByteRange(offset: 3, count: source.count - 3))
            guard let number = source.withUnsafeBytes({ try? machine.send(message, from: $0) })
            else {
                isOutboxFull = true
                return
            }
            handedAt[number] = now
            work.handed += 1
            work.nextAt += work.intervalNanoseconds
        }
    }

    /// False where there is nothing to be sent.
    private func transmit(_ now: Instant) -> Bool {
        var room = [UInt8](repeating: 0, count: 1_024)
        while outgoing.count < 4_096 {
            let count = room.withUnsafeMutableBytes { machine.transmit(into: $0, now: now) }
            guard count > 0 else { break }
            for start in stride(from: 0, to: count, by: SerialFrame.payloadMaximum) {
                let end = min(start + SerialFrame.payloadMaximum, count)
                SerialFrame.append(
                    .data, counter: outgoingCounter, room[start..<end], to: &outgoing)
                outgoingCounter &+= 1
            }
        }
        return !outgoing.isEmpty
    }
}

private func clock_gettime_nsec() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

/// Devices of a gateway, until it is ended.
final class LineFleet: Sendable {
    /// What is known of all devices.
    struct Report {
        var connected = 0
        /// Connections that were let in, the first ones included.
        var connectionCount = 0
        var outboxFull = 0
        var heldBack = 0
        var resolved = 0
        var refusals: [String] = []
        var received: [String: [String]] = [:]
        /// Of the messages since the last report that asked for them.
        var latencies: [UInt64] = []
    }

    private struct State {
        /// What the thread is to do with its devices.
        var orders: [@Sendable ([LineDevice]) -> Void] = []
        var isOver = false
    }

    /// The gateway's `--line` options.
    let options: [String]
    private let state = Locked(State())

    /// What a device says: its number, and words that make it as long as a message usually is.
    static func text(_ name: String, _ number: Int) -> String {
        "\(name) \(number) " + String(repeating: "measured ", count: 100)
    }

    init(_ names: [String], isTerminal: Bool, outboxByteCount: Int) throws {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        nonisolated(unsafe) let devices = try names.map {
            try LineDevice($0, isTerminal: isTerminal, outboxByteCount: outboxByteCount)
        }
        options = devices.map { "--line=\($0.name)=\($0.place)" }
        let state = state
        Thread.detachNewThread {
            for device in devices { device.service() }
            while true {
                let (orders, isOver) = state.withLock { state in
                    defer { state.orders = [] }
                    return (state.orders, state.isOver)
                }
                if isOver { return }
                for order in orders { order(devices) }
                var polled = devices.map(\.polled)
                poll(&polled, nfds_t(polled.count), 2)
                let now = LineDevice.nanoseconds
                for (device, ready) in zip(devices, polled)
                where ready.revents != 0 || device.isDue(now) {
                    device.service()
                }
            }
        }
    }

    deinit { end() }

    func end() { state.withLock { $0.isOver = true } }

    /// Each device sends so many more messages.
    ///
    /// - Parameter interval: between two of one device; the devices are spread evenly over it.
    func send(_ count: Int, interval: Double = 0, grade: MRT.Grade = .once) {
        order { devices in
            let nanoseconds = UInt64(interval * 1e9)
            for (place, device) in devices.enumerated() {
                device.work.wanted += count
                device.work.grade = grade
                device.work.intervalNanoseconds = nanoseconds
                device.work.nextAt =
                    LineDevice.nanoseconds
                    + nanoseconds * UInt64(place) / UInt64(devices.count)
            }
        }
    }

    func setDeaf(_ isDeaf: Bool) {
        order { devices in for device in devices { device.work.isDeaf = isDeaf } }
    }

    private func order(_ order: @escaping @Sendable ([LineDevice]) -> Void) {
        state.withLock { $0.orders.append(order) }
    }

    /// - Parameter takesLatencies: the next report begins anew with them.
    func report(takesLatencies: Bool = false) async -> Report {
        await withCheckedContinuation { done in
            order { devices in
                var report = Report()
                for device in devices {
                    report.connected += device.isConnected ? 1 : 0
                    report.connectionCount += device.connectionCount
                    report.outboxFull += device.isOutboxFull ? 1 : 0
                    report.heldBack += device.isHeldBack ? 1 : 0
                    report.resolved += device.resolvedCount
                    report.refusals += device.refusals
                    report.received[device.name] = device.received
                    guard takesLatencies else { continue }
                    report.latencies += device.latencies
                    device.latencies = []
                }
                done.resume(returning: report)
            }
        }
    }

    /// Waits for something that devices show; asks in each turn of their thread.
    func wait(_ what: String, until isDone: (Report) -> Bool) async throws {
        var report = Report()
        let end = ContinuousClock.now + .seconds(100 * Sanitizer.patience)
        repeat {
            report = await self.report()
            if isDone(report) { return }
        } while ContinuousClock.now < end
        report.received = [:]
        throw TestFailure("the time passed without \(what): \(report)")
    }
}
