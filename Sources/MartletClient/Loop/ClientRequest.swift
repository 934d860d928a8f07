// The requests of a client, and their answers.

import BrokerTerms
import ClientCore
import WireFormat

/// A request, as the parameters of its packet.
struct ClientRequest: Sendable {
    let operation: MRT.Operation
    let parameters: [UInt8]

    init(operation: MRT.Operation, parameters: [UInt8]) {
        self.operation = operation
        self.parameters = parameters
    }

    /// - Parameter source: the bytes that the ranges of `part` refer to.
    init(_ operation: MRT.Operation, part: some RequestPart, source: [UInt8]) {
        self.operation = operation
        parameters = [UInt8](unsafeUninitializedCapacity: part.byteCount) { buffer, count in
            var writer = PacketWriter(UnsafeMutableRawBufferPointer(buffer).mutableBytes)
            source.withUnsafeBytes { part.write(to: &writer, from: $0.bytes) }
            count = writer.byteCount
        }
    }

    static func subscribe(_ filter: String, _ grade: Grade) -> ClientRequest {
        var bytes = ByteBuilder()
        let part = MRT.Subscribe(highestGrade: grade, filter: bytes.append(filter))
        return ClientRequest(.subscribe, part: part, source: bytes.bytes)
    }

    static func unsubscribe(_ filter: String) -> ClientRequest {
        ClientRequest(operation: .unsubscribe, parameters: Array(filter.utf8))
    }

    /// The change to the subscriptions and the will that the client restores by itself, once the
    /// broker has answered.
    var lastingEffect: LastingEffect? {
        switch operation {
        case .subscribe:
            Grade(rawValue: parameters[0]).map {
                .subscribed(String(decoding: parameters.dropFirst(), as: UTF8.self), $0)
            }
        case .unsubscribe: .unsubscribed(String(decoding: parameters, as: UTF8.self))
        case .setWill: .willSet(self)
        case .clearWill: .willCleared
        default: nil
        }
    }

    /// An upper bound of the packet's size.
    var byteCountMaximum: Int { parameters.count + ClientBounds.sendOverheadMaximum }
}

/// State that outlives a request, and is requested again if a session is new.
enum LastingEffect {
    case subscribed(String, Grade)
    case unsubscribed(String)
    case willSet(ClientRequest)
    case willCleared
}

/// The broker's answer to a successful request.
struct ClientAnswer: Sendable {
    let reason: ReasonCode
    let content: [UInt8]
}

extension ClientMachine {
    /// Sends a request; its answer has the returned id.
    mutating func ask(_ request: ClientRequest) throws(ClientError) -> UInt64 {
        try request.parameters.span.bytes.withUnsafeBytes { bytes throws(ClientError) in
            try self.request(request.operation, parameters: bytes)
        }
    }
}

extension MartletError {
    /// The broker's answer is invalid.
    static var unreadableAnswer: MartletError {
        .refused(.malformedPacket, "the broker's answer cannot be read")
    }
}

/// The presence of a user.
public struct Presence: Hashable, Sendable {
    /// Whether a device of the user is connected.
    public var isOnline: Bool
    /// Unix milliseconds of the last change; nil if none is known.
    public var since: UInt64?
    /// The connected devices.
    public var devices: [String]

    /// Decodes a response; nil if it is invalid.
    init?(_ content: [UInt8]) {
        let presence = content.withUnsafeBytes { bytes -> Presence? in
            guard let answer = try? MRT.PresenceAnswer(bytes.bytes) else { return nil }
            var list = MRT.IdentifierList(answer.devices, in: bytes.bytes)
            var devices: [String] = []
            while let device = list.next() {
                devices.append(String(decoding: device.bytes(in: bytes), as: UTF8.self))
            }
            return Presence(
                isOnline: answer.isOnline, since: answer.since == 0 ? nil : answer.since,
                devices: devices)
        }
        guard let presence else { return nil }
        self = presence
    }

    init(isOnline: Bool, since: UInt64?, devices: [String]) {
        self.isOnline = isOnline
        self.since = since
        self.devices = devices
    }
}
