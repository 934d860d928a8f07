// The messages of a client about wake targets.

import BrokerCore
import Primitives
import WireFormat

extension JSONPacketReader {
    mutating func wakeTarget() throws(JSONFault) -> MRT.WakeTarget {
        let kind = try word("kind").flatMap { WakeTarget.Kind(named: $0) }
        guard let kind else { throw fault("names no kind of wake targets", "kind") }
        var environment = WakeTarget.Environment.production
        if let word = try word("environment") {
            guard let named = WakeTarget.Environment(named: word) else {
                throw fault("is not production or sandbox", "environment")
            }
            environment = named
        }
        let address = try required("address", text("address"))
        guard !address.isEmpty else { throw fault("is empty", "address") }
        return MRT.WakeTarget(
            device: try shortText("device") ?? .empty, kind: kind.rawValue,
            environment: environment.rawValue, language: try shortText("language") ?? .empty,
            address: address)
    }

    mutating func wakeTargetQuery() throws(JSONFault) -> MRT.WakeTargetQuery {
        MRT.WakeTargetQuery(user: try shortText("user") ?? .empty)
    }

    mutating func wakeTargetName() throws(JSONFault) -> MRT.WakeTargetName {
        let user = try shortText("user") ?? .empty
        let identifier = try number("id", in: 1...WireLimits.varIntMaximum)
        return MRT.WakeTargetName(user: user, identifier: try required("id", identifier))
    }

    /// A group, and what is set of it.
    mutating func groupFlag(_ name: StaticString) throws(JSONFault) -> MRT.GroupFlag {
        MRT.GroupFlag(group: try group(), isSet: try required(name, optionalFlag(name)))
    }

    /// What the sender gives for those who are woken, as it is.
    mutating func push(named name: StaticString = "push") throws(JSONFault) -> ByteRange {
        switch value(name) {
        case nil, .null: return .empty
        case .json(let text):
            guard text.count <= WireLimits.pushByteCountMaximum else {
                throw fault("has more than 4,096 bytes", name)
            }
            return text
        default: throw fault("is no object", name)
        }
    }

    private mutating func word(_ name: StaticString) throws(JSONFault) -> String? {
        try text(name).map { String(decoding: source[$0.offsets], as: UTF8.self) }
    }
}
