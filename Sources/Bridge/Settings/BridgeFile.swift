// Reads the configuration of a bridge: JSON5 into settings. All errors are reported at once, each
// with its line, column and key.

import ClientProgram
import CommandLineOptions
import JSON5

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

extension SectionReader {
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
