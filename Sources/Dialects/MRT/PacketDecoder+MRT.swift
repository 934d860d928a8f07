// The packets of an MRT connection: the first one, and later ones.

import BrokerCore
import BrokerTerms
import Primitives
import WireFormat

extension PacketDecoder {
    mutating func beginMRT(
        _ packet: ReceivedPacket, in context: inout some DecodingContext & ~Copyable
    ) {
        let connection = packet.connection
        do throws(WireError) {
            guard packet.frame.flags == 0, packet.frame.hasMinimalLength else { throw .malformed }
            let connect = try MRT.Connect(body: packet.body.bytes)
            conversations.setClientPacketMaximum(connect.packetMaximum, for: connection)
            if connect.accepts.contains(.fields) {
                conversations[known: connection].traits.insert(.acceptsFields)
            }
            if connect.accepts.contains(.revisions) {
                conversations[known: connection].traits.insert(.acceptsRevisions)
            }
            let decoded = MRTDecoder.event(
                of: connect, packet,
                actingUser: actingUser(of: connect.credential, on: connection, in: &context),
                dialect: conversations[known: connection].dialect,
                gateway: conversations.gateway(of: connection), terms: terms(of: connection),
                in: &context)
            switch decoded {
            case .success(let event):
                conversations[known: connection].phase = .awaitingAnswer
                // Only the channel waits: its gateway has others that must be read.
                if !connection.isChannel { context.holdConnection(connection) }
                events.append(event)
            case .failure(let refusal):
                context.takeNames(
                    connection, user: connect.credential.user.bytes(in: packet.body.bytes),
                    device: connect.device.bytes(in: packet.body.bytes))
                refuse(connection, refusal.reason, in: &context)
            }
        } catch {
            refuse(connection, error.reason, in: &context)
        }
    }

    mutating func readMRT(
        _ packet: ReceivedPacket, in context: inout some DecodingContext & ~Copyable
    ) throws(WireError) {
        let connection = packet.connection
        switch try MRT.PacketType(packet.frame, from: .client) {
        case .auth:
            let auth = try MRT.ClientAuth(body: packet.body.bytes)
            events.append(
                MRTDecoder.event(
                    of: auth, packet,
                    actingUser: actingUser(of: auth.credential, on: connection, in: &context),
                    gateway: conversations.gateway(of: connection), in: &context))
        case .pingRequest:
            _ = try MRT.Ping(isResponse: false, body: packet.body.bytes)
            answerPing(of: connection, through: &context)
        case .channel:
            let channel = try MRT.Channel(body: packet.body.bytes)
            readChannel(
                channel.channel, packet.place(channel.inner), within: packet, in: &context)
        case let type:
            try MRTDecoder.read(
                type, packet,
                clientPacketMaximum: conversations[known: connection].clientPacketMaximum,
                into: &events, in: &context)
        }
    }

    /// The user whom the handshake named, for an app key that names none.
    private mutating func actingUser(
        of credential: MRT.Credential, on connection: ConnectionID,
        in context: inout some DecodingContext & ~Copyable
    ) -> ByteRange? {
        guard case .appKey(_, _, let user) = credential, user.isEmpty,
            let named = conversations.actingUsers[connection]
        else { return nil }
        let place = named.withUnsafeBytes { context.appendIncoming($0) }
        burstEnd = max(burstEnd, place.endOffset)
        return place
    }

    /// The options of the listener that accepted the connection.
    func terms(of connection: ConnectionID) -> ListenerTerms {
        terms[Int(conversations[known: connection].terms)]
    }
}
