// CORS: which pages of other origins may read a response (Fetch Standard, 3.2). No response lets a
// browser send cookies or certificates of its own accord: a page presents its credential itself.

import Primitives

/// What a response says about pages of other origins.
public struct CORSHeaders: Sendable, Equatable {
    /// The origin whose pages may read the response, as the request names it. Empty if they may
    /// not; caches are told nevertheless that the response depends on the origin.
    public var origin: [UInt8]

    /// Seconds for which a browser remembers the answer to a preflight: an origin that is removed
    /// from the list can begin no further requests after ten minutes. Browsers remember for at most
    /// two hours (Chromium).
    public static let preflightSeconds: UInt64 = 600

    public init(origin: [UInt8] = []) {
        self.origin = origin
    }

    public func append(to bytes: inout [UInt8]) {
        bytes.append("Vary: Origin\r\n")
        guard !origin.isEmpty else { return }
        bytes.append("Access-Control-Allow-Origin: ")
        bytes += origin
        bytes.append("\r\nAccess-Control-Expose-Headers: Retry-After\r\n")
    }
}

/// What a page of another origin may send: the answer to a preflight.
public struct HTTPPreflight: Sendable, Equatable {
    public var methods: [StaticString]
    /// Names of fields, beside those that every page may send.
    public var fields: [StaticString]

    public init(methods: [StaticString], fields: [StaticString]) {
        self.methods = methods
        self.fields = fields
    }

    public static func == (a: Self, b: Self) -> Bool {
        a.methods.map { $0.description } == b.methods.map { $0.description }
            && a.fields.map { $0.description } == b.fields.map { $0.description }
    }

    func append(to bytes: inout [UInt8]) {
        bytes.append(list: methods, named: "Access-Control-Allow-Methods: ")
        bytes.append(list: fields, named: "Access-Control-Allow-Headers: ")
        bytes.append("Access-Control-Max-Age: ")
        bytes.append(decimal: CORSHeaders.preflightSeconds)
        bytes.append("\r\n")
    }
}

extension [UInt8] {
    /// Appends a field with a list; nothing if the list is empty.
    mutating func append(list: [StaticString], named name: StaticString) {
        for (index, element) in list.enumerated() {
            append(index == 0 ? name : ", ")
            append(element)
        }
        if !list.isEmpty { append("\r\n") }
    }
}
