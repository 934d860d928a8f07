// The members of one object in a JSON message of a client.

import Primitives
import WireFormat

extension JSONPacketReader {
    /// The members of an object in the message.
    struct JSONMembers {
        private let members: [JSONObject.Member]
        private let source: [UInt8]

        init(_ members: [JSONObject.Member], of reader: JSONPacketReader) {
            self.members = members
            source = reader.source
        }

        func value(_ name: StaticString) -> JSONObject.Value? {
            members.first { isNamed($0, name) }?.value
        }

        private func isNamed(_ member: JSONObject.Member, _ name: StaticString) -> Bool {
            member.name.bytes(in: source.span.bytes).isEqual(name)
        }

        func number(
            _ name: StaticString, in range: ClosedRange<UInt64>
        ) throws(JSONFault) -> UInt64? {
            switch value(name) {
            case nil, .null: return nil
            case .number(let number) where range.contains(number): return number
            default:
                throw JSONFault(
                    reason: .malformedPacket, detail: "is not a whole number of its range",
                    member: Array("\(name)".utf8))
            }
        }

        /// The epoch of a position, which both kinds have.
        func epoch() throws(JSONFault) -> UInt64 {
            guard case .string(let text) = value("epoch"),
                let epoch = UInt64(hexadecimal: text.bytes(in: source.span.bytes)), epoch != 0
            else {
                throw JSONFault(
                    reason: .malformedPacket, detail: "does not have 16 hexadecimal digits",
                    member: Array("epoch".utf8))
            }
            return epoch
        }

        /// Refuses members of a position that it does not have.
        func refuseOtherMembers() throws(JSONFault) {
            try refuseMembers(otherThan: ["epoch", "number", "resultsSeen", "highestUsed"])
        }

        func refuseMembers(otherThan names: [StaticString]) throws(JSONFault) {
            for member in members where !names.contains(where: { isNamed(member, $0) }) {
                throw JSONFault(
                    reason: .malformedPacket, detail: "is no member of this message",
                    member: Array(source[member.name.offsets]))
            }
        }
    }
}
