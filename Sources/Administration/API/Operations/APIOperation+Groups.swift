// The operations on groups.

extension APIOperation {
    static let createGroup = APIOperation(
        .createGroup, .post, at: "/apps/{app}/groups", role: .operate, status: 201,
        summary: "Creates a group for an owner.",
        members: [
            .body("owner", required: true), .body("title", required: true),
            .body("allowed", .texts), .body("meta"),
        ],
        answer: [.text("groupid")]
    ) { values throws(AdministrationRefusal) in
        .createGroup(
            CreateGroup(
                app: try values.text("app"), owner: try values.text("owner"),
                title: try values.text("title"),
                allowed: values.texts(optional: "allowed"),
                meta: values.text(optional: "meta") ?? ""))
    }

    static let listGroups = APIOperation(
        .listGroups, .get, at: "/apps/{app}/groups", role: .view, summary: "Lists groups.",
        members: [
            .query("user"), .query("after", .number(maximum: UInt64(UInt32.max))),
            .limit(ListGroups.countMaximum),
        ],
        answer: [
            .objects(
                "groups", .text("groupid"), .text("title"), .text("owner"),
                .number("memberCount"), .boolean("isLimited")),
            .number(optional: "next"),
        ]
    ) { values throws(AdministrationRefusal) in
        .listGroups(
            ListGroups(
                app: try values.text("app"), user: values.text(optional: "user"),
                after: values.number("after", as: UInt32.self), limit: values.limit))
    }

    private static let showGroupAnswer: [APIAnswerMember] = [
        .text("groupid"), .text("title"), .text("owner"), .number("memberCount"),
        .texts(optional: "allowed"), .text("meta"), .boolean("isKept"),
        .number("shownCount"), .number("lastNumber"),
        .object(optional: "lastMessage", keptMessage), .texts("members"),
    ]

    static var showGroup: [APIOperation] {
        let path = "/apps/{app}/groups/{groupid}"
        let members: [APIMember] = [.query("after"), .limit(ShowGroup.memberCountMaximum)]
        return [
            APIOperation(
                .showGroup, .get, at: path, role: .view,
                summary: "Shows a group and its members.", members: members,
                answer: showGroupAnswer
            ) { values throws(AdministrationRefusal) in
                .showGroup(try values.showGroup())
            },
            APIOperation(
                .showGroup, .get, at: path + "/newest", role: .operate,
                summary: "Shows a group, its members and its newest kept message.",
                members: members,
                answer: showGroupAnswer
            ) { values throws(AdministrationRefusal) in
                .showGroup(try values.showGroup(hasMessage: true))
            },
        ]
    }

    private static let changeMemberAnswer: [APIAnswerMember] = [.boolean("isChanged")]

    static var changeMember: [APIOperation] {
        let path = "/apps/{app}/groups/{groupid}/members/{user}"
        let ends = [ChangeMember.Action.leave, .kick, .ban].map(\.rawValue)
        return [
            APIOperation(
                .changeMember, .put, at: path, role: .operate,
                summary: "Adds a user to a group, who sees so many kept messages from before.",
                members: [
                    .query("backlog", .number(maximum: UInt64(ChangeMember.backlogMaximum)))
                ],
                answer: changeMemberAnswer
            ) { values throws(AdministrationRefusal) in
                var change = try values.changeMember(.join)
                change.backlog = values.number("backlog", as: UInt32.self)
                return .changeMember(change)
            },
            APIOperation(
                .changeMember, .delete, at: path, role: .operate,
                summary: "Removes a user from a group: the user leaves, is kicked, or is banned.",
                members: [.query("action", .choice(ends), required: true)],
                answer: changeMemberAnswer
            ) { values throws(AdministrationRefusal) in
                .changeMember(
                    try values.changeMember(
                        try values.word("action", as: ChangeMember.Action.self)))
            },
            APIOperation(
                .changeMember, .put, at: path + "/mute", role: .operate,
                summary: "Messages of a group do not wake this member any more.",
                answer: changeMemberAnswer
            ) { values throws(AdministrationRefusal) in
                .changeMember(try values.changeMember(.mute))
            },
            APIOperation(
                .changeMember, .delete, at: path + "/mute", role: .operate,
                summary: "Messages of a group wake this member again.",
                answer: changeMemberAnswer
            ) { values throws(AdministrationRefusal) in
                .changeMember(try values.changeMember(.unmute))
            },
        ]
    }

    static var changeGroup: [APIOperation] {
        let path = "/apps/{app}/groups/{groupid}"
        return [
            APIOperation(
                .changeGroup, .put, at: path + "/meta", role: .operate,
                summary: "Replaces a group's data.",
                members: [.body("meta", required: true)]
            ) { values throws(AdministrationRefusal) in
                .changeGroup(try values.changeGroup(.meta(try values.text("meta"))))
            },
            APIOperation(
                .changeGroup, .put, at: path + "/history", role: .operate,
                summary: "Sets whether a group keeps its messages by default, and how many of the "
                    + "newest ones new members see.",
                members: [
                    .body("isKept", .boolean, required: true),
                    .body("shownCount", .number(maximum: UInt64(UInt32.max))),
                ]
            ) { values throws(AdministrationRefusal) in
                .changeGroup(
                    try values.changeGroup(
                        .history(
                            isKept: values.boolean("isKept") ?? false,
                            shownCount: values.number("shownCount", as: UInt32.self) ?? 0)))
            },
            APIOperation(
                .changeGroup, .put, at: path + "/wake", role: .operate,
                summary: "Sets whether messages of a group wake its members.",
                members: [.body("isOn", .boolean, required: true)]
            ) { values throws(AdministrationRefusal) in
                .changeGroup(try values.changeGroup(.wake(isOn: values.boolean("isOn") ?? true)))
            },
            APIOperation(
                .changeGroup, .put, at: path + "/allowed", role: .operate,
                summary: "Lets only these users join a group.",
                members: [.body("allowed", .texts, required: true)]
            ) { values throws(AdministrationRefusal) in
                .changeGroup(try values.changeGroup(.allowed(try values.texts("allowed"))))
            },
            APIOperation(
                .changeGroup, .delete, at: path + "/allowed", role: .operate,
                summary: "Lets everybody join a group."
            ) { values throws(AdministrationRefusal) in
                .changeGroup(try values.changeGroup(.everybodyAllowed))
            },
        ]
    }

    static let deleteGroup = APIOperation(
        .deleteGroup, .delete, at: "/apps/{app}/groups/{groupid}", role: .operate,
        summary: "Deletes a group with its history; removes at most "
            + "10,000 members, and tells them.",
        answer: [.number("memberCount"), .boolean("hasMore")]
    ) { values throws(AdministrationRefusal) in
        .deleteGroup(
            DeleteGroup(
                app: try values.text("app"), groupid: try values.text("groupid")))
    }
}

extension APIValues {
    fileprivate func changeMember(
        _ action: ChangeMember.Action
    ) throws(AdministrationRefusal) -> ChangeMember {
        ChangeMember(
            app: try text("app"), groupid: try text("groupid"), user: try text("user"),
            action: action)
    }

    fileprivate func showGroup(
        hasMessage: Bool? = nil
    ) throws(AdministrationRefusal) -> ShowGroup {
        ShowGroup(
            app: try text("app"), groupid: try text("groupid"), after: text(optional: "after"),
            limit: limit, hasMessage: hasMessage)
    }

    fileprivate func changeGroup(
        _ change: ChangeGroup.Change
    ) throws(AdministrationRefusal) -> ChangeGroup {
        ChangeGroup(app: try text("app"), groupid: try text("groupid"), change: change)
    }
}
