// The file in an event: `messages/create` with `base64`, which becomes an address before the event
// is executed.

import FoundationEssentials

/// A file that a client sends.
public struct SocketFile: Hashable, Sendable {
    public let mediaType: String
    public let content: [UInt8]
}

extension SocketEvent {
    /// The file in the event; nil without one.
    ///
    /// - Throws: the status 400 for what is no base64.
    public func file() throws(SourceRefusal) -> SocketFile? {
        guard name == "messages/create", case .object(let members) = data,
            members["encoding"] == .text("base64")
        else { return nil }
        let mediaType = try text("mime")
        guard let content = Data(base64Encoded: try text("data")) else {
            throw SourceRefusal(400, field: "data", "is not base64")
        }
        return SocketFile(mediaType: mediaType, content: Array(content))
    }

    /// The event with the address of its file.
    public func replacingFile(by address: String, _ form: SocketForm) -> [UInt8] {
        guard case .object(var members) = data else { return [] }
        members["data"] = .text(address)
        members["encoding"] = .text("url")
        let data = SourceValue.object(members)
        guard form == .plain else {
            let digits = number.map { "\($0)" } ?? ""
            return Array("42\(digits)".utf8) + SourceValue.array([.text(name), data]).bytes
        }
        var object: [String: SourceValue] = ["event": .text(name), "data": data]
        if let number { object["id"] = .count(number) }
        return SourceValue.object(object).bytes
    }
}
