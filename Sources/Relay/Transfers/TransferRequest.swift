// What a relay asks of libcurl, and what comes of it.

/// One HTTP request: a POST with a body.
package struct TransferRequest {
    package var url: String
    /// Authorities of the server's certificate, as PEM; nil for the system's.
    package var authorityFile: String?
    /// For the request with its answer; at least 1.
    package var timeoutMilliseconds: Int
    /// Lines `name: value`.
    package var fields: [String]
    package var body: [UInt8]
    package var contentType = "application/json"
    /// Whether requests share a connection, by HTTP/2; only with `https`.
    package var isMultiplexed = false
    /// The client's certificate.
    package var identity: ClientIdentity?
    /// Whether the operator chose the address: then it may be in any network.
    package var isOperators = false

    package init(
        url: String, authorityFile: String?, timeoutMilliseconds: Int, fields: [String],
        body: [UInt8]
    ) {
        self.url = url
        self.authorityFile = authorityFile
        self.timeoutMilliseconds = timeoutMilliseconds
        self.fields = fields
        self.body = body
    }
}

/// A certificate of the client with its key, both as PEM. It is never printed.
package struct ClientIdentity: Sendable {
    package let certificate: [UInt8]
    package let key: [UInt8]

    package init(certificate: [UInt8], key: [UInt8]) {
        self.certificate = certificate
        self.key = key
    }
}

/// What came of a request.
package enum AttemptResult: Hashable, Sendable {
    /// The destination's status, and its `Retry-After` in seconds, 0 for none.
    case answered(status: Int, retryAfterSeconds: UInt64)
    /// No complete answer, and why.
    case failed(String)

    /// Why a request to an address failed that the rules do not permit.
    package static let addressRefusal = "address-not-allowed"

    /// Whether the destination is not well, rather than that it does not take this request: no
    /// answer, or one of a server that is busy or broken.
    package var isFault: Bool {
        switch self {
        case .failed: true
        case .answered(let status, _):
            [408, 425, 429].contains(status) || status >= 500 || status < 200
        }
    }
}

/// The parts of a URL that say where a request goes.
package struct WebDestination: Hashable, Sendable {
    package let isEncrypted: Bool
    /// As ``HostName/normal(_:)`` writes it.
    package let host: String
    package let hasUser: Bool

    /// Nil if the text is no URL of HTTP.
    package init?(_ url: String) {
        let scheme = ["https://", "http://"].first { url.hasPrefix($0) }
        let rest = url.dropFirst(scheme?.count ?? 0)
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard let scheme, !authority.isEmpty, url.utf8.count <= RelayLimits.urlByteCountMaximum,
            url.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), let host = Self.host(of: authority)
        else { return nil }
        isEncrypted = scheme == "https://"
        self.host = HostName.normal(host)
        hasUser = authority.contains("@")
    }

    /// The name or the address; nil if there is none, or if the port is none from 1 to 65535.
    private static func host(of authority: Substring) -> Substring? {
        var rest = authority
        if let at = rest.lastIndex(of: "@") { rest = rest[rest.index(after: at)...] }
        let host: Substring
        if rest.first == "[" {
            guard let end = rest.firstIndex(of: "]") else { return nil }
            host = rest[rest.index(after: rest.startIndex)..<end]
            rest = rest[rest.index(after: end)...]
            guard host.contains(":"),
                host.allSatisfy({ $0.isHexDigit || $0 == ":" || $0 == "." })
            else { return nil }
        } else {
            host = rest.prefix { $0 != ":" }
            rest = rest[host.endIndex...]
            guard !host.isEmpty,
                host.allSatisfy({ $0.isLetter || $0.isNumber || "-._".contains($0) })
            else { return nil }
        }
        guard !rest.isEmpty else { return host }
        let digits = rest.dropFirst()
        let isPort =
            rest.first == ":" && digits.allSatisfy(\.isNumber)
            && (1...65_535).contains(Int(digits) ?? 0)
        return isPort ? host : nil
    }
}
