// Reads the values of a JSON5 document for programs that are clients of a broker. All errors are
// collected, each with its line, column and key.

import CommandLineOptions
import Files
import JSON5
import MartletClient

/// Values of a document, and the errors found in it.
package struct SectionReader {
    package let path: String
    package let text: [UInt8]
    package private(set) var complaints: [String] = []

    package init(path: String, text: [UInt8]) {
        self.path = path
        self.text = text
    }

    package mutating func complain(_ key: String, _ message: String, at offset: Int) {
        let place = TextPosition(offset: offset, in: text)
        let subject = key.isEmpty ? "" : "\(key) "
        complaints.append("\(path):\(place.line):\(place.column): \(subject)\(message)")
    }

    /// The members of an object, without those that are unknown.
    package mutating func members(
        _ node: JSON5Node, _ key: String, known: [String]
    ) -> [(key: String, path: String, node: JSON5Node)] {
        guard case .object(let members) = node.value else {
            complain(key, "must be an object, not \(node.kindName)", at: node.offset)
            return []
        }
        var found: [(key: String, path: String, node: JSON5Node)] = []
        for member in members {
            let path = key.isEmpty ? member.key : "\(key).\(member.key)"
            if known.contains(member.key) {
                found.append((member.key, path, member.node))
            } else {
                let nearest = Spelling.nearest(to: member.key, among: known)
                complain(
                    path, "is unknown" + (nearest.map { "; did you mean \($0)?" } ?? ""),
                    at: member.keyOffset)
            }
        }
        return found
    }

    package mutating func elements(_ node: JSON5Node, _ key: String) -> [(
        key: String, node: JSON5Node
    )] {
        guard case .array(let elements) = node.value else {
            complain(key, "must be a list, not \(node.kindName)", at: node.offset)
            return []
        }
        return elements.enumerated().map { ("\(key)[\($0.offset)]", $0.element) }
    }

    package mutating func text(_ node: JSON5Node, _ key: String) -> String? {
        guard case .string(let text) = node.value else {
            complain(key, "must be a text, not \(node.kindName)", at: node.offset)
            return nil
        }
        guard !text.isEmpty else {
            complain(key, "is empty", at: node.offset)
            return nil
        }
        return text
    }

    package mutating func boolean(_ node: JSON5Node, _ key: String) -> Bool? {
        guard case .boolean(let value) = node.value else {
            complain(key, "must be true or false, not \(node.kindName)", at: node.offset)
            return nil
        }
        return value
    }

    package mutating func integer(_ node: JSON5Node, _ key: String, in range: ClosedRange<Int>)
        -> Int?
    {
        guard case .number(let text) = node.value, let number = Int(text), range.contains(number)
        else {
            complain(
                key, "must be a whole number from \(range.lowerBound) to \(range.upperBound)",
                at: node.offset)
            return nil
        }
        return number
    }

    package mutating func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ node: JSON5Node, _ key: String, as type: Choice.Type
    ) -> Choice? {
        guard let text = text(node, key) else { return nil }
        if let choice = Choice(rawValue: text) { return choice }
        let known = Choice.allCases.map(\.rawValue)
        complain(
            key, "must be \(known.joined(separator: " or ")), not \"\(text)\"", at: node.offset)
        return nil
    }

    package mutating func server(_ node: JSON5Node, _ key: String) -> ServerAddress? {
        guard let text = text(node, key) else { return nil }
        do throws(MartletError) {
            return try ServerAddress(text)
        } catch {
            complain(key, "is wrong: \(error)", at: node.offset)
            return nil
        }
    }

    /// The addresses of one broker: a text with commas between them, or a list of texts. Nil with a
    /// complaint.
    package mutating func servers(_ node: JSON5Node, _ key: String) -> [ServerAddress]? {
        var texts: [String] = []
        if case .array = node.value {
            for (key, node) in elements(node, key) {
                guard let text = text(node, key) else { return nil }
                texts.append(text)
            }
        } else {
            guard let text = text(node, key) else { return nil }
            texts = [text]
        }
        do throws(MartletError) {
            return try ServerAddress.list(texts.joined(separator: ","))
        } catch {
            complain(key, "is wrong: \(error)", at: node.offset)
            return nil
        }
    }

    /// The first line of a file that only its owner and group may read: a password or a token.
    package mutating func secret(_ node: JSON5Node, _ key: String) -> String? {
        guard let file = text(node, key) else { return nil }
        do throws(SecretFileFailure) {
            return try SecretFile.read(file)
        } catch {
            complain("\(key):", "\(error)", at: node.offset)
            return nil
        }
    }

    package mutating func filter(_ node: JSON5Node, _ key: String) -> TopicFilter? {
        guard let text = text(node, key) else { return nil }
        if let filter = TopicFilter(text) { return filter }
        let hint =
            text.hasPrefix("$share/")
            ? "is a shared subscription, which keeps no order"
            : "is no topic filter: + stands alone in a level, # alone in the last one"
        complain(key, hint, at: node.offset)
        return nil
    }
}
