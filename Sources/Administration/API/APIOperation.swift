// An operation of the HTTP API: which request a method on a path is.

/// The methods that operations have.
public enum APIMethod: String, Hashable, Sendable, CaseIterable {
    case get = "GET"
    case post = "POST"
    case put = "PUT"
    case delete = "DELETE"
}

/// One row of the table of operations.
public struct APIOperation: Sendable {
    /// What it makes of a request.
    typealias Reading = @Sendable (APIValues) throws(AdministrationRefusal) -> AdministrationCommand

    /// Where all paths begin.
    public static let root = "/api/v1"
    /// Where the paths of one app begin.
    static let appPath = "/apps/{app}"

    public let kind: AdministrationCommand.Kind
    public let method: APIMethod
    /// Its path below ``root``, such as `/apps/{app}`.
    public let path: String
    /// The least role of an operator, or of an app's key, that may do it.
    public let role: OperatorRole
    /// The principals that may do it: operators and, where the path is of one app, its keys, unless
    /// the table says something else.
    public let serves: [APIPrincipal.Kind]
    /// The status of its success.
    public let status: UInt16
    /// Those of the path first, in its order.
    public let members: [APIMember]
    /// Members of the query that stand for those of the content where the content is a payload.
    public let payloadMembers: [APIMember]
    /// What it does, as one sentence.
    public let summary: String
    /// The members of its answer.
    public let answer: [APIAnswerMember]
    /// The position of the app among the members of the path; nil if the credential names the app.
    let appMember: Int?
    private let segments: [Segment]
    private let reading: Reading

    private enum Segment: Hashable, Sendable {
        case word(String)
        case member
    }

    init(
        _ kind: AdministrationCommand.Kind, _ method: APIMethod, at path: String,
        role: OperatorRole, serves: [APIPrincipal.Kind]? = nil, status: UInt16 = 200,
        summary: String, members: [APIMember] = [], payloadMembers: [APIMember] = [],
        answer: [APIAnswerMember] = [], reading: @escaping Reading
    ) {
        self.kind = kind
        self.method = method
        self.path = path
        self.role = role
        let isOfApp = path == Self.appPath || path.hasPrefix(Self.appPath + "/")
        appMember = isOfApp ? 0 : nil
        self.serves = serves ?? (isOfApp && role < .own ? [.operator, .appKey] : [.operator])
        self.status = status
        self.summary = summary
        self.payloadMembers = payloadMembers
        self.answer = answer
        self.reading = reading
        let words = path.split(separator: "/")
        segments = words.map { $0.hasPrefix("{") ? .member : .word(String($0)) }
        let inPath = words.filter { $0.hasPrefix("{") }.map { word in
            let name = String(word.dropFirst().dropLast())
            return members.first { $0.place == .path && $0.name == name } ?? .path(name)
        }
        self.members = inPath + members.filter { $0.place != .path }
    }

    /// Whether the log has a line for each request: it changes what the broker has, or shows what
    /// users have written. Messages that are sent and applied have none, as those of clients:
    /// there may be thousands in a second.
    public var isLogged: Bool {
        method != .get && kind != .sendMessage && kind != .reportApplied || showsContents
    }

    /// Whether the answer has contents of messages.
    private var showsContents: Bool {
        answer.contains { $0.name == "content" || role > .view && $0.hasContent }
    }

    /// Whether operators or keys need a role for it.
    public var needsRole: Bool { appMember != nil || serves.contains(.operator) }

    /// Whether the field `Martlet-User` names the user as whom it acts.
    public var takesActingUser: Bool {
        kind == .sendMessage || kind == .recallMessage || kind == .replaceMessage
            || kind == .reportApplied && appMember == nil
    }

    /// Whether `wait=0` asks for an answer before the commit, with the status 202.
    public var isAnsweredEarly: Bool { kind == .sendMessage }

    /// Whether `Idempotency-Key` makes it safe to repeat.
    public var takesIdempotencyKey: Bool { kind == .sendMessage }

    /// Whether the content of a request is a payload, if its type is not `application/json`: the
    /// query names the receiver.
    public func takesPayload(query: [(name: String, value: String)]) -> Bool {
        !payloadMembers.isEmpty && query.contains { $0.name == "topic" || $0.name == "user" }
    }

    /// Whether it takes content.
    public var takesContent: Bool { members.contains { $0.place == .body } }

    /// The members of a path that fits; nil for another path.
    ///
    /// - Parameter segments: those below ``root``.
    func values(ofPath segments: some Collection<String>) -> [String]? {
        guard segments.count == self.segments.count else { return nil }
        var values: [String] = []
        for (segment, text) in zip(self.segments, segments) {
            switch segment {
            case .word(let word): guard word == text else { return nil }
            case .member:
                guard !text.isEmpty else { return nil }
                values.append(text)
            }
        }
        return values
    }

    /// The request that a principal makes.
    ///
    /// - Parameters:
    ///   - path: the values of the members of the path.
    ///   - content: a JSON object; may be empty.
    ///   - payload: the content, if it is no JSON object.
    ///   - requester: who makes it; nil for an operator who acts for nobody.
    public func command(
        path: [String], query: [(name: String, value: String)], content: [UInt8],
        payload: APIPayload? = nil, by requester: APIRequester? = nil
    ) throws(AdministrationRefusal) -> AdministrationCommand {
        if payload == nil {
            for (name, _) in query where payloadMembers.contains(where: { $0.name == name }) {
                throw .malformed(
                    "?\(name) goes with a payload: content of another type than application/json")
            }
        }
        // Of the members in a JSON object none may be in the query.
        let known =
            payload == nil ? members : members.filter { $0.place != .body } + payloadMembers
        let command = try reading(
            APIValues(
                known, path: path, query: query, content: content, payload: payload,
                by: requester))
        try command.check()
        return command
    }
}

/// What is at a path of the API.
public struct APIPlace: Sendable {
    /// An operation, and the values of its path.
    public let operations: [(operation: APIOperation, path: [String])]

    /// Finds the operations at a path; nil if there are none.
    ///
    /// - Parameter segments: those of the whole path.
    public init?(segments: [String]) {
        let root = APIOperation.root.split(separator: "/").map(String.init)
        guard segments.starts(with: root) else { return nil }
        let rest = segments.dropFirst(root.count)
        operations = APIOperation.all.compactMap { operation in
            operation.values(ofPath: rest).map { (operation, $0) }
        }
        if operations.isEmpty { return nil }
    }

    /// The methods that may be used.
    public var methods: [APIMethod] {
        APIMethod.allCases.filter { method in operations.contains { $0.operation.method == method }
        }
    }
}

extension APIAnswerMember {
    /// Whether one of its members is the content of a message.
    fileprivate var hasContent: Bool {
        switch form {
        case .text, .texts, .boolean, .number: false
        case .object(let members), .objects(let members):
            members.contains { $0.name == "content" || $0.hasContent }
        }
    }
}
