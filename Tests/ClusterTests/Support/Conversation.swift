// Clients of MRT in a cluster: one of the SDK sends numbers to another one, and both remember them.

import Foundation
import MartletClient
import Synchronization

/// A client of the SDK that sends numbers, and one that receives them.
final class Conversation: Sendable {
    /// What both have seen.
    private final class Record: Sendable {
        struct State {
            var acknowledged: Set<Int> = []
            var received: Set<Int> = []
            var doubledCount = 0
            var isStopped = false
        }

        let state = Mutex(State())
    }

    private let record = Record()
    private let receiver: Client
    private let tasks: [Task<Void, Never>]

    var received: Set<Int> { record.state.withLock { $0.received } }
    var doubledCount: Int { record.state.withLock { $0.doubledCount } }
    private var acknowledgedCount: Int { record.state.withLock { $0.acknowledged.count } }

    /// The numbers in angle brackets.
    static func numbers(in text: String) -> [Int] {
        text.split(separator: "<").compactMap { Int($0.prefix { $0 != ">" }) }
    }

    /// - Parameters:
    ///   - tokens: those of the sender and of the first receiver.
    ///   - grades: of the messages, in turn.
    init(
        _ servers: String, _ tokens: [String], receivers: [String],
        grades: [Grade] = [.once]
    ) throws {
        let clients = try tokens.map { token in
            var settings = ClientSettings(
                servers: try ServerAddress.list(servers), credential: .token(token))
            settings.keepAliveSeconds = 5
            return try Client(settings)
        }
        receiver = clients[1]
        let record = record
        tasks = [
            Task {
                _ = try? await clients[1].connect()
                for await event in clients[1].events {
                    guard case .message(let message) = event,
                        case .text(let text, _) = message.content,
                        let number = Self.numbers(in: text).first
                    else { continue }
                    record.state.withLock { state in
                        if !state.received.insert(number).inserted,
                            grades[number % grades.count] == .once
                        {
                            state.doubledCount += 1
                        }
                    }
                }
            },
            Task {
                _ = try? await clients[0].connect()
                var number = 0
                while !record.state.withLock({ $0.isStopped }) {
                    number += 1
                    let sent = number
                    let message = OutgoingMessage(
                        to: .users(receivers), text: "<\(sent)>",
                        grade: grades[sent % grades.count])
                    guard (try? await clients[0].send(message)) != nil else { continue }
                    record.state.withLock { _ = $0.acknowledged.insert(sent) }
                }
                await clients[0].close()
            },
        ]
    }

    deinit { tasks.forEach { $0.cancel() } }

    /// Waits for acknowledgements from now on.
    func waitForProgress(_ cluster: TestCluster) throws {
        let before = acknowledgedCount
        // One after the other, each with a sync.
        try cluster.wait("acknowledgements", seconds: 100) {
            acknowledgedCount > before + 30 ? () : nil
        }
    }

    /// Sends no more; what was acknowledged.
    func stop() -> Set<Int> {
        record.state.withLock { state in
            state.isStopped = true
            return state.acknowledged
        }
    }

    /// Ends the connection of the receiver; that of the sender ends after ``stop()``.
    func close() {
        let receiver = receiver
        Task { await receiver.close() }
    }
}
