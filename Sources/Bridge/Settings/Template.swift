// The templates of rules: text with placeholders in braces that a message fills.
//
//     {0} {1} …   a level of the topic, counted from 0      {from}    who sent it
//     {2..}       all levels from 2 on, at the end          {group}   the group it was sent to
//                                                           {topic}   the whole topic

import ClientProgram

/// The values that a message gives to a template.
struct TemplateValues {
    var topic: TopicLevels?
    var from: ArraySlice<UInt8> = []
    var group: ArraySlice<UInt8> = []
}

/// Text with placeholders.
struct Template: Hashable, Sendable {
    enum Part: Hashable, Sendable {
        case text([UInt8])
        case level(Int)
        /// All levels from here on. If there are none, the slash before it is omitted too.
        case rest(Int)
        case from
        case group
        case topic
    }

    let source: String
    private(set) var parts: [Part] = []

    /// The reason why a text is no template.
    struct Fault: Error, Hashable {
        var message: String
    }

    /// - Parameter names: the named placeholders that its messages can fill.
    init(_ source: String, names: Set<String>) throws(Fault) {
        self.source = source
        var text: [UInt8] = []
        var rest = Array(source.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "{") || byte == UInt8(ascii: "}") else {
                text.append(byte)
                continue
            }
            guard byte == UInt8(ascii: "{"), let end = rest.firstIndex(of: UInt8(ascii: "}"))
            else { throw Fault(message: "has an unmatched brace") }
            if !text.isEmpty { parts.append(.text(text)) }
            text = []
            let name = String(decoding: rest[..<end], as: UTF8.self)
            parts.append(try Self.place(name, names))
            rest = rest[(end + 1)...]
        }
        if !text.isEmpty { parts.append(.text(text)) }
        guard !parts.isEmpty else { throw Fault(message: "is empty") }
    }

    private static func place(_ name: String, _ names: Set<String>) throws(Fault) -> Part {
        if names.contains(name) {
            switch name {
            case "from": return .from
            case "group": return .group
            case "topic": return .topic
            default: break
            }
        }
        let isRest = name.hasSuffix("..")
        let digits = isRest ? name.dropLast(2) : name[...]
        if names.contains("topic"), (1...2).contains(digits.utf8.count),
            digits.utf8.allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains),
            let level = Int(digits)
        {
            return isRest ? .rest(level) : .level(level)
        }
        var known = names.sorted().map { "{\($0)}" }
        if names.contains("topic") { known += ["{1}", "{2..}"] }
        throw Fault(
            message: "has {\(name)}, which its messages do not have; they have "
                + (known.isEmpty ? "none" : known.joined(separator: ", ")))
    }

    /// Whether it has any placeholder.
    var isFixed: Bool {
        parts.allSatisfy { if case .text = $0 { true } else { false } }
    }

    /// The error for the topics of a filter; nil if all can fill it.
    func fault(for filter: TopicFilter) -> String? {
        for part in parts {
            switch part {
            case .level(let level) where level >= filter.levelCountMinimum:
                return "has {\(level)}, and \"\(filter.text)\" has topics whose last level is "
                    + "\(filter.levelCountMinimum - 1), counted from 0"
            case .rest(let level) where level > filter.levelCountMinimum:
                return "has {\(level)..}, and \"\(filter.text)\" has topics whose last level is "
                    + "\(filter.levelCountMinimum - 1), counted from 0"
            default: break
            }
        }
        return nil
    }

    /// Its error as a topic; nil for none.
    var faultAsTopic: String? {
        for (index, part) in parts.enumerated() {
            switch part {
            case .text(let text):
                if text.contains(where: { "+#\0".utf8.contains($0) }) {
                    return "is a topic and has no + or #"
                }
            case .rest:
                let isLast = index == parts.count - 1
                var beginsLevel = index == 0
                if index > 0, case .text(let text) = parts[index - 1] {
                    beginsLevel = text.last == UInt8(ascii: "/")
                }
                guard isLast, beginsLevel else {
                    return "can have {2..} only as its end, behind a /"
                }
            case .level, .from, .group, .topic: break
            }
        }
        return nil
    }

    /// A filter that matches every topic that this template can produce.
    var asFilter: TopicFilter? {
        // A placeholder stands for a level, whatever surrounds it.
        var text = ""
        for part in parts {
            switch part {
            case .text(let bytes): text += String(decoding: bytes, as: UTF8.self)
            case .level, .from, .group: text += "+"
            case .rest, .topic: text += "#"
            }
        }
        var levels: [String] = []
        for level in text.split(separator: "/", omittingEmptySubsequences: false) {
            if level.contains("#") {
                levels.append("#")
                break
            }
            levels.append(level.contains("+") ? "+" : String(level))
        }
        return TopicFilter(levels.joined(separator: "/"))
    }

    /// Fills the placeholders; nil if the message has too few levels.
    func filled(_ values: TemplateValues) -> [UInt8]? {
        var result: [UInt8] = []
        for part in parts {
            switch part {
            case .text(let text): result += text
            case .from: result += values.from
            case .group: result += values.group
            case .topic:
                guard let topic = values.topic else { return nil }
                result += topic.rest(from: 0)
            case .level(let level):
                guard let topic = values.topic, level < topic.count else { return nil }
                result += topic[level]
            case .rest(let level):
                guard let topic = values.topic, level <= topic.count else { return nil }
                if level == topic.count {
                    if result.last == UInt8(ascii: "/") { result.removeLast() }
                } else {
                    result += topic.rest(from: level)
                }
            }
        }
        return result
    }
}
