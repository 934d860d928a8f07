// The gateway as a value: bytes of lines and of the broker and the time go in; bytes for both and
// effects come out. It opens no socket and reads no clock. A device's connection is accepted only
// while the broker is connected, so that a device never has a connection that leads nowhere. Only
// the broker and the devices acknowledge messages.
//
// All lines share one connection to the broker. Each has a bounded buffer, and lines with input
// take turns: a turn is one frame, or one packet of it. While too many bytes wait for the broker no
// line has a turn, the buffers fill, and lines are not read. A device is therefore slowed down by
// its own buffer and never by another one's.

import BrokerTerms
import ClientCore
import MartletClient
import Primitives
import WireFormat

/// The effects that the program around a gateway's machine must carry out.
package enum GatewayEffect: Equatable {
    /// Connect to the broker; `uplinkOpened` or `uplinkClosed` follows.
    case dial
    /// Close the connection to the broker. The machine needs no event about its end.
    case hangUp
    /// Open a line; `lineOpened` or `lineClosed` follows.
    case open(Int)
    /// Pass the last bytes to a line and close it. The machine needs no event about its end.
    case close(Int, last: [UInt8])
    /// Stop reading a line, until `resume`.
    case pause(Int)
    case resume(Int)
    /// A line for the log.
    case log(String)
    /// The gateway cannot continue, for this reason.
    case fail(String)
}

/// Carries the packets of devices between their lines and the broker.
package struct GatewayMachine: ~Copyable {
    let settings: GatewaySettings
    var uplink: Uplink
    var lines: [Line]
    /// The line of each channel at the broker.
    var channels: [UInt32: Int] = [:]
    private var lastChannel: UInt32 = 0
    /// Lines that may have input, in the order of their turns.
    private var ready = Ring<Int>()
    /// Lines whose devices' CONNECT waits for a free channel.
    private var awaitingChannel: Set<Int> = []
    /// Lines with outgoing bytes.
    private(set) var speaking: [Int] = []
    /// Bytes that wait for lines.
    var backlogByteCount = 0
    /// Bytes for the broker.
    private(set) var outgoing: [UInt8] = []
    var effects: [GatewayEffect] = []
    var totals = GatewayTotals()
    private var isStopping = false
    private var isLoggedIn = false
    /// Why the connection to the broker ended; empty if the machine knows the reason.
    private var uplinkDetail = ""
    /// The fields of the log line about the last failure of each server; empty after a login.
    private var failuresReported: [String]

    package init(_ settings: GatewaySettings, jitterSeed: UInt64, outboxEpoch: UInt64) {
        self.settings = settings
        uplink = Uplink(settings, jitterSeed: jitterSeed, outboxEpoch: outboxEpoch)
        lines = settings.lines.map(Line.init)
        failuresReported = settings.servers.map { _ in "" }
    }

    package mutating func takeEffects() -> [GatewayEffect] {
        defer { effects = [] }
        return effects
    }

    // MARK: - The broker

    /// The address of the broker for the present or the next connection.
    var server: ServerAddress { settings.servers[uplink.machine.server] }

    package mutating func start(now: Instant) { uplink.machine.start(now: now) }

    package mutating func uplinkOpened(now: Instant) { uplink.machine.opened(now: now) }

    /// The connection to the broker could not be opened, or ended.
    package mutating func uplinkClosed(_ detail: String, now: Instant) {
        uplinkDetail = detail
        uplink.machine.closed(now: now)
        drain(now)
    }

    package mutating func uplinkReceived(_ bytes: UnsafeRawBufferPointer, now: Instant) {
        var offset = 0
        while offset < bytes.count {
            let space = uplink.machine.receiveSpace()
            let count = min(space.count, bytes.count - offset)
            guard count > 0 else { return }
            space.copyMemory(
                from: UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + count]))
            uplink.machine.received(byteCount: count, now: now)
            offset += count
            drain(now)
        }
    }

    private mutating func drain(_ now: Instant) {
        while let event = uplink.machine.nextEvent(now: now) {
            switch event {
            case .connectionWanted: effects.append(.dial)
            case .connected(let connected):
                write(.brokerConnected, "server=\(server)")
                totals.brokerLogins += 1
                isLoggedIn = true
                failuresReported = settings.servers.map { _ in "" }
                uplink.connected(connected.accepted)
                for index in lines.indices where !lines[index].isRemoved {
                    lines[index].link.accept()
                    hasOutgoing(index)
                    markReady(index)
                }
            case .carried(let channel):
                // The packet is copied: it is used while the machine reads the next one.
                carry(
                    Array(uplink.machine.bytes(channel.inner)), channel: channel.channel, now: now)
            case .disconnected(let end): brokerLost(end, now)
            case .answered(let response) where response.reason.isFailure:
                // The will is the gateway's only request.
                write(.willRefused, "reason=\(response.reason.name)")
            case .delivered, .groupChanged, .resolved, .answered, .credentialAnswered:
                // Messages to the gateway itself stay in the broker: no device reads them.
                break
            }
        }
    }

    /// Without the broker no device has a connection: each is told, and connects again.
    private mutating func brokerLost(_ end: ClientDisconnection, _ now: Instant) {
        reportLoss(end)
        effects.append(.hangUp)
        outgoing.removeAll()
        endConnections()
        if end.retryAt == nil, !isStopping {
            let reason = end.reason.map { "\($0.name) (\($0.rawValue))" } ?? "no reason"
            effects.append(.fail("the broker does not want this gateway: \(reason)"))
        }
    }

    /// Logs why there is no connection: always if there was one, otherwise once for each cause,
    /// because the gateway tries again and again. The end that the gateway itself requested is
    /// no loss.
    private mutating func reportLoss(_ end: ClientDisconnection) {
        let (wasLoggedIn, detail) = (isLoggedIn, uplinkDetail)
        isLoggedIn = false
        uplinkDetail = ""
        guard !isStopping else { return }
        let named = end.reason?.redirection(uplink.machine.bytes(end.text).bytes)
        let code = end.reason.map {
            "reason=\($0.name) code=\($0.rawValue)" + (named.map { " named=\"\($0)\"" } ?? "")
        }
        if wasLoggedIn {
            let text = detail.isEmpty ? "" : " detail=\"\(detail)\""
            write(.brokerLost, (code ?? "reason=connection-lost") + text)
            return
        }
        let text = detail.isEmpty ? "no answer to the login" : detail
        let event: GatewayEvent = code == nil ? .brokerUnreachable : .brokerRefused
        let server = settings.servers[end.server]
        let fields = "server=\(server) \(code ?? "detail=\"\(text)\"")"
        guard fields != failuresReported[end.server] else { return }
        failuresReported[end.server] = fields
        write(event, fields)
    }

    /// The channels have ended: each device is told that its connection has ended.
    private mutating func endConnections() {
        channels.removeAll()
        awaitingChannel.removeAll()
        for index in lines.indices {
            lines[index].channel = nil
            lines[index].formers = []
            lines[index].conversation = NodeConversation()
            if lines[index].link.phase == .open { closeLink(index) }
            markReady(index)
        }
    }

    /// A packet of the broker for a device.
    private mutating func carry(_ packet: [UInt8], channel: UInt32, now: Instant) {
        guard let index = channels[channel] else { return }
        guard lines[index].channel == channel else {
            carryToFormer(packet, channel: channel, line: index)
            return
        }
        if isOverrun(index, by: packet) {
            guard !Self.isTransient(packet) else {
                totals.deliveriesLost += 1
                write(.lineOverrun, line: index, now: now, detail: "lost=delivery")
                return
            }
            totals.connectionsLost += 1
            write(.lineOverrun, line: index, now: now, detail: "lost=connection")
            cutLink(index)
            detach(index)
            return
        }
        let identity = lines[index].identity
        let wasConnected = lines[index].isDeviceConnected
        totals.toDevices += 1
        let verdict = packet.withUnsafeBytes {
            lines[index].conversation.passed($0, as: identity)
        }
        lines[index].silenceMillisecondsMaximum =
            lines[index].conversation.silenceMillisecondsMaximum
        if lines[index].conversation.phase == .open { lines[index].refusal = nil }
        if lines[index].isDeviceConnected, !wasConnected { totals.deviceLogins += 1 }
        switch verdict {
        case .goesOn: sendToDevice(packet, index)
        case .goesOnAs(let packet): sendToDevice(packet, index)
        case .isLast:
            sendToDevice(packet, index)
            lines[index].channel = nil
            release(channel)
        case .isRefusal(let reason, let hasOwnCredential):
            report(reason, hasOwnCredential: hasOwnCredential, line: index, now: now)
            sendToDevice(packet, index)
            lines[index].channel = nil
            release(channel)
        case .isSomebodyElse: refuse(.notAuthorized, line: index, now: now, isConnected: false)
        }
        markReady(index)
    }

    /// A packet on a channel that no device uses any more: only the state of the channel matters.
    private mutating func carryToFormer(_ packet: [UInt8], channel: UInt32, line index: Int) {
        guard let place = lines[index].formers.firstIndex(where: { $0.channel == channel })
        else { return }
        switch packet.withUnsafeBytes({ NodeConversation.answer($0) }) {
        case .end, .refused:
            lines[index].formers.remove(at: place)
            release(channel)
        case .accepted:
            // Its login was accepted after its device was lost.
            guard lines[index].formers[place].state == .abandoned else { return }
            lines[index].formers[place].state = .ending
            send(Uplink.loss, channel)
        case .other: break
        }
        markReady(index)
    }

    /// Whether more bytes would wait for a line than are allowed.
    private func isOverrun(_ index: Int, by packet: [UInt8]) -> Bool {
        let isCrowded = backlogByteCount > GatewayLimits.backlogTotalMaximum
        let maximum =
            isCrowded ? GatewayLimits.lineBacklogShare : GatewayLimits.lineBacklogMaximum
        return lines[index].link.outgoingByteCount + packet.count > maximum
    }

    private static func isTransient(_ packet: [UInt8]) -> Bool {
        packet[0] >> 4 == MRT.PacketType.deliver.rawValue
            && packet[0] & 0x03 == MRT.Grade.transient.rawValue
    }

    // MARK: - Bytes for the broker

    package mutating func takeOutgoing() -> [UInt8] {
        defer { outgoing.removeAll(keepingCapacity: true) }
        return outgoing
    }

    /// The bytes that the client machine sends, completely: no other packet may be within one of
    /// its own.
    private mutating func gatherOwnBytes(_ now: Instant) {
        while case let bytes = uplink.nextBytes(now: now), !bytes.isEmpty { outgoing += bytes }
    }

    private mutating func send(_ packet: [UInt8], _ channel: UInt32) {
        Uplink.wrap(packet, channel: channel, into: &outgoing)
    }

    // MARK: - Turns

    /// One turn: deadlines, and the turns of lines while the broker accepts more.
    ///
    /// - Parameter uplinkByteCount: bytes that wait for the broker already.
    package mutating func work(uplinkByteCount: Int, now: Instant) {
        uplink.machine.timePassed(now: now)
        drain(now)
        gatherOwnBytes(now)
        watchLines(now)
        var steps = 0
        while steps < GatewayLimits.stepsPerTurnMaximum,
            uplinkByteCount + outgoing.count < GatewayLimits.uplinkBacklogMaximum,
            !ready.isEmpty
        {
            let index = ready.removeFirst()
            steps += 1
            lines[index].isReady = false
            if step(index, now) { markReady(index) }
            unpause(index, now)
        }
        drain(now)
        gatherOwnBytes(now)
    }

    /// Whether another turn would have work now.
    package func hasWork(uplinkByteCount: Int) -> Bool {
        !ready.isEmpty && uplinkByteCount < GatewayLimits.uplinkBacklogMaximum
    }

    package var nextDeadline: Instant {
        var next = uplink.machine.nextDeadline
        for line in lines { next = min(next, line.nextDeadline) }
        return next
    }

    private mutating func markReady(_ index: Int) {
        guard !lines[index].isReady else { return }
        lines[index].isReady = true
        ready.append(index)
    }

    /// Handles one packet or one event of a line. False if there is none.
    private mutating func step(_ index: Int, _ now: Instant) -> Bool {
        let isHeld =
            lines[index].isConnectHeld || channels.count >= GatewayLimits.channelsMaximum
        let identity = lines[index].identity
        let packetMaximum = min(uplink.packetMaximum, GatewayLimits.devicePacketMaximum)
        // Without a connection, nothing of the device's stream remains.
        if lines[index].link.phase == .open {
            switch lines[index].conversation.next(
                as: identity, packetMaximum: packetMaximum, holdsConnect: isHeld)
            {
            case .packet(let packet):
                pass(packet, index)
                return true
            case .refused(let reason):
                let isConnected = lines[index].conversation.phase == .open
                refuse(reason, line: index, now: now, isConnected: isConnected)
                return true
            case .waiting:
                if !lines[index].isConnectHeld { awaitingChannel.insert(index) }
            case nil: break
            }
            guard lines[index].conversation.takesMore(isConnectHeld: isHeld) else { return false }
        }
        let event = lines[index].link.next()
        reportNoise(index, now)
        guard let event else {
            // A close may have been answered.
            hasOutgoing(index)
            return false
        }
        handle(event, line: index, now: now)
        return true
    }

    private mutating func pass(_ packet: [UInt8], _ index: Int) {
        totals.toBroker += 1
        if let channel = lines[index].channel {
            send(packet, channel)
            return
        }
        repeat { lastChannel &+= 1 } while channels[lastChannel] != nil
        lines[index].channel = lastChannel
        channels[lastChannel] = index
        send(packet, lastChannel)
    }

    /// A channel has become free.
    private mutating func release(_ channel: UInt32) {
        channels[channel] = nil
        guard channels.count < GatewayLimits.channelsMaximum else { return }
        // The first one to find it gets it, the others continue to wait.
        for index in awaitingChannel { markReady(index) }
        awaitingChannel.removeAll()
    }

    /// Logs that the broker refused a device, and what to do: once for each reason, because the
    /// device tries again and again.
    private mutating func report(
        _ reason: ReasonCode, hasOwnCredential: Bool, line index: Int, now: Instant
    ) {
        totals.devicesRefused += 1
        guard lines[index].refusal != reason else { return }
        lines[index].refusal = reason
        var detail = "reason=\(reason.name) code=\(reason.rawValue)"
        if hasOwnCredential {
            detail += " detail=\"the broker refused the device's own credential\""
        } else if reason == .notAuthorized {
            detail +=
                " detail=\"the gateway's token needs the right "
                + "attach:\(lines[index].settings.user)\""
        }
        write(.deviceRefused, line: index, now: now, detail: detail)
    }

    /// Logs bytes that were no frame: the first ones, then their number once a minute.
    private mutating func reportNoise(_ index: Int, _ now: Instant) {
        let byteCount = lines[index].link.takeNoise()
        guard byteCount > 0 else { return }
        lines[index].noiseByteCount += byteCount
        totals.noiseBytes += UInt64(byteCount)
        guard now >= lines[index].noiseReportAt else { return }
        lines[index].noiseReportAt = now.advanced(
            byMilliseconds: GatewayLimits.noisePeriodMilliseconds)
        write(
            .lineNoise, line: index, now: now,
            detail: "bytes=\(lines[index].noiseByteCount) "
                + "detail=\"bytes that are no frame: check the baud rate and the wires\"")
        lines[index].noiseByteCount = 0
    }

    private mutating func handle(_ event: SerialLink.Event, line index: Int, now: Instant) {
        switch event {
        case .asked:
            leaveGhost(index)
            if uplink.machine.isConnected { lines[index].link.accept() }
        case .received(let bytes): lines[index].conversation.append(bytes)
        case .lost:
            totals.broken += 1
            write(.lineBroken, line: index, now: now)
            leaveGhost(index)
        }
        hasOutgoing(index)
    }

    // MARK: - Devices

    /// The device's connection has ended, and the device may reconnect soon: the cookie in its
    /// CONNECT then shows whether it is the same device, or one that has lost its memory.
    private mutating func leaveGhost(_ index: Int) {
        let phase = lines[index].conversation.phase
        lines[index].conversation = NodeConversation()
        guard let channel = lines[index].channel else { return }
        lines[index].channel = nil
        if phase == .asked {
            lines[index].formers.append(Line.FormerChannel(channel: channel, state: .abandoned))
        } else {
            // The session of the previous device is not resumed.
            loseGhost(index)
            lines[index].formers.append(Line.FormerChannel(channel: channel, state: .ghost))
        }
    }

    /// Tells the broker that the device of a stale connection is lost.
    private mutating func loseGhost(_ index: Int) {
        for place in lines[index].formers.indices
        where lines[index].formers[place].state == .ghost {
            lines[index].formers[place].state = .ending
            send(Uplink.loss, lines[index].formers[place].channel)
        }
    }

    /// The device is lost, and the broker is told: its will is sent.
    mutating func detach(_ index: Int) {
        leaveGhost(index)
        loseGhost(index)
    }

    /// The device has sent a packet that is not allowed: it is told the reason, and its connection
    /// ends.
    ///
    /// - Parameter isConnected: whether the device has received its CONNACK.
    private mutating func refuse(
        _ reason: ReasonCode, line index: Int, now: Instant, isConnected: Bool
    ) {
        totals.faulty += 1
        write(.deviceFaulty, line: index, now: now, detail: "reason=\(reason.name)")
        sendToDevice(Uplink.refusal(reason, isConnected: isConnected), index)
        closeLink(index)
        detach(index)
    }

    // MARK: - Lines

    package mutating func lineOpened(_ index: Int, now: Instant) {
        lines[index].connection = .open
        lines[index].isReported = false
        write(.lineOpen, line: index, now: now)
    }

    package mutating func lineReceived(
        _ bytes: UnsafeRawBufferPointer, _ index: Int, now: Instant
    ) {
        // An answer could not be sent any more.
        guard !lines[index].isRemoved else { return }
        lines[index].heard(now: now)
        lines[index].link.append(bytes)
        markReady(index)
        guard lines[index].link.incomingByteCount > GatewayLimits.lineInputMaximum,
            !lines[index].isPaused
        else { return }
        lines[index].isPaused = true
        effects.append(.pause(index))
    }

    private mutating func unpause(_ index: Int, _ now: Instant) {
        guard lines[index].isPaused, lines[index].connection == .open,
            lines[index].link.incomingByteCount <= GatewayLimits.lineInputMaximum / 2
        else { return }
        lines[index].isPaused = false
        // No input could be received meanwhile.
        lines[index].lastHeard = now
        effects.append(.resume(index))
    }

    /// - Parameter detail: the reason why it could not be opened, or ended.
    package mutating func lineClosed(_ index: Int, _ detail: String, now: Instant) {
        if lines[index].connection == .open {
            write(.lineClosed, line: index, now: now)
        } else {
            totals.unavailable += 1
        }
        if lines[index].connection != .open, !lines[index].isReported {
            // Once, until the line opens again.
            write(.lineUnavailable, line: index, now: now, detail: "detail=\"\(detail)\"")
            lines[index].isReported = true
        }
        backlogByteCount -= lines[index].backlogNoted
        lines[index].backlogNoted = 0
        lines[index].closed(now: now)
        // The device is lost, whatever ended the line.
        detach(index)
    }

    /// Opens lines and detects silent devices.
    private mutating func watchLines(_ now: Instant) {
        // Opening a line now would keep the loop running.
        guard !isStopping else { return }
        for index in lines.indices where lines[index].nextDeadline <= now {
            if lines[index].connection == .closed {
                lines[index].connection = .opening
                effects.append(.open(index))
            } else {
                totals.silent += 1
                write(.deviceSilent, line: index, now: now)
                closeLink(index)
                detach(index)
            }
        }
    }

    private mutating func sendToDevice(_ packet: [UInt8], _ index: Int) {
        lines[index].link.send(packet)
        hasOutgoing(index)
    }

    mutating func closeLink(_ index: Int) {
        lines[index].link.close()
        hasOutgoing(index)
    }

    private mutating func cutLink(_ index: Int) {
        lines[index].link.cut()
        hasOutgoing(index)
    }

    /// Updates the line's backlog, and puts it on the list of lines with outgoing bytes.
    private mutating func hasOutgoing(_ index: Int) {
        let count = lines[index].link.outgoingByteCount
        backlogByteCount += count - lines[index].backlogNoted
        lines[index].backlogNoted = count
        guard count > 0, !lines[index].isSpeaking else { return }
        lines[index].isSpeaking = true
        speaking.append(index)
    }

    /// A line still has outgoing bytes.
    package mutating func speaks(_ index: Int) { hasOutgoing(index) }

    /// Lines with outgoing bytes, each once; ``takeOutgoing(of:atMost:)`` returns them.
    package mutating func takeSpeaking() -> [Int] {
        defer { speaking.removeAll(keepingCapacity: true) }
        for index in speaking { lines[index].isSpeaking = false }
        return speaking
    }

    /// The next bytes for a line. If some remain, the line stays on the list.
    package mutating func takeOutgoing(of index: Int, atMost maximum: Int) -> [UInt8] {
        let bytes = lines[index].link.takeOutgoing(atMost: maximum)
        hasOutgoing(index)
        return bytes
    }

    // MARK: - The end

    /// The gateway's own will is not sent; those of its devices are.
    package mutating func stop(now: Instant) {
        isStopping = true
        write(.gatewayStopping, "lines=\(lineCount)")
        logTotals()
        uplink.machine.leave(now: now)
        drain(now)
        gatherOwnBytes(now)
        endConnections()
    }

    // MARK: - The log

    private mutating func write(
        _ event: GatewayEvent, line index: Int, now: Instant, detail: String = ""
    ) {
        guard let suppressed = lines[index].log.take(now: now) else { return }
        let settings = lines[index].settings
        var fields = "user=\(settings.user)"
        if !settings.device.isEmpty { fields += " device=\(settings.device)" }
        fields += " line=\(settings.endpoint)"
        if !detail.isEmpty { fields += " \(detail)" }
        if suppressed > 0 { fields += " suppressed=\(suppressed)" }
        write(event, fields)
    }

    mutating func write(_ event: GatewayEvent, _ fields: String) {
        effects.append(.log("event=\(event.rawValue) \(fields)"))
    }
}
