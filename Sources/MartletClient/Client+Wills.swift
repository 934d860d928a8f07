// The will: a message that the broker sends when this client is lost.

import Primitives
import WireFormat

extension Client {
    /// Leaves a message with the broker, which sends it, with grade *once* and in this user's name,
    /// if the connection is lost and this client is not back in time. The last one set counts.
    /// ``close(endingSession:)`` removes it.
    ///
    /// A will that was sent is used up; when this client is connected again, it sets it again by
    /// itself, for as long as it lives.
    ///
    /// - Parameters:
    ///   - destination: who gets it.
    ///   - content: at most 4,096 bytes.
    ///   - delaySeconds: how long the client may be away without it being sent.
    /// - Throws: ``MartletError/refused(_:_:)`` where a send to this destination would be refused.
    public func setWill(
        to destination: Destination, _ content: MessageContent, delaySeconds: UInt32 = 0
    ) async throws(MartletError) {
        _ = try await request(.will(to: destination, content, delaySeconds: delaySeconds))
    }

    /// Removes the will; returns when the broker has forgotten it.
    public func clearWill() async throws(MartletError) {
        _ = try await request(ClientRequest(operation: .clearWill, parameters: []))
    }
}

extension ClientRequest {
    static func will(
        to destination: Destination, _ content: MessageContent, delaySeconds: UInt32
    ) throws(MartletError) -> ClientRequest {
        let message = try EncodedSend(OutgoingMessage(to: destination, content, grade: .once))
        let part = MRT.Will(
            delaySeconds: delaySeconds, target: message.packet.target,
            isRaw: message.packet.isRaw, payload: message.packet.payload)
        return ClientRequest(.setWill, part: part, source: message.bytes)
    }
}
