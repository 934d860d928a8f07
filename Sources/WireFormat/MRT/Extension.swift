// Extensions of CONNECT and CONNACK: pairs of id and value up to the end of the packet. With them
// new fields need no new protocol level.
//
//     | varint id | varint length | bytes |  …   ids rise; an unknown even id is ignored,
//                                                an unknown odd id must be understood

import Primitives

/// One extension.
struct Extension {
    let id: UInt64
    let value: ByteRange

    init(id: UInt64, value: ByteRange) {
        self.id = id
        self.value = value
    }

    /// Reads the next extension; an id that does not rise is malformed.
    init(_ reader: inout PacketReader, after previous: Extension?) throws(WireError) {
        id = try reader.readVarInt()
        if let previous, id <= previous.id { throw .malformed }
        value = try reader.readStringV(0...WireLimits.remainingLengthMaximum)
    }

    /// The handling of an extension that this program does not know.
    func refuseIfInsistent() throws(WireError) {
        if id & 1 == 1 { throw .protocolError }
    }
}
