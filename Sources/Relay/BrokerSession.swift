// The relay's session with the broker: the client of the SDK, whose events become inputs of the
// relay's thread, and the subscriptions and groups that it needs.

import ClientProgram
import MartletClient
import Threads

/// What the relay's thread is told.
package enum RelayInput: Sendable {
    case connected(ConnectionTerms)
    case disconnected(Disconnection)
    case message(IncomingMessage)
    /// Transient messages that were lost, because they came too fast.
    case dropped(Int)
    /// The broker has confirmed this many subscriptions and groups.
    case subscribed(count: Int)
    case subscriptionRefused(name: String, ReasonCode)
    /// Subscriptions of an earlier run have ended.
    case unsubscribed
    /// The broker refuses the login permanently, or ended the session.
    case stopped(String)
    /// The broker refused what the relay had sent.
    case sendRefused(messageID: String?)
    case drain
    /// Somebody asks for the counters.
    case totals
}

/// The inputs, from other threads to the relay's.
package final class InputQueue: Sendable {
    private struct State {
        var inputs: [RelayInput] = []
        var transientCount = 0
        var droppedCount = 0
    }

    private let waker: RelayWaker
    private let state = Locked(State())

    package init(_ waker: RelayWaker) {
        self.waker = waker
    }

    /// Adds one. The inbox window bounds numbered messages, and a limit of its own the others.
    package func put(_ input: RelayInput) {
        state.withLock { state in
            if case .message(let message) = input, message.record == nil {
                guard state.transientCount < RelayLimits.transientWaitingMaximum else {
                    state.droppedCount += 1
                    return
                }
                state.transientCount += 1
            }
            state.inputs.append(input)
        }
        waker.wake()
    }

    package func takeAll() -> [RelayInput] {
        state.withLock { state in
            var inputs: [RelayInput] = []
            swap(&inputs, &state.inputs)
            if state.droppedCount > 0 { inputs.append(.dropped(state.droppedCount)) }
            state.transientCount = 0
            state.droppedCount = 0
            return inputs
        }
    }
}

/// A subscription, or membership in a group.
package enum BrokerWant: Hashable, Sendable {
    case filter(String)
    case group(String)

    /// In a line of the log.
    var name: String {
        switch self {
        case .filter(let filter): "filter=\(quoted(filter.utf8))"
        case .group(let group): "group=\(quoted(group.utf8))"
        }
    }
}

package struct BrokerSession: Sendable {
    package let client: Client
    private let inputs: InputQueue

    package init(
        _ settings: RelaySettings, position: InboxRecord?, inputs: InputQueue
    ) throws(MartletError) {
        client = try Client(settings.clientSettings(position: position))
        self.inputs = inputs
    }

    /// Logs in, and stays logged in.
    ///
    /// - Parameter obsolete: filters of an earlier run.
    package func start(wants: [BrokerWant], obsolete: [String]) {
        Task { await receive() }
        Task {
            do throws(MartletError) {
                try await client.connect()
            } catch {
                return inputs.put(.stopped("\(error)"))
            }
            await subscribe(wants)
            await unsubscribe(obsolete)
        }
    }

    private func receive() async {
        for await event in client.events {
            switch event {
            case .connected(let terms): inputs.put(.connected(terms))
            case .disconnected(let end): inputs.put(.disconnected(end))
            case .message(let message): inputs.put(.message(message))
            case .transientDropped(let count): inputs.put(.dropped(count))
            case .subscriptionLost(let filter, let reason):
                inputs.put(.subscriptionRefused(name: BrokerWant.filter(filter).name, reason))
                Task { await subscribe([.filter(filter)]) }
            case .transientRefused(_, let messageID):
                inputs.put(.sendRefused(messageID: messageID))
            case .willLost: break
            }
        }
        inputs.put(.stopped(client.stopReason.map { $0.explanation } ?? "the client is closed"))
    }

    /// Asks for everything, and again for what is refused.
    private func subscribe(_ wants: [BrokerWant]) async {
        var open = wants
        var wait = RelayLimits.subscriptionRetrySecondsMinimum
        while !open.isEmpty {
            var refused: [BrokerWant] = []
            for want in open {
                do throws(MartletError) {
                    switch want {
                    case .filter(let filter): try await client.subscribe(to: filter, grade: .once)
                    case .group(let group): try await client.joinGroup(group)
                    }
                } catch {
                    guard case .refused(let reason, _) = error else { return }
                    inputs.put(.subscriptionRefused(name: want.name, reason))
                    refused.append(want)
                }
            }
            inputs.put(.subscribed(count: open.count - refused.count))
            open = refused
            guard !open.isEmpty, (try? await Task.sleep(for: .seconds(wait))) != nil else { return }
            wait = min(2 * wait, RelayLimits.subscriptionRetrySecondsMaximum)
        }
    }

    private func unsubscribe(_ filters: [String]) async {
        guard !filters.isEmpty else { return }
        for filter in filters {
            do throws(MartletError) {
                try await client.unsubscribe(from: filter)
            } catch {
                // The next start asks again.
                return
            }
        }
        inputs.put(.unsubscribed)
    }

    /// Messages up to this one are delivered, or in the record.
    package func acknowledge(_ record: InboxRecord) {
        client.acknowledge(
            IncomingMessage(
                kind: .unicast, from: "", time: 0, content: .bytes([]), record: record))
    }

    /// Disconnects; returns when the acknowledgements are sent, or after some seconds.
    package func close() {
        let end = WakeSignal()
        Task {
            await client.close()
            end.notify()
        }
        _ = end.wait()
    }
}
