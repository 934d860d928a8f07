// Templates of wake-ups: parsed before they count, set, listed, removed and tried.

import Administration
import BrokerCore
import BrokerTerms
import Primitives
import WakeTemplates

extension AdministrationService {
    func set(_ request: SetWakeTemplate) throws(AdministrationRefusal) -> SetWakeTemplate.Reply {
        let (kind, read) = try read(request.template, for: request.kind, app: request.app)
        guard read.json.count <= CoreLimits.wakeTemplateBytesMaximum else {
            throw AdministrationRefusal(
                .packetTooLarge,
                "the template has \(read.json.count) bytes of JSON; at most "
                    + "\(CoreLimits.wakeTemplateBytesMaximum) are allowed")
        }
        _ = try growAndCommit { state throws(NoRoom) in
            try state.broker.setWakeTemplate(
                read.json, for: kind, app: Array(request.app.utf8))
        }
        report("wake.template.set", request.kind, app: request.app)
        return SetWakeTemplate.Reply(template: String(decoding: read.json, as: UTF8.self))
    }

    func list(
        _ request: ListWakeTemplates
    ) throws(AdministrationRefusal) -> ListWakeTemplates.Reply {
        try checkApp(request.app)
        let templates = shared.enter { $0.broker.wakeTemplates(app: Array(request.app.utf8)) }
        return ListWakeTemplates.Reply(
            templates: (templates ?? []).map { kind, json in
                ListWakeTemplates.Template(
                    kind: WakeTargetKind(kind), template: String(decoding: json, as: UTF8.self))
            })
    }

    func remove(
        _ request: RemoveWakeTemplate
    ) throws(AdministrationRefusal) -> RemoveWakeTemplate.Reply {
        try checkApp(request.app)
        let kind = WakeTarget.Kind(request.kind)
        let isRemoved = changeAndCommit { state in
            state.broker.removeWakeTemplate(for: kind, app: Array(request.app.utf8))
        }
        report("wake.template.remove", request.kind, app: request.app)
        return RemoveWakeTemplate.Reply(isRemoved: isRemoved)
    }

    func test(_ request: TryWakeTemplate) throws(AdministrationRefusal) -> TryWakeTemplate.Reply {
        var template: ContentTemplate
        let contentKind = try contentKind(request.kind)
        try checkApp(request.app)
        if let text = request.template {
            template = try read(text, for: request.kind, app: request.app).read.template
        } else {
            template = WakeContents.builtIn(contentKind)
            let kind = WakeTarget.Kind(request.kind)
            let kept = shared.enter { $0.broker.wakeTemplates(app: Array(request.app.utf8)) }
            // It was parsed when it was set.
            if let json = kept?.first(where: { $0.kind == kind })?.json,
                let read = try? TemplateText(json, isContentAllowed: true)
            {
                template = read.template
            }
        }
        let content = WakeContents.make(.sample, for: contentKind, template: template)
        return TryWakeTemplate.Reply(
            content: String(decoding: content.content.json, as: UTF8.self))
    }

    /// Parses a template.
    private func read(
        _ text: String, for kind: WakeTargetKind, app: String
    ) throws(AdministrationRefusal) -> (kind: WakeTarget.Kind, read: TemplateText) {
        _ = try contentKind(kind)
        try checkApp(app)
        let policy = shared.enter { state in
            (state.broker.limits.appPolicies[Array(app.utf8)] ?? state.broker.limits.appPolicy)
                .wake
        }
        guard let policy else {
            throw AdministrationRefusal(
                .notAuthorized, "apps.\(app).wake is not set", cause: .forbidden)
        }
        do throws(TemplateText.Fault) {
            return (
                WakeTarget.Kind(kind),
                try TemplateText(Array(text.utf8), isContentAllowed: policy.hasContents)
            )
        } catch {
            throw AdministrationRefusal(.payloadFormatInvalid, error.description)
        }
    }

    private func contentKind(_ kind: WakeTargetKind) throws(AdministrationRefusal) -> WakeKind {
        guard let known = WakeKind(rawValue: kind.rawValue), known.hasContent else {
            throw AdministrationRefusal(
                .payloadFormatInvalid, "targets of the kind \(kind.rawValue) get no content")
        }
        return known
    }

    private func report(_ name: String, _ kind: WakeTargetKind, app: String) {
        log.write(
            .info, .administration,
            fields: [
                "request": .text(name), "app": .text(app), "kind": .text(kind.rawValue),
            ])
    }
}

extension WakeTarget.Kind {
    fileprivate init(_ kind: WakeTargetKind) {
        guard let known = Self(named: kind.rawValue) else {
            preconditionFailure("\(kind.rawValue) is no kind of the core")
        }
        self = known
    }
}
