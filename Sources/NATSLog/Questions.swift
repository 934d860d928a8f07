// Questions that nodes ask each other about copies of their stores, as requests on a subject of
// each node. A thread of the library brings them, one after the other.

import CNATS
import Threads

/// The questions to a node.
final class Questions: Sendable {
    private struct State: @unchecked Sendable {
        var subscription: nats_subscription?
        var answer: (@Sendable ([UInt8]) -> [UInt8])?
    }

    private let state = Locked(State())

    /// Begins to answer. After a failure others get no answer, and ask another node.
    func begin(
        _ subject: String, over connection: JetStreamConnection,
        answer: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        state.withLock { $0.answer = answer }
        // As in `Announcements`: it is never freed, because the library may call later.
        let context = Unmanaged.passRetained(self).toOpaque()
        var subscription: nats_subscription?
        let status = natsConnection_Subscribe(
            &subscription, connection.connection, subject,
            { connection, _, message, context in
                defer { natsMsg_Destroy(message) }
                guard let connection, let message, let context else { return }
                Unmanaged<Questions>.fromOpaque(context).takeUnretainedValue()
                    .take(message, from: connection)
            }, context)
        guard status == NATS_OK else { return }
        state.withLock { $0.subscription = subscription }
    }

    func end() {
        let subscription = state.withLock { state in
            defer { state = State() }
            return state.subscription
        }
        natsSubscription_Destroy(subscription)
    }

    private func take(_ message: nats_message, from connection: nats_connection) {
        guard let reply = natsMsg_GetReply(message),
            natsMsg_GetDataLength(message) <= JetStreamLimits.copyQuestionByteCountMaximum,
            let answer = state.withLock({ $0.answer })
        else { return }
        let bytes = answer(JetStreamConnection.bytes(of: message))
        // Without a connection it is lost, and the question comes again.
        _ = natsConnection_Publish(connection, reply, bytes, Int32(bytes.count))
    }
}

extension JetStreamLog {
    public func answerQuestions(
        to life: UInt64, _ answer: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        questions.begin(settings.copiesSubject(of: life), over: connection, answer: answer)
    }

    public func ask(_ life: UInt64, _ question: [UInt8]) -> [UInt8]? {
        var reply: nats_message?
        let status = nats_request(
            &reply, connection.connection, settings.copiesSubject(of: life), question,
            Int32(question.count), JetStreamLimits.copyMilliseconds)
        defer { natsMsg_Destroy(reply) }
        guard status == NATS_OK, let reply else { return nil }
        return JetStreamConnection.bytes(of: reply)
    }
}
