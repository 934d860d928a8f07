// The message of a publisher: an address and, after it, a payload. It knows no connection.

import Primitives
import WireFormat

/// The kind of address of a run's messages.
enum AddressKind {
    case topic
    /// The rest in MRT only, as text messages.
    case user
    case group
    case everybody
}

/// One address and payload, whose stamp changes with each message. Its owner must free the memory.
struct OutgoingSource {
    let bytes: UnsafeMutableRawBufferPointer
    let kind: AddressKind
    let addressByteCount: Int
    /// The position of the stamp.
    let stampOffset: Int

    init(_ kind: AddressKind, address: [UInt8], payloadByteCount: Int) {
        self.kind = kind
        addressByteCount = address.count
        // A message that is not to a plain topic begins with its type: 0 is text.
        stampOffset = address.count + (kind == .topic ? 0 : 1)
        bytes = .allocate(byteCount: stampOffset + payloadByteCount, alignment: 8)
        bytes.copyBytes(from: address)
        for offset in address.count..<bytes.count {
            bytes[offset] = offset < stampOffset ? 0 : UInt8(ascii: "m")
        }
    }

    func stamp(_ stamp: Stamp) {
        stamp.write(to: UnsafeMutableRawBufferPointer(rebasing: bytes[stampOffset...]))
    }

    var address: [UInt8] { Array(bytes[..<addressByteCount]) }
    var payload: [UInt8] { Array(bytes[addressByteCount...]) }
    var isRaw: Bool { kind == .topic }

    /// The address in MRT, within ``bytes``.
    var target: MRT.Target {
        let range = ByteRange(offset: 0, count: addressByteCount)
        switch kind {
        case .topic: return .topic(range)
        case .user: return .user(range)
        case .group: return .group(range)
        case .everybody: return .broadcast
        }
    }
}
