// What a client asks of the broker beside sending, and the answers.

import ClientCore
import Primitives
import WireFormat

/// A request in the application's words.
enum ClientRequest: Sendable {
    case subscribe(String, Grade)
    case unsubscribe(String)
    case presence(String)

    /// Bytes of the packet, at most.
    var byteCountMaximum: Int {
        switch self {
        case .subscribe(let text, _), .unsubscribe(let text), .presence(let text):
            text.utf8.count + ClientBounds.sendOverheadMaximum
        }
    }
}

extension ClientMachine {
    /// Asks; the answer comes under the id that is returned.
    mutating func ask(_ request: ClientRequest) throws(ClientError) -> UInt64 {
        var bytes = ByteBuilder()
        switch request {
        case .subscribe(let filter, let grade):
            let part = MRT.Subscribe(highestGrade: grade, filter: bytes.append(filter))
            return try ask(.subscribe, part, bytes.bytes)
        case .unsubscribe(let filter):
            let parameters = Array(filter.utf8)
            return try parameters.span.bytes.withUnsafeBytes { bytes throws(ClientError) in
                try self.request(.unsubscribe, parameters: bytes)
            }
        case .presence(let user):
            let part = MRT.PresenceQuery(user: bytes.append(user))
            return try ask(.presence, part, bytes.bytes)
        }
    }

    private mutating func ask(
        _ operation: MRT.Operation, _ part: some RequestPart, _ source: [UInt8]
    ) throws(ClientError) -> UInt64 {
        try source.span.bytes.withUnsafeBytes { bytes throws(ClientError) in
            try request(operation, part, from: bytes)
        }
    }
}

/// Where a user stands.
public struct Presence: Hashable, Sendable {
    public var isOnline: Bool
    /// Unix milliseconds of the last change; nil where none is known.
    public var since: UInt64?
    /// The devices that are connected.
    public var devices: [String]

    /// Reads the content of a response; nil where it is none.
    init?(_ content: [UInt8]) {
        let presence = content.withUnsafeBytes { bytes -> Presence? in
            guard let answer = try? MRT.PresenceAnswer(bytes) else { return nil }
            var list = MRT.IdentifierList(answer.devices, in: bytes)
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
