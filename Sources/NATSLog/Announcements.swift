// Reports of nodes, as plain messages on a subject that no stream keeps. A thread of the library
// brings them.

import CNATS
import Replication
import Threads

/// The reports that wait for a node.
final class Announcements: Sendable {
    private struct State: @unchecked Sendable {
        var waiting: [[UInt8]] = []
        var subscription: nats_subscription?
        var wake: (@Sendable () -> Void)?
    }

    private let state = Locked(State())

    /// Begins to listen. A failure leaves the node without reports, which no promise needs.
    func begin(
        _ subject: String, over connection: JetStreamConnection,
        wake: @escaping @Sendable () -> Void
    ) {
        state.withLock { $0.wake = wake }
        // The library calls until the subscription has ended, which may be after its owner's end:
        // the queue is never freed. There is one for each log.
        let context = Unmanaged.passRetained(self).toOpaque()
        var subscription: nats_subscription?
        let status = natsConnection_Subscribe(
            &subscription, connection.connection, subject,
            { _, _, message, context in
                defer { natsMsg_Destroy(message) }
                guard let message, let context else { return }
                let queue = Unmanaged<Announcements>.fromOpaque(context).takeUnretainedValue()
                queue.take(message)
            }, context)
        guard status == NATS_OK else { return }
        state.withLock { $0.subscription = subscription }
    }

    func end() {
        let subscription = state.withLock { state in
            defer { state.subscription = nil }
            return state.subscription
        }
        natsSubscription_Destroy(subscription)
    }

    private func take(_ message: nats_message) {
        guard natsMsg_GetDataLength(message) <= JetStreamLimits.announcementByteCountMaximum
        else { return }
        let bytes = JetStreamConnection.bytes(of: message)
        let wake = state.withLock { state in
            // Only the newest report of a node matters.
            if state.waiting.count >= JetStreamLimits.waitingAnnouncementMaximum {
                state.waiting.removeFirst()
            }
            state.waiting.append(bytes)
            return state.wake
        }
        wake?()
    }

    func takeFirst() -> [UInt8]? {
        state.withLock { $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }
    }
}

extension JetStreamLog: NodeLog {
    public func announce(_ report: [UInt8]) {
        // Without a connection it is lost.
        _ = natsConnection_Publish(
            connection.connection, settings.nodesSubject, report, Int32(report.count))
    }

    public func takeAnnouncement() -> [UInt8]? { announcements.takeFirst() }

    public func readState() -> LogAnswer {
        let stream: StreamDescription
        do throws(JetStreamError) {
            stream = try describe()
        } catch {
            return error == .absent(stream: settings.stream) ? .absent : .unanswered
        }
        guard stream.created == created else { return .absent }
        return .state(
            LogState(
                first: stream.first, last: stream.last, byteCount: stream.byteCount,
                byteCountMaximum: stream.byteCountMaximum,
                servers: stream.peers.map {
                    LogState.Server(
                        name: $0.name, isLeader: $0.name == stream.leader,
                        isCurrent: $0.isCurrent, lag: $0.lag)
                }))
    }
}
