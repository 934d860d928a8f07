// How tests of the core name receivers and queues, and put texts into the bytes of an event.

import BrokerTerms
import Primitives

@testable import BrokerCore

/// Whom a test sends to.
enum Target {
    case user(String)
    case users([String])
    case group(String)
    case everybody
    case topic(String)
}

extension Target {
    func append(to bytes: inout [UInt8]) -> SendTarget {
        switch self {
        case .user(let name): return .user(bytes.appendRange(name))
        case .group(let name): return .group(bytes.appendRange(name))
        case .topic(let name): return .topic(bytes.appendRange(name))
        case .everybody: return .everybody
        case .users(let names):
            let list = bytes.appendList(names)
            return .users(ids: list.bytes, count: list.count)
        }
    }
}

extension World {
    /// Bytes of earlier packets: a loop reads many at once, so the ranges of an event do not begin
    /// at 0, not even the empty ones.
    static let preceding = [UInt8](repeating: 0xEE, count: 1_000)
}

extension [UInt8] {
    /// Appends ids in a row.
    mutating func appendList(_ names: [String]) -> IdentifierRange {
        let start = count
        for name in names {
            append(UInt8(name.utf8.count))
            self += name.utf8
        }
        return IdentifierRange(
            bytes: ByteRange(offset: start, count: count - start), count: names.count)
    }

    /// Appends a text, and gives its place.
    mutating func appendRange(_ text: String) -> ByteRange {
        let start = count
        self += text.utf8
        return ByteRange(offset: start, count: count - start)
    }
}

extension QueueSelection {
    /// The queue of `user/device`, or the offline queue of the user.
    init(_ name: String, isOffline: Bool = false) {
        let (user, device) = World.split(name)
        self.init(
            app: World.app, user: Array(user.utf8), device: isOffline ? nil : Array(device.utf8))
    }
}
