// Senders and receivers that can run for hours: their memory does not grow with the number of
// messages.

import Foundation
import MartletClient
import Synchronization
import TestSurroundings
import class Threads.Locked

/// Numbered messages from one sender to one address, at a pace.
final class SoakStream: Sendable {
    let name: String
    let target: Destination
    let grade: Grade
    private let pauseSeconds: Double
    private let acknowledgedCount = Atomic(0)
    private let isOver = Atomic(false)

    init(_ name: String, to target: Destination, _ grade: Grade, perSecond rate: Double) {
        (self.name, self.target, self.grade, pauseSeconds) = (name, target, grade, 1 / rate)
    }

    /// All up to this number were acknowledged with reason 1.
    var acknowledged: Int { acknowledgedCount.load(ordering: .relaxed) }

    func run(_ client: Client) async throws {
        var number = 0
        while !isOver.load(ordering: .relaxed) {
            number += 1
            let text = "\(name) \(number) \(DispatchTime.now().uptimeNanoseconds)"
            try await client.send(OutgoingMessage(to: target, text: text, grade: grade))
            acknowledgedCount.store(number, ordering: .relaxed)
            await Deadline(seconds: pauseSeconds).wait()
        }
    }

    func end() { isOver.store(true, ordering: .relaxed) }
}

/// A device that receives, and holds the broker to its promises.
final class SoakReceiver: Sendable {
    private struct State {
        var record: InboxRecord?
        var client: Client?
        var reader: Task<Void, Never>?
        /// The highest number of each event stream.
        var numbers: [Substring: Int] = [:]
        var violations: [String] = []
        var markedCount = 0
        /// From send to delivery, since somebody asked.
        var milliseconds: [Double] = []
        var wills: Set<Int> = []
        /// Comings and goings, the latest last.
        var contacts: [String] = []
    }

    let user: String
    private let settings: ClientSettings
    private let state = Locked(State())

    init(_ user: String, _ settings: ClientSettings) {
        (self.user, self.settings) = (user, settings)
    }

    /// Comes, or comes back with the record of what it took.
    func open() async throws {
        var settings = settings
        settings.acknowledgement = .byApplication
        settings.inbox = state.withLock { $0.record }
        let client = try await connected(Client(settings))
        let reader = Task { [self] in
            for await event in client.events {
                switch event {
                case .message(let message):
                    take(message)
                    client.acknowledge(message)
                case .connected: note("connected")
                case .disconnected(let end): note("\(end)")
                default: note("\(event)")
                }
            }
            note("ended: \(String(describing: client.stopReason))")
        }
        state.withLock { ($0.client, $0.reader) = (client, reader) }
    }

    func close() async {
        let (client, reader) = state.withLock { state in
            defer { (state.client, state.reader) = (nil, nil) }
            return (state.client, state.reader)
        }
        await client?.close()
        await reader?.value
    }

    private func note(_ contact: String) {
        state.withLock { state in
            state.contacts.append("\(Date.now.formatted(.iso8601)) \(contact)")
            if state.contacts.count > 20 { state.contacts.removeFirst() }
        }
    }

    /// What it has of an event stream, and how it got there.
    func account(of stream: SoakStream) -> String {
        state.withLock { state in
            "\(user) has \(state.numbers[stream.name[...], default: 0]) of \(stream.acknowledged), "
                + "\(state.violations), \(state.contacts)"
        }
    }

    var client: Client? { state.withLock { $0.client } }
    var violations: [String] { state.withLock { $0.violations.unshared } }
    var markedCount: Int { state.withLock { $0.markedCount } }
    /// Numbers of the wills that came.
    var wills: Set<Int> { state.withLock { $0.wills.unshared } }

    func has(_ stream: SoakStream) -> Bool {
        state.withLock { $0.numbers[stream.name[...], default: 0] >= stream.acknowledged }
    }

    /// Those since the last call.
    func takeLatencies() -> [Double] {
        state.withLock { state in
            defer { state.milliseconds.removeAll(keepingCapacity: true) }
            return state.milliseconds
        }
    }

    private func take(_ message: IncomingMessage) {
        let now = DispatchTime.now().uptimeNanoseconds
        let words = message.content.words
        state.withLock { state in
            if let record = message.record { state.record = record }
            if words.count == 2, words[0] == "will", let number = Int(words[1]) {
                let isNew = state.wills.insert(number).inserted
                if !isNew { state.violations.append("will \(number) twice") }
                return
            }
            guard words.count == 3, let number = Int(words[1]), let sent = UInt64(words[2]) else {
                return
            }
            let last = state.numbers[words[0], default: 0]
            if number == last + 1 {
                state.numbers[words[0]] = number
                state.milliseconds.append(Double(now - sent) / 1e6)
            } else if number <= last, message.isPossibleDuplicate, message.grade == .durable {
                state.markedCount += 1
            } else {
                state.violations.append("\(words[0]) \(number) after \(last)")
            }
        }
    }
}

extension MessageContent {
    fileprivate var words: [Substring] {
        switch self {
        case .text(let text, _): Array(text.split(separator: " "))
        case .bytes(let bytes): Array(String(decoding: bytes, as: UTF8.self).split(separator: " "))
        }
    }
}
