// Clients that do more than stay connected: groups are created and joined, sessions are cut,
// clients disconnect and return, devices sleep, readers stall.

import NetTransport
import Primitives
import WireFormat

extension LoadDriver {
    // MARK: - Beginnings

    /// All are connected and the load begins.
    mutating func beginLives(at now: UInt64, in loop: inout EventLoop) {
        switch plan.scenario {
        case .churn:
            for client in 0..<plan.clientCount { sendToSelf(client, at: now, in: &loop) }
        case .sleepy:
            for device in 0..<plan.receiverCount { leave(device, in: &loop) }
        case .slow:
            for client in 0..<plan.receiverCount where isStalledReader(client) {
                loop.pauseReading(clients[client].connection)
            }
        case .fanOut, .unicast, .fanIn, .broadcast, .group, .connect, .offline, .will, .floor:
            break
        }
    }

    /// A request was granted: a subscription, a will, or the group, whose id is the answer.
    mutating func wasGranted(
        _ client: Int, _ content: [UInt8], at now: UInt64, in loop: inout EventLoop
    ) {
        guard clients[client].phase == .subscribing else { return }
        if plan.scenario == .group, !plan.isReceiver(client) {
            guard 1...WireLimits.identifierByteCountMaximum ~= content.count else {
                fail("the broker answered with what is no group's name")
                return
            }
            group = content
            for source in sources { source.bytes.deallocate() }
            sources = [
                OutgoingSource(
                    .group, address: group, payloadByteCount: plan.payloadByteCount)
            ]
        }
        becameReady(client, at: now, in: &loop)
    }

    /// A client has returned during the load.
    mutating func resumedLife(_ client: Int, at now: UInt64, in loop: inout EventLoop) {
        switch plan.scenario {
        case .churn:
            if stage == .settling {
                leave(client, in: &loop)
            } else {
                sendToSelf(client, at: now, in: &loop)
            }
        case .sleepy:
            clients[client].goal = publishers[0].nextSequence
            burstEnded(of: client, at: now, in: &loop)
        case .fanOut, .unicast, .fanIn, .broadcast, .group, .connect, .offline, .will, .slow,
            .floor:
            break
        }
    }

    /// Everything that arrived together has been read and acknowledged.
    mutating func burstEnded(of client: Int, at now: UInt64, in loop: inout EventLoop) {
        guard plan.scenario.reconnects, clients[client].phase == .ready else { return }
        switch stage {
        case .warmingUp, .measuring, .settling: break
        case .connecting, .leaving, .enqueuing, .returning, .cutting, .holding, .disconnecting,
            .finished:
            return
        }
        if plan.scenario == .churn {
            guard publishers[client].inFlight == 0 else { return }
            record(client, at: now)
            clients[client].phase = .leaving
            loop.close(clients[client].connection, afterFlush: false)
        } else if plan.isReceiver(client),
            sequences.next(row: sequenceRow(client, 0)) >= clients[client].goal
        {
            record(client, at: now)
            leave(client, in: &loop)
        }
    }

    /// The cycle of one client, from its scheduled start.
    private mutating func record(_ client: Int, at now: UInt64) {
        guard stage == .measuring else { return }
        tally.lives += 1
        recentLatencies.record(now - min(now, clients[client].since))
    }

    /// Sends DISCONNECT and closes the connection.
    private mutating func leave(_ client: Int, in loop: inout EventLoop) {
        let connection = clients[client].connection
        if let mqtt {
            mqtt.writeDisconnect(to: connection, in: &loop)
        } else {
            MRTCodec.writeDisconnect(to: connection, in: &loop)
        }
        clients[client].phase = .leaving
        loop.close(connection, afterFlush: true)
    }

    /// The harness was interrupted: connected clients send DISCONNECT, and the others close.
    mutating func disconnectAll(at now: UInt64, in loop: inout EventLoop) {
        if let reason = Interruption.reason { end(reason, with: .disconnecting, at: now) }
        for client in clients.indices {
            switch clients[client].phase {
            case .absent, .queued, .leaving: break
            case .connecting: loop.close(clients[client].connection, afterFlush: false)
            case .introduced, .subscribing:
                connectsUnderWay -= 1
                readyCount += 1
                leave(client, in: &loop)
            case .ready: leave(client, in: &loop)
            }
        }
    }

    /// A connection that this side closed has ended.
    mutating func hasLeft(_ client: Int) {
        guard plan.scenario == .churn, stage == .warmingUp || stage == .measuring else { return }
        clients[client].phase = .queued
        clients[client].since = monotonicNanoseconds()
        reconnects.append(UInt32(client))
    }

    // MARK: - Churn

    private mutating func sendToSelf(_ client: Int, at now: UInt64, in loop: inout EventLoop) {
        awaited[awaitedIndex(client, publishers[client].nextSequence)] = receiptsPerMessage
        publishers[client].inFlight = 1
        send(client, intended: now, in: &loop)
    }

    // MARK: - Devices that sleep

    /// Waking number k of all devices together is due k parts of a period after the start, so that
    /// they come evenly, and each after the same time.
    mutating func wakeDevices(at now: UInt64) {
        let step = plan.sleepSeconds * 1e9 / Double(plan.receiverCount)
        while true {
            let due = paceStart + UInt64(Double(wakesDue + 1) * step)
            guard due <= now else { return }
            let device = Int(wakesDue % UInt64(plan.receiverCount))
            wakesDue += 1
            guard clients[device].phase == .absent else {
                tally.wakesMissed += 1
                continue
            }
            clients[device].phase = .queued
            clients[device].since = due
            reconnects.append(UInt32(device))
        }
    }

    // MARK: - Wills

    /// All connections that have a will, within one turn and without a word.
    mutating func cutSessions(in loop: inout EventLoop) {
        for publisher in 0..<plan.publisherCount {
            let client = plan.client(ofPublisher: publisher)
            publishers[publisher].nextSequence = 1
            clients[client].phase = .leaving
            loop.close(clients[client].connection, afterFlush: false)
        }
    }

    /// The one message of a publisher of `will`: it stays until its connection is lost.
    func will(of publisher: Int) -> OutgoingSource {
        let source = OutgoingSource(
            .topic, address: Array(plan.topic(ofPair: publisher).utf8),
            payloadByteCount: plan.payloadByteCount)
        source.stamp(Stamp(publisher: UInt32(publisher), sequence: 0, nanoseconds: 0))
        return source
    }

    // MARK: - Readers that stall

    mutating func letStalledRead(in loop: inout EventLoop) {
        for client in 0..<plan.receiverCount where isStalledReader(client) {
            loop.resumeReading(clients[client].connection)
        }
    }
}
