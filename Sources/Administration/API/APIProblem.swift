// Problem details (RFC 9457): what the HTTP API answers instead of a reply.

import BrokerTerms

/// Why a request is refused.
public struct APIProblem: Codable, Sendable {
    /// The broker's reason code.
    public struct Code: Codable, Sendable {
        public let number: UInt8
        public let name: String

        public init(number: UInt8, name: String) {
            self.number = number
            self.name = name
        }
    }

    /// No further description than the status.
    public var type = "about:blank"
    /// The status as a phrase.
    public let title: String
    public let status: UInt16
    public let detail: String
    public let code: Code

    public static let contentType: StaticString = "application/problem+json"

    public init(title: String, status: UInt16, detail: String, code: Code) {
        self.title = title
        self.status = status
        self.detail = detail
        self.code = code
    }

    /// As JSON, with a line feed.
    public var bytes: [UInt8] { AdministrationLine.encode(self) }
}

extension AdministrationRefusal {
    /// The status that answers this refusal.
    public var httpStatus: UInt16 {
        switch (cause, ReasonCode(rawValue: reason)) {
        case (.unknown, _): 404
        case (.exists, _), (.inUse, _), (.underWay, _): 409
        case (.otherContent, _), (.moderated, _): 422
        case (.tooWide, _), (.rule, _): 400
        case (.failed, _): 500
        case (.forbidden, _): 403
        case (.full, _): 507
        case (.tooMany, _): 429
        case (nil, .malformedPacket), (nil, .protocolError), (nil, .implementationSpecificError),
            (nil, .unsupportedProtocolVersion), (nil, .clientIdentifierNotValid),
            (nil, .payloadFormatInvalid):
            400
        // No such user, group or topic.
        case (nil, .topicNameInvalid): 404
        case (nil, .packetTooLarge): 413
        // A node of a cluster that is not the primary now.
        case (nil, .serverUnavailable), (nil, .useAnotherServer): 503
        // The state of what is there does not allow it, such as a limit of a number of things.
        default: 409
        }
    }
}
