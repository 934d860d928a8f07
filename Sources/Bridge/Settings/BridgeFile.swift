// Reads the configuration of a bridge: JSON5 into settings. All errors are reported at once, each
// with its line, column and key.

import CommandLineOptions
import Files
import JSON5
import MartletClient
import NetTransport
import WireFormat

/// The configuration file.
public enum BridgeFile {
    /// Reads and checks a file.
    ///
    /// - Parameter token: Martlet's token if the file names none.
    /// - Throws: all errors, one line for each.
    public static func settings(
        text: [UInt8], path: String, token: String?
    ) throws(UsageError) -> BridgeSettings {
        let root: JSON5Node
        do throws(JSON5SyntaxError) {
            root = try JSON5Parser.parse(text)
        } catch {
            let place = TextPosition(offset: error.offset, in: text)
            throw UsageError("\(path):\(place.line):\(place.column): \(error.message)")
        }
        var reader = SectionReader(path: path, text: text)
        var builder = BridgeSettingsBuilder(token: token)
        builder.read(root, &reader)
        guard reader.complaints.isEmpty, let settings = builder.finish(root, &reader) else {
            throw UsageError(reader.complaints.joined(separator: "\n"))
        }
        return settings
    }
}

/// Values of a document, and the errors found in it.
struct SectionReader {
    let path: String
    let text: [UInt8]
    private(set) var complaints: [String] = []

    init(path: String, text: [UInt8]) {
        self.path = path
        self.text = text
    }

    mutating func complain(_ key: String, _ message: String, at offset: Int) {
        let place = TextPosition(offset: offset, in: text)
        let subject = key.isEmpty ? "" : "\(key) "
        complaints.append("\(path):\(place.line):\(place.column): \(subject)\(message)")
    }

    /// The members of an object, without those that are unknown.
    mutating func members(
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

    mutating func elements(_ node: JSON5Node, _ key: String) -> [(key: String, node: JSON5Node)] {
        guard case .array(let elements) = node.value else {
            complain(key, "must be a list, not \(node.kindName)", at: node.offset)
            return []
        }
        return elements.enumerated().map { ("\(key)[\($0.offset)]", $0.element) }
    }

    mutating func text(_ node: JSON5Node, _ key: String) -> String? {
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

    mutating func boolean(_ node: JSON5Node, _ key: String) -> Bool? {
        guard case .boolean(let value) = node.value else {
            complain(key, "must be true or false, not \(node.kindName)", at: node.offset)
            return nil
        }
        return value
    }

    mutating func integer(_ node: JSON5Node, _ key: String, in range: ClosedRange<Int>) -> Int? {
        guard case .number(let text) = node.value, let number = Int(text), range.contains(number)
        else {
            complain(
                key, "must be a whole number from \(range.lowerBound) to \(range.upperBound)",
                at: node.offset)
            return nil
        }
        return number
    }

    mutating func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ node: JSON5Node, _ key: String, as type: Choice.Type
    ) -> Choice? {
        guard let text = text(node, key) else { return nil }
        if let choice = Choice(rawValue: text) { return choice }
        let known = Choice.allCases.map(\.rawValue)
        complain(
            key, "must be \(known.joined(separator: " or ")), not \"\(text)\"", at: node.offset)
        return nil
    }

    mutating func server(_ node: JSON5Node, _ key: String) -> ServerAddress? {
        guard let text = text(node, key) else { return nil }
        do throws(MartletError) {
            return try ServerAddress(text)
        } catch {
            complain(key, "is wrong: \(error)", at: node.offset)
            return nil
        }
    }

    /// The first line of a file that only its owner and group may read: a password or a token.
    mutating func secret(_ node: JSON5Node, _ key: String) -> String? {
        guard let file = text(node, key) else { return nil }
        do throws(SecretFileFailure) {
            return try SecretFile.read(file)
        } catch {
            complain("\(key):", "\(error)", at: node.offset)
            return nil
        }
    }

    mutating func filter(_ node: JSON5Node, _ key: String) -> TopicFilter? {
        guard let text = text(node, key) else { return nil }
        if let filter = TopicFilter(text) { return filter }
        let hint =
            text.hasPrefix("$share/")
            ? "is a shared subscription, which keeps no order"
            : "is no topic filter: + stands alone in a level, # alone in the last one"
        complain(key, hint, at: node.offset)
        return nil
    }

    mutating func template(
        _ node: JSON5Node, _ key: String, names: Set<String>, for filter: TopicFilter?,
        isTopic: Bool
    ) -> Template? {
        guard let text = text(node, key) else { return nil }
        do throws(Template.Fault) {
            let template = try Template(text, names: names)
            let fault =
                (isTopic ? template.faultAsTopic : nil) ?? filter.flatMap(template.fault(for:))
            guard let fault else { return template }
            complain(key, fault, at: node.offset)
        } catch {
            complain(key, error.message, at: node.offset)
        }
        return nil
    }
}

/// The files of a TLS connection.
struct TrustFiles {
    var authority: String?
    var certificate: String?
    var key: String?

    static let keys = ["caFile", "certificateFile", "keyFile"]

    /// Consumes a key that is one of ``keys``.
    mutating func take(_ name: String, path: String, node: JSON5Node, reader r: inout SectionReader)
    {
        switch name {
        case "caFile": authority = r.text(node, path)
        case "certificateFile": certificate = r.text(node, path)
        default: key = r.text(node, path)
        }
    }

    /// The context of an encrypted connection.
    func context(
        for server: ServerAddress, _ section: String, at offset: Int, _ r: inout SectionReader
    ) -> ClientTLSContext? {
        guard (certificate == nil) == (key == nil) else {
            r.complain(section, "needs certificateFile and keyFile together", at: offset)
            return nil
        }
        guard server.transport == .tls else {
            if authority != nil || certificate != nil {
                r.complain(section, "has files for TLS and a server without it", at: offset)
            }
            return nil
        }
        do throws(TransportError) {
            return try ClientTLSContext(
                trust: authority.map { .authorityFile($0) } ?? .system,
                certificateChainFile: certificate, keyFile: key)
        } catch {
            r.complain(section, "cannot use TLS: \(error)", at: offset)
            return nil
        }
    }
}
