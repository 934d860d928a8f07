// The will: a message that the broker sends when this client is lost.

import Primitives
import WireFormat

extension Client {
    /// Sets a message that the broker sends, with grade *once* and in this user's name, if the
    /// connection is lost and this client does not reconnect in time. It replaces the previous
    /// will. ``close(endingSession:)`` removes it.
    ///
    /// A will is sent at most once. When this client is connected again, it sets the will again
    /// automatically, as long as it exists.
    ///
    /// - Parameters:
    ///   - destination: the receivers.
    ///   - content: at most 4,096 bytes.
    ///   - delaySeconds: how long the client may be disconnected before the will is sent.
    /// - Throws: ``MartletError/refused(_:_:)`` if a send to this destination would be refused.
    public func setWill(
        to destination: Destination, _ content: MessageContent, delaySeconds: UInt32 = 0
    ) async throws(MartletError) {
        _ = try await request(.will(to: destination, content, delaySeconds: delaySeconds))
    }

    /// Removes the will; returns when the broker has confirmed it.
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
