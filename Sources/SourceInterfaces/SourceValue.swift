// JSON of any form: the bodies of these systems have members that depend on the app.

import Administration
import FoundationEssentials

/// A JSON value.
public indirect enum SourceValue: Hashable, Sendable {
    case null
    case boolean(Bool)
    case number(Int64)
    /// A number that is no whole one.
    case fraction(Double)
    case text(String)
    case array([SourceValue])
    case object([String: SourceValue])

    static func optional(_ text: String?) -> SourceValue { text.map { .text($0) } ?? .null }

    static func count(_ number: some BinaryInteger) -> SourceValue {
        .number(Int64(clamping: number))
    }

    /// Reads content.
    ///
    /// - Throws: the status 400 for what is no JSON, or has too many levels.
    init(_ content: [UInt8]) throws(SourceRefusal) {
        guard Self.depth(of: content) <= SourceLimits.depthMaximum else {
            throw SourceRefusal(400, "more than \(SourceLimits.depthMaximum) levels of JSON")
        }
        do throws(AdministrationRefusal) {
            self = try AdministrationLine.decode(SourceValue.self, from: content)
        } catch {
            throw SourceRefusal(400, "the content is not JSON in UTF-8")
        }
    }

    /// Levels, before the content is read: a reader that calls itself must not go deeper.
    private static func depth(of content: [UInt8]) -> Int {
        var (depth, deepest) = (0, 0)
        var isText = false
        var isEscaped = false
        for byte in content {
            if isText {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isText = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isText = true
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                deepest = max(deepest, depth)
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            default: break
            }
        }
        return deepest
    }

    /// As JSON. Members are in the order of their names.
    public var bytes: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do {
            return try Array(encoder.encode(self))
        } catch {
            // Only a number that is no number cannot be written, and none is read.
            preconditionFailure("\(self) is not encoded: \(error)")
        }
    }

    /// The text of a text or a number; nil for other values.
    var plainText: String? {
        switch self {
        case .text(let text): text
        case .number(let number): "\(number)"
        case .boolean(let boolean): boolean ? "1" : "0"
        default: nil
        }
    }
}

extension SourceValue: Codable {
    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    public init(from decoder: any Decoder) throws {
        if let members = try? decoder.container(keyedBy: Key.self) {
            var object: [String: SourceValue] = [:]
            for key in members.allKeys {
                object[key.stringValue] = try members.decode(SourceValue.self, forKey: key)
            }
            self = .object(object)
            return
        }
        if var elements = try? decoder.unkeyedContainer() {
            var array: [SourceValue] = []
            while !elements.isAtEnd { array.append(try elements.decode(SourceValue.self)) }
            self = .array(array)
            return
        }
        let value = try decoder.singleValueContainer()
        if value.decodeNil() {
            self = .null
        } else if let text = try? value.decode(String.self) {
            self = .text(text)
        } else if let boolean = try? value.decode(Bool.self) {
            self = .boolean(boolean)
        } else if let number = try? value.decode(Int64.self) {
            self = .number(number)
        } else {
            // Only what is finite can be written again.
            let number = try value.decode(Double.self)
            self = number.isFinite ? .fraction(number) : .null
        }
    }

    public func encode(to encoder: any Encoder) throws {
        switch self {
        case .object(let object):
            var members = encoder.container(keyedBy: Key.self)
            for (name, value) in object {
                try members.encode(value, forKey: Key(stringValue: name))
            }
        case .array(let array):
            var elements = encoder.unkeyedContainer()
            for value in array { try elements.encode(value) }
        case .null:
            var value = encoder.singleValueContainer()
            try value.encodeNil()
        case .boolean(let boolean):
            var value = encoder.singleValueContainer()
            try value.encode(boolean)
        case .number(let number):
            var value = encoder.singleValueContainer()
            try value.encode(number)
        case .fraction(let number):
            var value = encoder.singleValueContainer()
            try value.encode(number)
        case .text(let text):
            var value = encoder.singleValueContainer()
            try value.encode(text)
        }
    }
}
