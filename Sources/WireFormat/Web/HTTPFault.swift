// The faults of requests, and the status that answers each.

/// The statuses that this program sends (RFC 9110, 15).
public enum HTTPStatus: UInt16, CaseIterable, Sendable {
    case switchingProtocols = 101
    case ok = 200
    case created = 201
    case accepted = 202
    case noContent = 204
    case temporaryRedirect = 307
    case badRequest = 400
    case unauthorized = 401
    case forbidden = 403
    case notFound = 404
    case methodNotAllowed = 405
    case requestTimeout = 408
    case conflict = 409
    case contentTooLarge = 413
    case uriTooLong = 414
    case unsupportedMediaType = 415
    case expectationFailed = 417
    case unprocessableContent = 422
    case upgradeRequired = 426
    case tooManyRequests = 429
    case headTooLarge = 431
    case internalServerError = 500
    case notImplemented = 501
    case unavailable = 503
    case versionNotSupported = 505
    case insufficientStorage = 507

    /// The reason phrase of the status line.
    public var phrase: StaticString {
        switch self {
        case .switchingProtocols: "Switching Protocols"
        case .ok: "OK"
        case .created: "Created"
        case .accepted: "Accepted"
        case .noContent: "No Content"
        case .temporaryRedirect: "Temporary Redirect"
        case .badRequest: "Bad Request"
        case .unauthorized: "Unauthorized"
        case .forbidden: "Forbidden"
        case .notFound: "Not Found"
        case .methodNotAllowed: "Method Not Allowed"
        case .requestTimeout: "Request Timeout"
        case .conflict: "Conflict"
        case .contentTooLarge: "Content Too Large"
        case .uriTooLong: "URI Too Long"
        case .unsupportedMediaType: "Unsupported Media Type"
        case .expectationFailed: "Expectation Failed"
        case .unprocessableContent: "Unprocessable Content"
        case .upgradeRequired: "Upgrade Required"
        case .tooManyRequests: "Too Many Requests"
        case .headTooLarge: "Request Header Fields Too Large"
        case .internalServerError: "Internal Server Error"
        case .notImplemented: "Not Implemented"
        case .unavailable: "Service Unavailable"
        case .versionNotSupported: "HTTP Version Not Supported"
        case .insufficientStorage: "Insufficient Storage"
        }
    }
}

/// The reason for which a request's head is refused. The stream cannot be read after it: if two
/// readers disagree on the end of a request, one can be smuggled in (RFC 9112, 11.2).
public enum HTTPFault: UInt8, Error, CaseIterable, Sendable {
    /// A line feed without a carriage return, or a carriage return without a line feed.
    case lineEnd
    /// A NUL or another control character.
    case controlCharacter
    /// Not `METHOD TARGET HTTP/1.1`.
    case requestLine
    /// A version before HTTP/1.0, or HTTP/2 and later.
    case version
    /// A target that is neither a path nor an absolute URI.
    case target
    /// A request line that is longer than the maximum of a head.
    case targetTooLong
    /// A line that continues the one before it (RFC 9112, 5.2).
    case foldedLine
    /// A field without a colon, or with a space before it.
    case field
    /// No Host, more than one, or one that is not a host.
    case host
    /// A Content-Length that is not a number.
    case contentLength
    /// Two lengths, or a length and a transfer coding.
    case twoLengths
    /// A transfer coding other than `chunked`.
    case transferCoding
    /// A field that may occur once occurs twice.
    case repeatedField
    /// More bytes than the maximum of a head.
    case headTooLarge
    /// More fields than the maximum of a head.
    case tooManyFields

    /// The status of the response.
    public var status: HTTPStatus {
        switch self {
        case .version: .versionNotSupported
        case .targetTooLong: .uriTooLong
        case .headTooLarge, .tooManyFields: .headTooLarge
        case .transferCoding: .notImplemented
        case .lineEnd, .controlCharacter, .requestLine, .target, .foldedLine, .field, .host,
            .contentLength, .twoLengths, .repeatedField:
            .badRequest
        }
    }

    /// A description for the peer and for the log.
    public var text: StaticString {
        switch self {
        case .lineEnd: "a line does not end with CR LF"
        case .controlCharacter: "a control character"
        case .requestLine: "the request line is malformed"
        case .version: "the version is not HTTP/1.1"
        case .target: "the target is malformed"
        case .targetTooLong: "the request line is too long"
        case .foldedLine: "a folded field line"
        case .field: "a field line is malformed"
        case .host: "Host is missing, repeated or malformed"
        case .contentLength: "Content-Length is malformed"
        case .twoLengths: "more than one length of the content"
        case .transferCoding: "the transfer coding is not chunked"
        case .repeatedField: "a field is repeated"
        case .headTooLarge: "the head is too large"
        case .tooManyFields: "too many fields"
        }
    }
}
