// The file in an event: `messages/create` with `base64`, which becomes an address before the event
// is executed. What is wrong with the message, and who may not send it, is found before the file is
// kept.

import FoundationEssentials

/// A file that a client sends.
public struct SocketFile: Sendable {
    public let mediaType: String
    private let event: SocketEvent
    private let chat: String
    private let base64: String

    fileprivate init(_ event: SocketEvent) throws(SourceRefusal) {
        self.event = event
        mediaType = try event.text("mime")
        chat = try event.text("chatId")
        base64 = try event.text("data")
    }

    /// Refuses what the message would be refused for, as far as its address does not decide it.
    public func check(
        from user: SourceUser, by access: some ChatAccess
    ) throws(SourceRefusal) {
        guard let chat = DialogName(identifier: chat) else { throw DiuitInterface.noChat }
        try access.checkMaySend(to: chat, user: user.user, app: user.app)
        var message = try DiuitMessage(event)
        message.encoding = "url"
        _ = try message.attributes()
    }

    /// The bytes of the file.
    ///
    /// - Throws: the status 400 for what is no base64.
    public func content() throws(SourceRefusal) -> [UInt8] {
        guard let content = Data(base64Encoded: base64) else {
            throw SourceRefusal(400, field: "data", "is not base64")
        }
        return Array(content)
    }
}

extension SocketEvent {
    /// The file in the event; nil without one.
    ///
    /// - Throws: the status 400 for one without a type, a chat or content.
    public func file() throws(SourceRefusal) -> SocketFile? {
        guard name == "messages/create", case .object(let members) = data,
            members["encoding"] == .text("base64")
        else { return nil }
        return try SocketFile(self)
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
