// The paths of the interfaces.

import Administration

/// What a method on a path of an interface means.
public enum SourceRoute: Hashable, Sendable {
    case register
    case passwordLogin
    case createConversation
    case listConversations
    case listDialogs
    case createDialog
    case updateDialog(String)
    case listMessages
    case createMessage
    /// - Parameter identifiers: several, joined by commas.
    case updateMessages(identifiers: String)
    case deleteMessages(identifiers: String)
    case makeNonce
    case exchangeToken
    /// An event on a socket, which has no path of its own.
    case socketEvent(SocketForm)

    public typealias Method = APIMethod

    /// What is at a path.
    public enum Place: Hashable, Sendable {
        case route(SourceRoute)
        /// The path is an interface's, and has no such method.
        case otherMethods
        case nothing
    }

    public var interface: SourceInterface {
        switch self {
        case .register: .registration
        case .passwordLogin, .createConversation, .listConversations: .rest
        case .listDialogs, .createDialog, .updateDialog, .listMessages, .createMessage,
            .updateMessages, .deleteMessages:
            .quickblox
        case .makeNonce, .exchangeToken, .socketEvent: .diuit
        }
    }

    /// Whether a request has to present the token of a user.
    public var needsToken: Bool {
        switch self {
        case .register, .passwordLogin, .makeNonce, .exchangeToken: false
        default: true
        }
    }

    /// Whether a password is hashed for it, which takes as long as many other requests.
    public var needsPassword: Bool { self == .register || self == .passwordLogin }

    /// The beginning of QuickBlox's paths, whose token is in a field of its own.
    public static let startWithOwnToken: StaticString = "/chat/"
    /// The first segments of all paths. Other requests pay for one comparison with each.
    public static let starts: [StaticString] = [
        "/auth/", "/conversations", "/chat/", "/1/", "/socket.io",
    ]

    /// - Parameter path: its segments, without escapes.
    public static func find(_ method: Method, _ path: [String]) -> Place {
        let places = routes(path)
        guard !places.isEmpty else { return .nothing }
        let found = places.first { $0.method == method }
        return found.map { .route($0.route) } ?? .otherMethods
    }

    /// The methods of a path; empty for what is no path of an interface.
    ///
    /// - Parameter path: its segments, without escapes.
    public static func methods(of path: [String]) -> [Method] { routes(path).map(\.method) }

    private static func routes(_ path: [String]) -> [(method: Method, route: SourceRoute)] {
        switch (path.first, path.count) {
        case ("auth", 2) where path[1] == "register": return [(.post, .register)]
        case ("auth", 2) where path[1] == "login": return [(.post, .passwordLogin)]
        case ("1", 3) where path[1] == "auth" && path[2] == "nonce": return [(.get, .makeNonce)]
        case ("1", 3) where path[1] == "auth" && path[2] == "login":
            return [(.post, .exchangeToken)]
        case ("conversations", 1): return [(.get, .listConversations)]
        case ("conversations", 2) where path[1] == "create": return [(.post, .createConversation)]
        case ("chat", 2): return chatRoutes(withoutSuffix(path[1]))
        case ("chat", 3): return chatRoutes(path[1], identifier: withoutSuffix(path[2]))
        default: return []
        }
    }

    private static func chatRoutes(_ name: String) -> [(method: Method, route: SourceRoute)] {
        switch name {
        case "Dialog": [(.get, .listDialogs), (.post, .createDialog)]
        case "Message": [(.get, .listMessages), (.post, .createMessage)]
        default: []
        }
    }

    private static func chatRoutes(
        _ name: String, identifier: String
    ) -> [(method: Method, route: SourceRoute)] {
        switch name {
        case "Dialog" where !identifier.isEmpty: [(.put, .updateDialog(identifier))]
        case "Message" where !identifier.isEmpty:
            [
                (.put, .updateMessages(identifiers: identifier)),
                (.delete, .deleteMessages(identifiers: identifier)),
            ]
        default: []
        }
    }

    /// The name before `.json`, which may be left out. `.xml` stays, and leads to nothing.
    private static func withoutSuffix(_ segment: String) -> String {
        segment.hasSuffix(".json") ? String(segment.dropLast(5)) : segment
    }
}
