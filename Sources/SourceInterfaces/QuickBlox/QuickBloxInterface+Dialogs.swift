// Dialogs: list, create, change.

import Administration

extension QuickBloxInterface {
    /// What a list knows of a dialog before its group is looked up.
    private struct Outline {
        let name: DialogName
        var type: DialogType
        var title: String?
        var last: ListHistory.Message?
        var unreadCount: UInt64 = 0
    }

    func listDialogs(_ request: SourceRequest) throws(SourceRefusal) -> SourceAnswer {
        let filter = try QuickBloxFilter(SourceField.read(request.query), of: Self.dialogFields)
        var items = try outlines().map { object(of: $0) }
        // Names and members are in the groups themselves.
        let needsGroups = filter.names("occupants_ids") || filter.names("name")
        if needsGroups {
            for index in items.indices { try complete(&items[index]) }
        }
        let selected = filter.select(items)
        guard !filter.countsOnly else {
            return SourceAnswer(
                200, .object(["items": .object(["count": .count(selected.count)])]))
        }
        var page = filter.page(selected)
        if !needsGroups {
            for index in page.indices { try complete(&page[index]) }
        }
        return SourceAnswer(
            200,
            .object([
                "limit": .count(filter.limit), "skip": .count(filter.skip),
                "items": .array(page.map { .object($0) }),
            ]))
    }

    /// The dialogs that the user is in, and those that everybody may join.
    private func outlines() throws(SourceRefusal) -> [Outline] {
        var found: [DialogName: Outline] = [:]
        var order: [DialogName] = []
        func note(_ outline: Outline) {
            if found.updateValue(outline, forKey: outline.name) == nil {
                order.append(outline.name)
            }
        }
        for conversation in try conversations(hasMessages: true) {
            let name: DialogName =
                conversation.groupid.map { .group($0) }
                ?? .between(user, conversation.user ?? user)
            note(
                Outline(
                    name: name, type: conversation.groupid == nil ? .private : .group,
                    last: conversation.lastMessage, unreadCount: conversation.unreadCount))
        }
        let groups = operations.groups(of: user, app: app) + operations.openGroups(app: app)
        for group in groups where order.count < SourceLimits.dialogsMaximum {
            var outline =
                found[.group(group.groupid)]
                ?? Outline(name: .group(group.groupid), type: .group)
            outline.type = group.isLimited ? .group : .publicGroup
            outline.title = group.title
            note(outline)
        }
        return order.compactMap { found[$0] }
    }

    /// A dialog without what only its group knows.
    private func object(of outline: Outline) -> [String: SourceValue] {
        let last = outline.last
        var object: [String: SourceValue] = [
            "_id": .text(outline.name.identifier), "type": .number(outline.type.rawValue),
            "name": .optional(outline.title), "photo": .null, "occupants_ids": .array([]),
            "last_message": .optional(last?.content.text),
            "last_message_date_sent": last.map { .count($0.unixMilliseconds / 1_000) } ?? .null,
            "last_message_user_id": last.map { .user($0.from) } ?? .null, "xmpp_room_jid": .null,
            "unread_messages_count": .count(outline.unreadCount),
        ]
        switch outline.name {
        case .users(let first, let second):
            object["occupants_ids"] = .array([.user(first), .user(second)])
        case .group(let group):
            object["xmpp_room_jid"] = .text("\(app)_\(group)@muc.\(host)")
        }
        return object
    }

    /// Adds what the group of a dialog knows: its members, its name and its picture.
    private func complete(_ object: inout [String: SourceValue]) throws(SourceRefusal) {
        guard case .text(let identifier)? = object["_id"],
            case .group(let name)? = DialogName(identifier: identifier)
        else { return }
        try complete(
            &object, with: group(name, membersMaximum: SourceLimits.occupantsMaximum))
    }

    private func complete(_ object: inout [String: SourceValue], with group: ShowGroup.Reply) {
        let data = Self.data(of: group) ?? [:]
        object["name"] = data["name"] ?? .text(group.title)
        object["photo"] = data["photo"] ?? .null
        // Everybody may be an occupant of a public group.
        object["occupants_ids"] =
            group.allowed == nil ? .array([]) : .array(group.members.map(SourceValue.user))
    }

    // MARK: - Create

    func createDialog(_ request: SourceRequest) throws(SourceRefusal) -> SourceAnswer {
        let body = try SourceBody(request)
        guard let text = try body.plain("type") else { throw .missing("type") }
        guard let type = Int64(text).flatMap(DialogType.init) else {
            throw SourceRefusal(400, field: "type", "must be 1, 2 or 3")
        }
        var occupants: [String] = []
        if let value = body.members["occupants_ids"], value != .null {
            occupants = try Self.users(value, field: "occupants_ids")
                .filter { !$0.isSameName(as: user) }
        } else if type != .publicGroup {
            throw .missing("occupants_ids")
        }
        try checkKnown(occupants, field: "occupants_ids")
        if type == .private {
            guard let other = occupants.first, occupants.count == 1 else {
                throw SourceRefusal(400, field: "occupants_ids", "must be one other user")
            }
            return SourceAnswer(201, .object(try privateDialog(with: other)))
        }
        guard operations.mayCreateGroups else { throw SourceRefusal(403, "no right group:create") }
        try operations.checkReach(occupants, isMember: type == .group)
        var data: [String: SourceValue] = [
            "interface": Self.mark, "type": .number(type.rawValue),
        ]
        if let photo = try body.plain("photo") { data["photo"] = .text(photo) }
        let group = try operations.create(
            CreateGroup(
                app: app, owner: user, title: try body.plain("name") ?? "",
                allowed: type == .publicGroup ? nil : [user] + occupants,
                meta: Self.text(data))
        ).groupid
        if type == .group {
            do throws(SourceRefusal) {
                _ = try operations.join(occupants, to: group, app: app)
            } catch {
                operations.end(group, of: user, app: app)
                throw error
            }
        }
        return SourceAnswer(201, .object(try dialog(ofGroup: group)))
    }

    /// A dialog with a user exists without being made.
    private func privateDialog(with other: String) throws(SourceRefusal) -> [String: SourceValue] {
        let name = DialogName.between(user, other)
        let known = try conversations(hasMessages: false).first {
            $0.user?.isSameName(as: other) == true
        }
        return object(
            of: Outline(
                name: name, type: .private, last: try newestMessage(of: name),
                unreadCount: known?.unreadCount ?? 0))
    }

    private func dialog(ofGroup name: String) throws(SourceRefusal) -> [String: SourceValue] {
        // Who has left is told nothing more of its messages.
        let isOccupant = isOccupant(of: name)
        let group = try group(name, membersMaximum: SourceLimits.occupantsMaximum)
        let known = try conversations(hasMessages: false).first { $0.groupid == name }
        var dialog = object(
            of: Outline(
                name: .group(name), type: group.allowed == nil ? .publicGroup : .group,
                title: group.title,
                last: isOccupant && known != nil ? try newestMessage(of: .group(name)) : nil,
                unreadCount: known?.unreadCount ?? 0))
        complete(&dialog, with: group)
        return dialog
    }

    private static func text(_ data: [String: SourceValue]) -> String {
        String(decoding: SourceValue.object(data).bytes, as: UTF8.self)
    }

    // MARK: - Change

    func updateDialog(
        _ identifier: String, _ request: SourceRequest
    ) throws(SourceRefusal) -> SourceAnswer {
        guard let dialog = DialogName(identifier: identifier) else { throw Self.noDialog }
        guard case .group(let name) = dialog else {
            throw SourceRefusal(403, "a private dialog is not changed")
        }
        let body = try SourceBody(request)
        let added = try members("push_all", or: "push", in: body)
        let removed = try members("pull_all", or: "pull", in: body)
        let group = try group(name)
        let isPublic = group.allowed == nil
        guard isPublic || isOccupant(of: name) else {
            throw SourceRefusal(403, "only for occupants")
        }
        // Whoever is in a dialog may leave it, and a public one is open to everybody.
        let leavesOnly = added.isEmpty && Self.isOnly(user, removed)
        let joinsOnly = isPublic && removed.isEmpty && Self.isOnly(user, added)
        let (title, photo) = (try body.plain("name"), try body.plain("photo"))
        let ownsGroup = group.owner.isSameName(as: user)
        let renames = title != nil || photo != nil
        guard
            ownsGroup || Self.isShared(group)
                || !renames && (leavesOnly || joinsOnly)
        else { throw SourceRefusal(403, "only the owner changes this dialog") }
        // A refused request changes nothing.
        try checkKnown(added, field: "push_all[occupants_ids]")
        try operations.checkReach(added.filter { !$0.isSameName(as: user) }, isMember: true)
        guard ownsGroup || !removed.containsName(group.owner) else {
            throw SourceRefusal(403, "the owner of a dialog cannot be removed")
        }
        guard !renames || Self.data(of: group) != nil else { throw Self.foreignData }
        // What a limit of the broker may refuse comes first, and is undone.
        let joined = try add(added, to: group)
        do throws(SourceRefusal) {
            try change(group, title: title, photo: photo)
        } catch {
            undo(joined, in: group)
            throw error
        }
        try remove(removed, from: group, keeping: added)
        // The last occupant has left, and the group is gone.
        guard let left = try groupIfAny(name) else {
            return SourceAnswer(200, .object(endedDialog(group)))
        }
        return SourceAnswer(200, .object(try self.dialog(ofGroup: left.groupid)))
    }

    private static func isOnly(_ user: String, _ users: [String]) -> Bool {
        users.count == 1 && users.containsName(user)
    }

    private func groupIfAny(_ name: String) throws(SourceRefusal) -> ShowGroup.Reply? {
        do throws(SourceRefusal) {
            return try group(name)
        } catch {
            guard error == Self.noDialog else { throw error }
            return nil
        }
    }

    private func endedDialog(_ group: ShowGroup.Reply) -> [String: SourceValue] {
        var dialog = object(
            of: Outline(
                name: .group(group.groupid),
                type: group.allowed == nil ? .publicGroup : .group, title: group.title))
        let data = Self.data(of: group) ?? [:]
        dialog["name"] = data["name"] ?? .text(group.title)
        dialog["photo"] = data["photo"] ?? .null
        return dialog
    }

    /// Whether all occupants may change a group: those of type 2 that this interface has made, as
    /// its data says, which only its owner writes elsewhere. Other groups belong to their owners.
    private static func isShared(_ group: ShowGroup.Reply) -> Bool {
        let data = data(of: group)
        return group.allowed != nil && data?["interface"] == mark
            && data?["type"] == .number(DialogType.group.rawValue)
    }

    /// The users of `push_all[occupants_ids]`. QuickBlox's examples also write `push`.
    private func members(
        _ name: String, or other: String, in body: SourceBody
    ) throws(SourceRefusal) -> [String] {
        guard let value = body.members[name] ?? body.members[other] else { return [] }
        guard case .object(let object) = value, object.count == 1,
            let users = object["occupants_ids"]
        else { throw SourceRefusal(400, field: name, "can only change occupants_ids") }
        return try Self.users(users, field: "\(name)[occupants_ids]")
    }

    private static let foreignData = SourceRefusal(
        409, "another program keeps other data in the group")

    /// Writes the name and the picture.
    private func change(
        _ group: ShowGroup.Reply, title: String?, photo: String?
    ) throws(SourceRefusal) {
        guard title != nil || photo != nil else { return }
        guard var data = Self.data(of: group) else { throw Self.foreignData }
        if let title { data["name"] = .text(title) }
        if let photo { data["photo"] = .text(photo) }
        _ = try operations.change(
            ChangeGroup(app: app, groupid: group.groupid, change: .meta(Self.text(data))))
    }

    /// Adds users: all of them, or none.
    ///
    /// - Returns: those who were no members.
    private func add(
        _ users: [String], to group: ShowGroup.Reply
    ) throws(SourceRefusal) -> [String] {
        guard !users.isEmpty else { return [] }
        if let allowed = group.allowed {
            let new = users.filter { !allowed.containsName($0) }
            _ = try operations.change(
                ChangeGroup(app: app, groupid: group.groupid, change: .allowed(allowed + new)))
        }
        do throws(SourceRefusal) {
            return try operations.join(users, to: group.groupid, app: app)
        } catch {
            undo([], in: group)
            throw error
        }
    }

    /// Removes users who were added, and gives the group its former list again.
    private func undo(_ joined: [String], in group: ShowGroup.Reply) {
        operations.removeAgain(joined, from: group.groupid, app: app)
        guard let allowed = group.allowed else { return }
        _ = try? operations.change(
            ChangeGroup(app: app, groupid: group.groupid, change: .allowed(allowed)))
    }

    /// Removes users, and first from the list of those who may join, so that nobody comes back.
    private func remove(
        _ users: [String], from group: ShowGroup.Reply, keeping added: [String]
    ) throws(SourceRefusal) {
        guard !users.isEmpty else { return }
        if let allowed = group.allowed {
            let rest = (allowed + added).filter { !users.containsName($0) }
            _ = try operations.change(
                ChangeGroup(app: app, groupid: group.groupid, change: .allowed(rest)))
        }
        for user in users {
            _ = try operations.change(
                ChangeMember(
                    app: app, groupid: group.groupid, user: user,
                    action: user.isSameName(as: self.user) ? .leave : .kick))
        }
    }
}
