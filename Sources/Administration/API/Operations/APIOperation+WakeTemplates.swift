// The operations on templates of wake-ups.

extension APIOperation {
    private static let list = "/apps/{app}/wake-templates"
    private static let kind = APIMember.path(
        "kind", .choice(WakeTargetKind.allCases.map(\.rawValue)))

    static let setWakeTemplate = APIOperation(
        .setWakeTemplate, .put, at: list + "/{kind}", role: .operate,
        summary: "Sets what a relay sends to targets of a kind, in place of its own template.",
        members: [kind, .body("template", required: true)],
        answer: [.text("template")]
    ) { values throws(AdministrationRefusal) in
        .setWakeTemplate(
            SetWakeTemplate(
                app: try values.text("app"),
                kind: try values.word("kind", as: WakeTargetKind.self),
                template: try values.text("template")))
    }

    static let listWakeTemplates = APIOperation(
        .listWakeTemplates, .get, at: list, role: .operate,
        summary: "Lists the templates of an app.",
        answer: [.objects("templates", .text("kind"), .text("template"))]
    ) { values throws(AdministrationRefusal) in
        .listWakeTemplates(ListWakeTemplates(app: try values.text("app")))
    }

    static let removeWakeTemplate = APIOperation(
        .removeWakeTemplate, .delete, at: list + "/{kind}", role: .operate,
        summary: "Removes a template: the relay's own counts again.", members: [kind],
        answer: [.boolean("isRemoved")]
    ) { values throws(AdministrationRefusal) in
        .removeWakeTemplate(
            RemoveWakeTemplate(
                app: try values.text("app"),
                kind: try values.word("kind", as: WakeTargetKind.self)))
    }

    static let tryWakeTemplate = APIOperation(
        .tryWakeTemplate, .post, at: list + "/{kind}/try", role: .operate,
        summary: "Shows what a target would get for a sample, and sets nothing.",
        members: [kind, .body("template")],
        answer: [.text("content")]
    ) { values throws(AdministrationRefusal) in
        .tryWakeTemplate(
            TryWakeTemplate(
                app: try values.text("app"),
                kind: try values.word("kind", as: WakeTargetKind.self),
                template: values.text(optional: "template")))
    }
}
