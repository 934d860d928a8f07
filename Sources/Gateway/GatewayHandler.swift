// The loop's side of the gateway: lines on one side, the broker on the other, and the channels that
// join them. A device is taken only while the broker is there, so that it never believes in a
// connection that nobody has; what is acknowledged, the broker or the device has acknowledged.

import ClientCore
import NetTransport
import Primitives
import WireFormat

/// Carries devices' conversations between their lines and the broker.
struct GatewayHandler: LoopHandler, ~Copyable {
    private let settings: GatewaySettings
    private let log: GatewayLog
    private var uplink: Uplink
    private let lookup = NameLookup()
    private var connection: ConnectionID?
    private var isUplinkOpen = false
    /// The broker's name is being looked up, to connect to it then.
    private var isDialing = false
    private var lines: [Line]
    private var lineOf: [ConnectionID: Int] = [:]
    /// Lines by the number of their channel.
    private var channels: [UInt32: Int] = [:]
    /// Channels whose device was lost before the broker had answered.
    private var abandoned: Set<UInt32> = []
    private var nextChannel: UInt32 = 1
    /// Set when there is no use in going on.
    private(set) var failure: String?
    private var isStarted = false
    private var isStopping = false

    init(_ settings: GatewaySettings, _ log: GatewayLog) {
        self.settings = settings
        self.log = log
        uplink = Uplink(settings)
        lines = settings.lines.map(Line.init)
    }

    // MARK: - The loop's calls

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        if connection == self.connection {
            isUplinkOpen = true
            uplink.machine.opened(now: loop.now)
        } else if let index = lineOf[connection] {
            lines[index].isOpen = true
            lines[index].isReported = false
            log.write("line_open", lines[index].settings)
        }
    }

    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        let received = bytes.bytes(in: loop.arena)
        if connection == self.connection {
            take(received, &loop)
        } else if let index = lineOf[connection] {
            lines[index].lastHeard = loop.now
            lines[index].redialMilliseconds = Line.redialMillisecondsMinimum
            for event in lines[index].link.receive(received) { handle(event, index, &loop) }
            flush(index, &loop)
        }
        return Consumption(consumed: received.count)
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {
        preconditionFailure("a gateway sets no deadline of the loop's")
    }

    mutating func closed(
        _ connection: ConnectionID, _ cause: CloseCause, in loop: inout EventLoop
    ) {
        if connection == self.connection {
            self.connection = nil
            isUplinkOpen = false
            uplink.machine.closed(now: loop.now)
        } else if let index = lineOf.removeValue(forKey: connection) {
            if lines[index].isOpen {
                log.write("line_closed", lines[index].settings)
            } else {
                reportUnavailable(index, loop.closeDetail(of: connection))
            }
            lines[index].closed(now: loop.now)
            // Whoever pulled the plug: the device is not there any more.
            detach(index, &loop)
        }
    }

    mutating func woken(in loop: inout EventLoop) {
        for (server, outcome) in lookup.takeDone() where !isStopping {
            if server == settings.server, isDialing { connect(outcome, &loop) }
            for index in lines.indices where lines[index].soughtServer == server {
                lines[index].soughtServer = nil
                open(index, &loop) { loop throws(TransportError) in
                    try loop.connect(to: try outcome.get())
                }
            }
        }
    }

    mutating func turnEnded(in loop: inout EventLoop) {
        if !isStarted {
            isStarted = true
            uplink.machine.start(now: loop.now)
        }
        uplink.machine.timePassed(now: loop.now)
        service(&loop)
        watchLines(&loop)
        service(&loop)
        loop.nextWake = min(uplink.machine.nextDeadline, nextLineDeadline)
    }

    mutating func stopping(in loop: inout EventLoop) {
        // The gateway's own will is not sent; what its devices wanted is.
        isStopping = true
        uplink.machine.leave(now: loop.now)
        service(&loop)
        for index in lines.indices where lines[index].link.phase == .open {
            lines[index].link.close()
            flush(index, &loop)
        }
    }

    // MARK: - The broker

    private mutating func take(_ bytes: UnsafeRawBufferPointer, _ loop: inout EventLoop) {
        var offset = 0
        while offset < bytes.count, isUplinkOpen {
            let space = uplink.machine.receiveSpace()
            let count = min(space.count, bytes.count - offset)
            space.copyMemory(
                from: UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count]))
            uplink.machine.received(byteCount: count, now: loop.now)
            offset += count
            drain(&loop)
        }
    }

    /// Events of the machine, then its bytes.
    private mutating func service(_ loop: inout EventLoop) {
        drain(&loop)
        while let connection, isUplinkOpen {
            let bytes = uplink.nextBytes(now: loop.now)
            guard !bytes.isEmpty, loop.append(bytes, to: connection, .required) else { return }
        }
    }

    private mutating func drain(_ loop: inout EventLoop) {
        while let event = uplink.machine.nextEvent(now: loop.now) {
            switch event {
            case .connectionWanted: dial(&loop)
            case .connected(let connected):
                log.write("broker_connected", "server=\(settings.server)")
                uplink.connected(connected.accepted)
                for index in lines.indices where lines[index].link.phase == .asked {
                    lines[index].link.accept()
                    flush(index, &loop)
                }
            case .carried(let channel):
                // The packet is copied: it goes on while the machine reads the next one.
                deliver(Array(uplink.machine.bytes(channel.inner)), channel.channel, &loop)
            case .disconnected(let end): brokerLost(end, &loop)
            case .delivered, .groupChanged, .resolved, .answered, .credentialAnswered:
                // Mail for the gateway itself stays where it is: nobody would read it.
                break
            }
        }
    }

    private mutating func dial(_ loop: inout EventLoop) {
        isDialing = true
        lookup.begin(settings.server, waking: loop.handle)
    }

    private mutating func connect(_ outcome: NameLookup.Outcome, _ loop: inout EventLoop) {
        isDialing = false
        do throws(TransportError) {
            connection = try loop.connect(
                to: try outcome.get(), tls: settings.tls, serverName: settings.server.host)
        } catch {
            log.write("broker_unreachable", "detail=\"\(error)\"")
            uplink.machine.closed(now: loop.now)
        }
    }

    /// Without the broker no device has a connection: each is told, and begins anew.
    private mutating func brokerLost(_ end: ClientDisconnection, _ loop: inout EventLoop) {
        let reason = end.reason.map { "\($0.name)" } ?? "connection-lost"
        log.write("broker_lost", "reason=\(reason)")
        if let connection { loop.close(connection, afterFlush: false) }
        connection = nil
        isUplinkOpen = false
        isDialing = false
        channels.removeAll()
        abandoned.removeAll()
        for index in lines.indices {
            lines[index].channel = nil
            lines[index].ghost = nil
            lines[index].conversation = NodeConversation()
            guard lines[index].link.phase == .open else { continue }
            lines[index].link.close()
            flush(index, &loop)
        }
        if end.retryAt == nil, !isStopping {
            failure = "the broker does not want this gateway: \(reason)"
            loop.handle.requestStop()
        }
    }

    /// A packet of the broker's for a device.
    private mutating func deliver(_ packet: [UInt8], _ channel: UInt32, _ loop: inout EventLoop) {
        if abandoned.remove(channel) != nil {
            // A channel that was refused is over; one that was let in has lost its device
            // meanwhile.
            var conversation = NodeConversation()
            if packet.withUnsafeBytes({ conversation.passed($0) }) { sendLoss(channel, &loop) }
            return
        }
        guard let index = channels[channel] else { return }
        guard lines[index].channel == channel else {
            // A ghost's: only its end is of interest.
            var ghost = NodeConversation()
            if !packet.withUnsafeBytes({ ghost.passed($0) }) {
                channels[channel] = nil
                lines[index].ghost = nil
            }
            return
        }
        lines[index].link.send(packet)
        if packet.withUnsafeBytes({ lines[index].conversation.passed($0) }) {
            lines[index].silenceMillisecondsMaximum =
                lines[index].conversation.silenceMillisecondsMaximum
            forward(index, &loop)
        } else {
            channels[channel] = nil
            lines[index].channel = nil
            lines[index].conversation = NodeConversation()
        }
        flush(index, &loop)
    }

    private mutating func send(_ packet: [UInt8], _ channel: UInt32, _ loop: inout EventLoop) {
        guard let connection, isUplinkOpen else { return }
        Uplink.wrap(packet, channel: channel).withUnsafeBytes {
            // Where it is not taken the connection is closing, and `closed` follows.
            _ = loop.append($0, to: connection, .required)
        }
    }

    private mutating func sendLoss(_ channel: UInt32, _ loop: inout EventLoop) {
        send(Uplink.loss, channel, &loop)
    }

    // MARK: - Devices

    private mutating func handle(
        _ event: SerialLink.Event, _ index: Int, _ loop: inout EventLoop
    ) {
        switch event {
        case .asked:
            leaveGhost(index)
            if uplink.machine.isConnected { lines[index].link.accept() }
        case .received(let bytes):
            lines[index].conversation.append(bytes)
            forward(index, &loop)
        case .lost:
            log.write("line_broken", lines[index].settings)
            leaveGhost(index)
        }
    }

    /// The device's connection is over, and the device may be back in a moment: its CONNECT then
    /// says by its cookie that it is the same one, or that it has lost its memory.
    private mutating func leaveGhost(_ index: Int) {
        if let channel = lines[index].channel {
            if lines[index].conversation.phase == .awaitingAnswer {
                abandon(channel)
            } else {
                lines[index].ghost = channel
            }
        }
        lines[index].channel = nil
        lines[index].conversation = NodeConversation()
    }

    /// Before CONNACK nothing may be said on a channel: what is to be said is said then.
    private mutating func abandon(_ channel: UInt32) {
        channels[channel] = nil
        abandoned.insert(channel)
    }

    /// Passes on what the device has said.
    private mutating func forward(_ index: Int, _ loop: inout EventLoop) {
        while let step = lines[index].conversation.next(
            user: lines[index].user, packetMaximum: uplink.packetMaximum)
        {
            guard case .packet(let packet) = step else {
                log.write("device_faulty", lines[index].settings)
                lines[index].link.close()
                detach(index, &loop)
                return
            }
            if lines[index].channel == nil {
                lines[index].channel = nextChannel
                channels[nextChannel] = index
                nextChannel &+= 1
            }
            send(packet, lines[index].channel!, &loop)
        }
    }

    /// The device is lost, and the broker is told: its will is sent.
    private mutating func detach(_ index: Int, _ loop: inout EventLoop) {
        leaveGhost(index)
        if let ghost = lines[index].ghost, channels.removeValue(forKey: ghost) != nil {
            sendLoss(ghost, &loop)
        }
        lines[index].ghost = nil
    }

    // MARK: - Lines

    /// Opens lines and finds silent devices.
    private mutating func watchLines(_ loop: inout EventLoop) {
        // A line that were opened now would keep the loop from ending.
        guard !isStopping else { return }
        for index in lines.indices where lines[index].nextDeadline <= loop.now {
            if lines[index].connection == nil {
                open(index, &loop)
            } else {
                log.write("device_silent", lines[index].settings)
                lines[index].link.close()
                flush(index, &loop)
                detach(index, &loop)
            }
        }
    }

    private mutating func open(_ index: Int, _ loop: inout EventLoop) {
        switch lines[index].settings.endpoint {
        case .tcp(let server):
            lines[index].soughtServer = server
            lookup.begin(server, waking: loop.handle)
        case .terminal(let path, let baud):
            open(index, &loop) { loop throws(TransportError) in
                try loop.adopt(socket: try Terminal.open(path, baud: baud))
            }
        }
    }

    private mutating func open(
        _ index: Int, _ loop: inout EventLoop,
        _ body: (inout EventLoop) throws(TransportError) -> ConnectionID
    ) {
        do throws(TransportError) {
            let connection = try body(&loop)
            lines[index].connection = connection
            lineOf[connection] = index
        } catch {
            reportUnavailable(index, "\(error)")
            lines[index].closed(now: loop.now)
        }
    }

    /// Once, until the line was open again.
    private mutating func reportUnavailable(_ index: Int, _ detail: String) {
        guard !lines[index].isReported else { return }
        log.write("line_unavailable", lines[index].settings, "detail=\"\(detail)\"")
        lines[index].isReported = true
    }

    private mutating func flush(_ index: Int, _ loop: inout EventLoop) {
        let bytes = lines[index].link.takeOutgoing()
        guard !bytes.isEmpty, let connection = lines[index].connection else { return }
        // A line that takes nothing for 8 MiB is closed, and `closed` follows.
        _ = bytes.withUnsafeBytes { loop.append($0, to: connection, .required) }
    }

    private var nextLineDeadline: Instant {
        lines.reduce(.never) { min($0, $1.nextDeadline) }
    }
}
