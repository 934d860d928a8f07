// The broker's templates, which count before those of the file. They come with each request, for
// the kinds of its targets; the record has the last ones, for wake-ups that wait over a restart.

import ClientProgram
import WakeTemplates

/// The templates of the broker by kind.
struct BrokerTemplates {
    private struct Entry {
        let json: [UInt8]
        /// Nil if this file does not permit it.
        let template: ContentTemplate?
    }

    private var entries: [WakeKind: Entry] = [:]
    private let isContentAllowed: Bool

    init(isContentAllowed: Bool, stored: [WakeKind: [UInt8]]) {
        self.isContentAllowed = isContentAllowed
        for (kind, json) in stored { _ = set(json, for: kind) }
    }

    subscript(kind: WakeKind) -> ContentTemplate? { entries[kind]?.template }

    func json(_ kind: WakeKind) -> [UInt8]? { entries[kind]?.json }

    /// All of them, in the order of the kinds.
    var all: [(kind: WakeKind, json: [UInt8])] {
        WakeKind.allCases.compactMap { kind in entries[kind].map { (kind, $0.json) } }
    }

    /// Sets a template, or removes it.
    ///
    /// - Returns: what is wrong with it; nil if nothing is.
    mutating func set(_ json: [UInt8]?, for kind: WakeKind) -> TemplateText.Fault? {
        guard let json else {
            entries[kind] = nil
            return nil
        }
        do throws(TemplateText.Fault) {
            let read = try TemplateText(json, isContentAllowed: isContentAllowed)
            entries[kind] = Entry(json: json, template: read.template)
            return nil
        } catch {
            entries[kind] = Entry(json: json, template: nil)
            return error
        }
    }
}

extension WakeDispatcher {
    /// The template of a kind; nil if the relay cannot speak to such targets.
    func template(for kind: WakeKind) -> ContentTemplate? {
        settings.template(for: kind).map { templates[kind] ?? $0 }
    }

    /// Takes the templates of a request for the kinds of its targets.
    mutating func takeTemplates(of request: WakeRequest) {
        for kind in Set(request.targets.map(\.kind))
        where request.templates[kind] != templates.json(kind) {
            let json = request.templates[kind]
            if let fault = templates.set(json, for: kind) {
                log(
                    "template_refused",
                    "kind=\(kind.rawValue) reason=\(quoted(fault.description.utf8))")
            }
            progress.add(.template(kind, json ?? []))
        }
    }
}
