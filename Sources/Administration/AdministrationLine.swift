// The administration protocol: one JSON object per line in both directions, in order, over the Unix
// socket in the data directory. Every user who may open the socket (0600) may send every request.
//
//     {"version":1,"request":"user.add","body":{"app":"demo","user":"pump-7"}}
//     {"version":1,"reply":{"isNew":true}}
//     {"version":1,"refusal":{"message":"no app \"demo\"","reason":135}}
import BrokerTerms
import FoundationEssentials

/// The lines of the protocol.
public enum AdministrationLine {
    /// Increases if an old program would misunderstand a new one. New requests and new members of
    /// bodies do not increase it: they are refused or ignored.
    public static let version = 1
    /// The socket's name in the data directory.
    public static let socketName = "admin.sock"
    /// A request for 10,000 users with ids of 64 bytes fits, with room for escapes.
    public static let requestByteCountMaximum = 2 << 20
    /// Requests that a client sends before it reads their replies; the broker commits messages
    /// among them together. A commit takes milliseconds, and the core some microseconds for each.
    public static let requestsTogetherMaximum = 256
    /// A reply with as many tokens fits.
    public static let replyByteCountMaximum = 4 << 20

    struct RequestHead: Codable {
        var version: Int
        var request: String
    }

    struct RequestLine<Body: Codable>: Codable {
        var version = AdministrationLine.version
        var request: String
        var body: Body
    }

    struct ReplyLine<Reply: Codable>: Codable {
        var version = AdministrationLine.version
        var reply: Reply?
        var refusal: AdministrationRefusal?
    }

    static func encode(_ line: some Encodable) -> [UInt8] {
        let encoder = JSONEncoder()
        // Sorted, so that lines can be compared; JSON's escapes keep line feeds out of texts.
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let data = try? encoder.encode(line) else {
            preconditionFailure("cannot encode \(type(of: line)) as JSON")
        }
        return data + [UInt8(ascii: "\n")]
    }

    package static func decode<Line: Decodable>(
        _ type: Line.Type, from line: [UInt8]
    ) throws(AdministrationRefusal) -> Line {
        // The decoder also reads UTF-16 and UTF-32, in which a text is longer than its bytes here,
        // and which hides brackets from a search for them. JSON that is exchanged is UTF-8
        // (RFC 8259, 8.1).
        guard !line.contains(0), line.first.map({ $0 < 0x80 }) ?? false,
            String(validating: line, as: UTF8.self) != nil
        else { throw .malformed("not JSON in UTF-8") }
        do {
            return try JSONDecoder().decode(type, from: Data(line))
        } catch let error as DecodingError {
            throw .malformed(error.explanation)
        } catch {
            throw .malformed("not JSON")
        }
    }
}

/// A refused request.
public struct AdministrationRefusal: Error, Codable, Hashable, Sendable {
    /// The broker's reason code, 0x80 or above.
    public var reason: UInt8
    /// The message for the operator: the invalid value, and the reason.
    public var message: String
    /// What the reason code leaves open and HTTP has a status for. It is not in the line.
    public var cause: Cause?

    /// The message without the command that it may advise at its end: users have no operator's.
    public var messageForUsers: String {
        guard let command = message.firstRange(of: "martlet "),
            let end = message[..<command.lowerBound].ranges(of: "; ").last
        else { return message }
        return String(message[..<end.lowerBound])
    }

    public enum Cause: Hashable, Sendable {
        /// What the request names does not exist.
        case unknown
        /// What the request makes exists.
        case exists
        /// What the request deletes is used, or has what would be lost.
        case inUse
        /// The key of the message was used for another message.
        case otherContent
        /// The first message with the key is under way.
        case underWay
        /// The selection is everything that an app has.
        case tooWide
        /// The broker cannot do it now: a file cannot be written.
        case failed
        /// It breaks a rule of what it asks for.
        case rule
        /// A moderator refused the message.
        case moderated
        /// The rights of the credential do not allow it.
        case forbidden
        /// The store or a queue has no room for it.
        case full
        /// The principal has as many as one may have.
        case tooMany
    }

    private enum CodingKeys: String, CodingKey { case reason, message }

    public init(reason: UInt8, message: String, cause: Cause? = nil) {
        precondition(reason >= 0x80, "reason code \(reason) is not a failure")
        self.reason = reason
        self.message = message
        self.cause = cause
    }

    public init(_ reason: ReasonCode, _ message: String, cause: Cause? = nil) {
        self.init(reason: reason.rawValue, message: message, cause: cause)
    }

    /// The line violates the protocol.
    static func malformed(_ message: String) -> AdministrationRefusal {
        AdministrationRefusal(.malformedPacket, message)
    }
}

extension DecodingError {
    /// The invalid member, for the message.
    fileprivate var explanation: String {
        switch self {
        case .keyNotFound(let key, _): "\(key.stringValue) is missing"
        case .typeMismatch(_, let context), .valueNotFound(_, let context):
            context.codingPath.isEmpty
                ? "not an object"
                : context.codingPath.map(\.stringValue).joined(separator: ".")
                    + " has the wrong type"
        case .dataCorrupted: "not JSON"
        @unknown default: "not JSON"
        }
    }
}
