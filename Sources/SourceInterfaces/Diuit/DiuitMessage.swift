// Messages in the form of Diuit, and what the broker's messages have of it. The media type and the
// data that an app adds are attributes, which clients of MQTT 5 see as user properties.

import Administration

/// A message: `{data, mime, encoding, meta}`.
struct DiuitMessage {
    var data: String
    var mime: String
    var encoding: String
    var meta: SourceValue

    static let textType = "text/plain"
    /// The attribute with the media type, where it is not that of the message's type.
    private static let typeAttribute = "mime"
    /// The attributes with the data, in pieces: a value has at most 255 bytes.
    private static let metaAttributes = ["meta", "meta2"]
    /// The media types of the types of messages whose text is an address.
    private static let mediaTypes: [UInt8: String] = [
        1: "image/*", 2: "audio/*", 3: "video/*", 4: "text/html",
    ]

    /// A message of the broker.
    ///
    /// - Parameters:
    ///   - type: `t` of the message.
    ///   - attributes: keys with values beside the content.
    init(type: UInt8, text: String, attributes: [String: String]) {
        var rest = attributes
        let type = Self.mediaTypes[type]
        mime = rest.removeValue(forKey: Self.typeAttribute) ?? type ?? Self.textType
        encoding = type == nil ? "utf8" : "url"
        data = text
        let pieces = Self.metaAttributes.compactMap { rest.removeValue(forKey: $0) }
        if !pieces.isEmpty {
            // Other clients may give the attributes any text.
            let value = try? SourceValue(Array(pieces.joined().utf8))
            if case .object(let members)? = value {
                meta = .object(members)
            } else {
                meta = .object([:])
            }
        } else {
            // Attributes that another client has set.
            meta = .object(rest.mapValues { .text($0) })
        }
    }

    /// The members that answers, events and lists have.
    ///
    /// - Parameter chat: nil for a message to everybody.
    func members(in chat: DialogName?, from sender: String) -> [String: SourceValue] {
        [
            "data": .text(data), "mime": .text(mime), "encoding": .text(encoding),
            "meta": meta == .null ? .object([:]) : meta, "chatId": .optional(chat?.identifier),
            "senderUser": .object(["serial": .text(sender)]),
        ]
    }

    /// A kept message.
    static func object(
        of message: ListHistory.Message, in chat: DialogName, reads: [String] = []
    ) -> [String: SourceValue] {
        var object = DiuitMessage(
            type: message.t ?? 0, text: message.content.text ?? "",
            attributes: message.attributes ?? [:]
        ).members(in: chat, from: message.from)
        let name = DialogMessageName(dialog: chat, number: message.number)
        object["id"] = .text(name.identifier)
        object["createdAt"] = .count(message.unixMilliseconds)
        object["reads"] = .array(reads.map { .text($0) })
        return object
    }

    // MARK: - Sending

    /// The message of an event.
    init(_ event: SocketEvent) throws(SourceRefusal) {
        guard case .text(let data)? = try event.members()["data"] else {
            throw SourceRefusal(400, field: "data", "must be text")
        }
        mime = try event.members()["mime"] == nil ? Self.textType : event.text("mime")
        encoding = try event.members()["encoding"] == nil ? "utf8" : event.text("encoding")
        self.data = data
        meta = try event.members()["meta"] ?? .null
        guard mime.utf8.count <= SourceLimits.mediaTypeByteCountMaximum else {
            throw SourceRefusal(
                400, field: "mime", "has more than \(SourceLimits.mediaTypeByteCountMaximum) bytes")
        }
    }

    /// The type of the broker's message: whether and what its text is an address of.
    var type: UInt8 {
        guard encoding == "url" else { return 0 }
        if mime.hasPrefix("image/") { return 1 }
        if mime.hasPrefix("audio/") { return 2 }
        return mime.hasPrefix("video/") ? 3 : 4
    }

    /// Keys and values beside the content; nil for none.
    func attributes() throws(SourceRefusal) -> [String: String]? {
        var attributes: [String: String] = [:]
        if mime != (Self.mediaTypes[type] ?? Self.textType) {
            attributes[Self.typeAttribute] = mime
        }
        switch meta {
        case .null: break
        case .object(let members) where members.isEmpty: break
        case .object:
            var rest = Array(meta.bytes)[...]
            for name in Self.metaAttributes where !rest.isEmpty {
                // A value is whole characters.
                var piece = rest.prefix(SourceLimits.attributeByteCountMaximum)
                while String(validating: piece, as: UTF8.self) == nil { piece.removeLast() }
                attributes[name] = String(decoding: piece, as: UTF8.self)
                rest = rest.dropFirst(piece.count)
            }
            guard rest.isEmpty, meta.bytes.count <= SourceLimits.messageMetaByteCountMaximum else {
                throw SourceRefusal(
                    413, field: "meta",
                    "has more than \(SourceLimits.messageMetaByteCountMaximum) bytes")
            }
        default: throw SourceRefusal(400, field: "meta", "must be an object")
        }
        return attributes.isEmpty ? nil : attributes
    }
}
