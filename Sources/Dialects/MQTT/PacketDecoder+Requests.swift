// Publications of MQTT clients on `$api/` and an operation. Each is the JSON message of that
// operation, and becomes the same event: no operation is known here.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

extension PacketDecoder {
    /// Reads a PUBLISH whose topic is one of requests.
    ///
    /// - Parameters:
    ///   - topic: its topic.
    ///   - start: where the operation begins in the topic.
    @inline(never)
    mutating func readRequest(
        _ publish: MQTT.Publish, of topic: RawSpan, from start: Int,
        _ packet: ReceivedPacket, in context: inout some DecodingContext & ~Copyable
    ) {
        let connection = packet.connection
        let number = conversations.makeRequestNumber(
            packetIdentifier: publish.packetIdentifier, grade: Grade(publish.qos))
        var reply = AwaitedReply(publish.properties, in: packet)
        var message: [UInt8] = []
        do throws(JSONFault) {
            message = try JSONPacketReader.packet(
                ofOperation: topic.extracting(start..<topic.byteCount),
                publish.payload.bytes(in: packet.body).bytes,
                request: &reply.request)
            guard message.count <= packet.frame.byteCount else {
                throw JSONFault(
                    reason: .implementationSpecificError,
                    detail: "the request is too short for a topic alias; name its topic")
            }
        } catch {
            reply.fault = error
        }
        guard conversations.expect(reply, number: number, to: connection) else {
            refuseRequest(number, publish.version, as: reply, to: connection, in: &context)
            return
        }
        if let fault = reply.fault {
            events.append(.requestFaulted(connection, requestIdentifier: number, fault.reason))
            return
        }
        do throws(WireError) {
            events.append(
                try MRTDecoder.event(
                    of: place(message, of: number, over: packet), in: &context))
        } catch {
            events.append(.requestFaulted(connection, requestIdentifier: number, error.reason))
        }
    }

    /// Replies at once to a request that exceeds the limits of a connection: nothing is kept of it.
    private mutating func refuseRequest(
        _ number: UInt64, _ version: MQTT.Version, as reply: AwaitedReply,
        to connection: ConnectionID, in context: inout some DecodingContext & ~Copyable
    ) {
        let fault = JSONFault(
            reason: .quotaExceeded, detail: "too many requests of this connection have no reply")
        let outcome = conversations.write(
            fault, as: reply, to: connection, version: version, through: &context)
        events.append(.requestFaulted(connection, requestIdentifier: number, fault.reason))
        if outcome == .tooLarge { events.append(.peerFaulted(connection, .packetTooLarge)) }
    }

    /// Writes the REQUEST of a message over the PUBLISH that it was read from. Only a PUBLISH
    /// without topic can be shorter: otherwise the topic and the names of members have more bytes
    /// than what the REQUEST has beside their content.
    private func place(
        _ message: [UInt8], of number: UInt64, over packet: ReceivedPacket
    ) throws(WireError) -> ReceivedRequest {
        let start = packet.frame.endOffset - packet.frame.byteCount
        let place = packet.arena[start..<start + message.count]
        for (target, source) in zip(place.indices, message.indices) {
            packet.arena[target] = message[source]
        }
        guard
            case .packet(let frame) = PacketFrame.next(
                in: packet.bytes.bytes, at: start, packetMaximum: .max)
        else {
            preconditionFailure("the \(message.count) bytes of a request are incomplete")
        }
        let written = ReceivedPacket(frame, from: packet.connection, in: packet.arena)
        let request = try MRT.Request(body: written.body.bytes)
        return ReceivedRequest(
            connection: packet.connection, identifier: number, operation: request.operation,
            parameters: written.place(request.parameters), bytes: written.bytes,
            resultByteCountMaximum: Self.resultByteCount(
                ofPacket: conversations[known: packet.connection].clientPacketMaximum))
    }

    /// Bytes of a result whose reply fits into a packet that the client accepts, in all but rare
    /// cases: the JSON of a short entry, and text with escapes, has up to eight times the bytes.
    private static func resultByteCount(ofPacket byteCount: UInt32) -> Int {
        byteCount == 0 ? .max : Int(byteCount) / 8
    }
}

extension AwaitedReply {
    /// What the properties of a request say about its reply.
    fileprivate init(_ section: MQTT.PropertySection, in packet: ReceivedPacket) {
        let body = packet.body
        guard section.carriedByteCount > 0 else { return }
        var reader = MQTT.PropertyReader(section, of: .publish, in: body.bytes)
        // They were checked when they were read, so this cannot fail.
        while let property = try? reader.next() {
            switch property.identifier {
            case .responseTopic: topic = Array(property.text.bytes(in: body))
            case .correlationData: correlation = Array(property.text.bytes(in: body))
            default: break
            }
        }
    }
}
