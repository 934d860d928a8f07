// `martlet wake template`: what a relay sends to targets of a kind.

import Administration
import CommandLineOptions
import Files

extension ParsedOptions<WakeOption> {
    fileprivate func kind() throws(UsageError) -> WakeTargetKind {
        guard let kind = try word(.kind, as: WakeTargetKind.self) else {
            throw UsageError("missing --kind KIND")
        }
        return kind
    }

    /// The template of a file or of the argument; nil for none.
    fileprivate func template() throws -> String? {
        guard let path = self[.file] else { return self[.template] }
        guard !has(.template) else {
            throw UsageError("--file and --template exclude each other")
        }
        do throws(FileFailure) {
            return String(decoding: try SmallFile.read(path), as: UTF8.self)
        } catch {
            throw CommandFailure("\(path): \(error)", .failure)
        }
    }
}

/// `martlet wake template set`
enum WakeTemplateSetCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<WakeOption>.options(
            arguments, accepting: [.app, .kind, .file, .template, .json])
        let app = try options.app()
        let kind = try options.kind()
        guard let template = try options.template() else {
            throw UsageError("missing --file FILE or --template JSON")
        }
        let broker = try options.administration()
        let reply = try broker.send(SetWakeTemplate(app: app, kind: kind, template: template))
        StandardStream.output.print(
            options.has(.json)
                ? jsonLine(reply)
                : "the template of \(app) for \(kind.rawValue) is set; the next request to the "
                    + "relay has it")
    }
}

/// `martlet wake template try`
enum WakeTemplateTryCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<WakeOption>.options(
            arguments, accepting: [.app, .kind, .file, .template, .json])
        let app = try options.app()
        let kind = try options.kind()
        let template = try options.template()
        let broker = try options.administration()
        let reply = try broker.send(TryWakeTemplate(app: app, kind: kind, template: template))
        StandardStream.output.print(
            options.has(.json) ? jsonLine(reply) : printable(reply.content))
    }
}

/// `martlet wake template list`
enum WakeTemplateListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<WakeOption>.options(arguments, accepting: [.app, .json])
        let app = try options.app()
        let broker = try options.administration()
        for template in try broker.send(ListWakeTemplates(app: app)).templates {
            let line =
                options.has(.json)
                ? jsonLine(template)
                : "\(template.kind.rawValue)  " + printable(template.template)
            guard StandardStream.output.print(line) else { return }
        }
    }
}

/// `martlet wake template remove`
enum WakeTemplateRemoveCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<WakeOption>.options(
            arguments, accepting: [.app, .kind, .json])
        let app = try options.app()
        let kind = try options.kind()
        let broker = try options.administration()
        let reply = try broker.send(RemoveWakeTemplate(app: app, kind: kind))
        if options.has(.json) {
            StandardStream.output.print(jsonLine(reply))
        } else {
            StandardStream.output.print(
                reply.isRemoved
                    ? "the template of \(app) for \(kind.rawValue) is removed"
                    : "\(app) has no template for \(kind.rawValue)")
        }
    }
}
