// Events from the background thread to the application. It knows no connection. The inbox window
// bounds numbered messages, and limits of its own bound everything else.

import Threads

/// A queue with one reader, which may wait.
final class EventBuffer: Sendable {
    typealias Waiter = CheckedContinuation<Client.Event?, Never>

    fileprivate struct State {
        var events = FIFO<Client.Event>()
        /// Numbered messages that the application has not read.
        var numberedCount = 0
        var transientCount = 0
        var connectionEventCount = 0
        var droppedCount = 0
        var waiter: Waiter?
        /// The last numbered message that the application has read.
        var taken: InboxRecord?
        var stopReason: ReasonCode?
        var isFinished = false
    }

    private let state = Locked(State())

    /// The reason why the client stopped permanently; nil if it did not.
    var stopReason: ReasonCode? { state.withLock { $0.stopReason } }

    /// Numbered messages that wait for the application.
    var numberedCount: Int { state.withLock { $0.numberedCount } }

    // MARK: - The background thread

    func put(_ event: Client.Event) {
        let woken = state.withLock { state -> (Waiter, Client.Event)? in
            guard !state.isFinished else { return nil }
            if let waiter = state.waiter {
                state.waiter = nil
                state.noteTaken(event)
                return (waiter, event)
            }
            state.enqueue(event)
            return nil
        }
        if let (waiter, event) = woken { waiter.resume(returning: event) }
    }

    /// No more events follow; those in the buffer can still be read.
    func finish(_ reason: ReasonCode? = nil) {
        let waiter = state.withLock { state -> Waiter? in
            guard !state.isFinished else { return nil }
            state.isFinished = true
            state.stopReason = reason
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume(returning: nil)
    }

    // MARK: - The application

    /// The record of the message that was read last, once.
    func takeRecord() -> InboxRecord? {
        state.withLock { state in
            defer { state.taken = nil }
            return state.taken
        }
    }

    /// The next event if there is one now.
    func takeNext() -> Client.Event? { state.withLock { $0.dequeue() } }

    /// The next event, as soon as there is one; nil at the end.
    func next() async -> Client.Event? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let outcome: Client.Event?? = state.withLock { state in
                    if let event = state.dequeue() { return .some(event) }
                    if state.isFinished || Task.isCancelled { return .some(nil) }
                    precondition(
                        state.waiter == nil,
                        "a second task reads the events of a client, \(state.numberedCount) wait")
                    state.waiter = continuation
                    return nil
                }
                if let outcome { continuation.resume(returning: outcome) }
            }
        } onCancel: {
            let waiter = state.withLock { state in
                defer { state.waiter = nil }
                return state.waiter
            }
            waiter?.resume(returning: nil)
        }
    }
}

extension EventBuffer.State {
    mutating func enqueue(_ event: Client.Event) {
        switch event {
        case .message(let message) where message.record == nil:
            guard transientCount < ClientBounds.transientBufferMaximum else {
                droppedCount += 1
                return
            }
            transientCount += 1
        case .transientRefused, .transientDropped:
            guard transientCount < ClientBounds.transientBufferMaximum else { return }
            transientCount += 1
        case .connected, .disconnected:
            // The newest event has the present state, so the oldest is dropped.
            if connectionEventCount == ClientBounds.connectionEventsMaximum {
                _ = events.remove { $0.isOfConnection }
            } else {
                connectionEventCount += 1
            }
        case .message: numberedCount += 1
        case .subscriptionLost, .willLost: break
        }
        events.append(event)
    }

    mutating func dequeue() -> Client.Event? {
        guard let event = events.popFirst() else { return nil }
        switch event {
        case .message(let message) where message.record == nil: transientCount -= 1
        case .transientRefused, .transientDropped: transientCount -= 1
        case .connected, .disconnected: connectionEventCount -= 1
        case .message: numberedCount -= 1
        case .subscriptionLost, .willLost: break
        }
        if droppedCount > 0, transientCount < ClientBounds.transientBufferMaximum {
            enqueue(.transientDropped(count: droppedCount))
            droppedCount = 0
        }
        noteTaken(event)
        return event
    }

    mutating func noteTaken(_ event: Client.Event) {
        if case .message(let message) = event, let record = message.record { taken = record }
    }
}

extension Client.Event {
    fileprivate var isOfConnection: Bool {
        switch self {
        case .connected, .disconnected: true
        case .message, .transientRefused, .transientDropped, .subscriptionLost, .willLost: false
        }
    }
}

/// First in, first out.
struct FIFO<Element> {
    private var elements: [Element?] = []
    private var head = 0

    var count: Int { elements.count - head }
    var isEmpty: Bool { count == 0 }
    var first: Element? { isEmpty ? nil : elements[head] }

    mutating func append(_ element: Element) { elements.append(element) }

    mutating func popFirst() -> Element? {
        guard !isEmpty else { return nil }
        let element = elements[head]
        elements[head] = nil
        head += 1
        // Memory of removed elements is freed when it is half of the total.
        if head * 2 > elements.count {
            elements.removeFirst(head)
            head = 0
        }
        return element
    }

    /// Removes the first element for which `isWanted` returns true.
    mutating func remove(where isWanted: (Element) -> Bool) -> Element? {
        for index in head..<elements.count where isWanted(elements[index]!) {
            return elements.remove(at: index)
        }
        return nil
    }
}
