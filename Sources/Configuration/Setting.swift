// A setting: its key, how its value is read and written, and its documentation.

import JSON5

/// The error of a value, as a sentence without its subject: "must be from 1 to 100".
struct SettingFault: Error, Hashable, Sendable {
    var message: String

    init(_ message: String) {
        self.message = message
    }
}

/// When a changed value takes effect after SIGHUP.
public enum ReloadEffect: String, Hashable, Sendable {
    /// For everything, including connected sessions.
    case atOnce = "at once"
    /// For connections and sessions that begin later.
    case newConnections = "new connections"
    /// Only at the next start of the broker; a reload reports it and keeps the old value.
    case restart
}

/// One key of the configuration.
public struct Setting: Sendable {
    /// The path, as in `limits.connections`.
    public let key: String
    /// Type, unit and range, for people.
    public let domain: String
    public let reload: ReloadEffect
    /// Its effect, and the source of its default.
    public let reason: String
    /// The value as written in a configuration.
    let written: @Sendable (BrokerSettings) -> String
    let assign: @Sendable (JSON5Node, inout BrokerSettings) throws(SettingFault) -> Void

    typealias Path<Value> = WritableKeyPath<BrokerSettings, Value> & Sendable

    static func integer(
        _ key: String, at path: Path<Int>, in range: ClosedRange<Int>, unit: String,
        reload: ReloadEffect, _ reason: String
    ) -> Setting {
        Setting(
            key: key, domain: "\(unit), \(range.lowerBound) to \(range.upperBound)", reload: reload,
            reason: reason, written: { String($0[keyPath: path]) },
            assign: { node, settings throws(SettingFault) in
                settings[keyPath: path] = try integer(node, in: range)
            })
    }

    static func text(
        _ key: String, at path: Path<String>, reload: ReloadEffect, _ reason: String
    ) -> Setting {
        Setting(
            key: key, domain: "path", reload: reload, reason: reason,
            written: { JSONText.quoted($0[keyPath: path]) },
            assign: { node, settings throws(SettingFault) in
                settings[keyPath: path] = try nonEmptyText(node)
            })
    }

    static func optionalText(
        _ key: String, at path: Path<String?>, domain: String = "path or null",
        reload: ReloadEffect, _ reason: String
    ) -> Setting {
        Setting(
            key: key, domain: domain, reload: reload, reason: reason,
            written: { $0[keyPath: path].map(JSONText.quoted) ?? "null" },
            assign: { node, settings throws(SettingFault) in
                settings[keyPath: path] = node.value == .null ? nil : try nonEmptyText(node)
            })
    }

    static func boolean(
        _ key: String, at path: Path<Bool>, reload: ReloadEffect, _ reason: String
    ) -> Setting {
        Setting(
            key: key, domain: "true or false", reload: reload, reason: reason,
            written: { String($0[keyPath: path]) },
            assign: { node, settings throws(SettingFault) in
                settings[keyPath: path] = try boolean(node)
            })
    }

    static func choice<Value: RawRepresentable<String> & CaseIterable & Sendable>(
        _ key: String, at path: Path<Value>, reload: ReloadEffect, _ reason: String
    ) -> Setting {
        Setting(
            key: key, domain: "one of \(names(of: Value.self))", reload: reload, reason: reason,
            written: { JSONText.quoted($0[keyPath: path].rawValue) },
            assign: { node, settings throws(SettingFault) in
                settings[keyPath: path] = try choice(node)
            })
    }

    static func texts(
        _ key: String, at path: Path<[String]>, domain: String,
        check: @escaping @Sendable (String) throws(SettingFault) -> Void = { _ in },
        reload: ReloadEffect, _ reason: String
    ) -> Setting {
        Setting(
            key: key, domain: domain, reload: reload, reason: reason,
            written: {
                let values = $0[keyPath: path].map { JSONText.quoted($0) }
                return "[\(values.joined(separator: ", "))]"
            },
            assign: { node, settings throws(SettingFault) in
                guard case .array(let elements) = node.value else {
                    throw SettingFault("must be a list, not \(node.kindName)")
                }
                var texts: [String] = []
                for (index, element) in elements.enumerated() {
                    do throws(SettingFault) {
                        let text = try nonEmptyText(element)
                        try check(text)
                        texts.append(text)
                    } catch {
                        throw SettingFault("entry \(index + 1) \(error.message)")
                    }
                }
                settings[keyPath: path] = texts
            })
    }

    static func listeners(
        _ key: String, at path: Path<[ListenerSettings]>, reload: ReloadEffect, _ reason: String
    ) -> Setting {
        Setting(
            key: key, domain: "list of URLs", reload: reload, reason: reason,
            written: {
                let values = $0[keyPath: path].map { JSONText.quoted($0.description) }
                return "[\(values.joined(separator: ", "))]"
            },
            assign: { node, settings throws(SettingFault) in
                guard case .array(let elements) = node.value else {
                    throw SettingFault("must be a list, not \(node.kindName)")
                }
                if elements.isEmpty { throw SettingFault("must name at least one listener") }
                var listeners: [ListenerSettings] = []
                for (index, element) in elements.enumerated() {
                    do throws(SettingFault) {
                        listeners.append(try ListenerSettings(try nonEmptyText(element)))
                    } catch {
                        throw SettingFault("entry \(index + 1) \(error.message)")
                    }
                }
                settings[keyPath: path] = listeners
            })
    }

    // MARK: - Values

    static func integer(
        _ node: JSON5Node, in range: ClosedRange<Int>
    ) throws(SettingFault) -> Int {
        guard case .number(let text) = node.value else {
            throw SettingFault("must be a number, not \(node.kindName)")
        }
        guard let number = wholeNumber(text) else {
            throw SettingFault("must be a whole number, not \(text)")
        }
        guard range.contains(number) else {
            throw SettingFault(
                "must be from \(range.lowerBound) to \(range.upperBound), not \(text)")
        }
        return number
    }

    static func boolean(_ node: JSON5Node) throws(SettingFault) -> Bool {
        guard case .boolean(let value) = node.value else {
            throw SettingFault("must be true or false, not \(node.kindName)")
        }
        return value
    }

    static func choice<Value: RawRepresentable<String> & CaseIterable>(
        _ node: JSON5Node
    ) throws(SettingFault) -> Value {
        guard let value = Value(rawValue: try nonEmptyText(node)) else {
            throw SettingFault("must be one of \(names(of: Value.self))")
        }
        return value
    }

    private static func names<Value: RawRepresentable<String> & CaseIterable>(
        of type: Value.Type
    ) -> String {
        Value.allCases.map { JSONText.quoted($0.rawValue) }.joined(separator: ", ")
    }

    /// Decimal or hexadecimal; `1e3` and `1.0` are whole too, but are refused as unclear.
    private static func wholeNumber(_ text: String) -> Int? {
        let isNegative = text.hasPrefix("-")
        let unsigned = isNegative || text.hasPrefix("+") ? text.dropFirst() : text[...]
        let isHexadecimal = unsigned.hasPrefix("0x") || unsigned.hasPrefix("0X")
        let digits = isHexadecimal ? unsigned.dropFirst(2) : unsigned
        return Int((isNegative ? "-" : "") + digits, radix: isHexadecimal ? 16 : 10)
    }

    static func nonEmptyText(_ node: JSON5Node) throws(SettingFault) -> String {
        guard case .string(let text) = node.value else {
            throw SettingFault("must be a text in quotes, not \(node.kindName)")
        }
        if text.isEmpty { throw SettingFault("must not be empty") }
        // A C string for the system would end at a NUL.
        if text.utf8.contains(0) { throw SettingFault("must not contain NUL") }
        return text
    }
}
