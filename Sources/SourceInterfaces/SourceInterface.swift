// Interfaces of other messaging systems over HTTP, so that their clients find the paths, fields
// and statuses that they know. An interface knows the operations of administrators
// (`SourceOperations`) and nothing of the broker behind them.

import Administration
import BrokerTerms

/// One interface. Each is switched on for single apps, and off by default.
public enum SourceInterface: String, CaseIterable, Hashable, Sendable {
    /// A small REST server with passwords: `/auth/login`, `/conversations`.
    case rest
    /// `POST /auth/register` of ``rest``: anybody may become a user of the app.
    case registration
    /// QuickBlox Chat 2.0: `/chat/Dialog`, `/chat/Message`.
    case quickblox
    /// LeanMessage: `/leanmessage`, a WebSocket, whose conversation is in `Dialects`.
    case leanmessage
    /// Diuit: login with a JWT over a nonce, chats and messages on a socket.
    case diuit

    /// The label of the tokens that logins through this interface make. Lists of tokens show it.
    public var tokenBatch: String { "interface:\(rawValue)" }
}

/// The user whose token a request has.
public struct SourceUser: Hashable, Sendable {
    public let app: String
    public let user: String

    public init(app: String, user: String) {
        self.app = app
        self.user = user
    }
}

/// A request to an interface.
public struct SourceRequest: Sendable {
    /// How its content is written.
    public enum ContentForm: Hashable, Sendable {
        case json
        /// `application/x-www-form-urlencoded`.
        case form
        /// There is none, or its type is another one.
        case other
    }

    public let route: SourceRoute
    /// As it was sent, with escapes.
    public let query: [UInt8]
    public var content: [UInt8]
    public let contentForm: ContentForm
    /// The host that the client sees, without the port.
    public let host: String
    /// Nil for a request that needs no token.
    public let user: SourceUser?
    /// The app that the client names beside its credential; nil if it names none.
    public var application: String?

    public init(
        route: SourceRoute, query: [UInt8], content: [UInt8], contentForm: ContentForm,
        host: String, user: SourceUser?
    ) {
        self.route = route
        self.query = query
        self.content = content
        self.contentForm = contentForm
        self.host = host
        self.user = user
    }

    /// The user of a route that needs a token. The event loop has checked it.
    func holder() throws(SourceRefusal) -> SourceUser {
        guard let user else { throw SourceRefusal(403, "no valid token") }
        return user
    }
}

/// The answer of an interface: a JSON object.
public struct SourceAnswer: Hashable, Sendable {
    public let status: UInt16
    public let content: [UInt8]

    public init(_ status: UInt16, _ value: SourceValue) {
        self.status = status
        content = value.bytes
    }
}

/// Why an interface refuses a request. Each interface has its own form of the text.
public struct SourceRefusal: Error, Hashable, Sendable {
    public let status: UInt16
    /// The member of the request that is wrong; nil for another reason.
    public let field: String?
    public let message: String

    public init(_ status: UInt16, field: String? = nil, _ message: String) {
        self.status = status
        self.field = field
        self.message = message
    }

    public init(_ refusal: AdministrationRefusal) {
        self.init(refusal.httpStatus, refusal.messageForUsers)
    }

    static func missing(_ field: String) -> SourceRefusal {
        SourceRefusal(400, field: field, "is missing")
    }

    /// The field and what is wrong with it.
    public var text: String { field.map { "\($0) \(message)" } ?? message }
}
