// The interface of QuickBlox Chat 2.0. A dialog is a group, or the conversation of two users;
// history is what the broker keeps of it.

import Administration

struct QuickBloxInterface {
    let operations: any SourceOperations
    let app: String
    let user: String
    let host: String

    /// The types of dialogs.
    enum DialogType: Int64 {
        /// Everybody may join.
        case publicGroup = 1
        case group = 2
        case `private` = 3
    }

    /// The fields of dialogs that lists can name.
    static let dialogFields = QuickBloxFilter.Fields(
        known: [
            "_id", "last_message", "last_message_date_sent", "last_message_user_id", "name",
            "occupants_ids", "type", "unread_messages_count", "xmpp_room_jid",
        ],
        reserved: [], sortable: ["type", "last_message_date_sent"], unfiltered: ["photo"],
        allowsOthers: false, newestFirst: nil)

    /// The fields of messages that lists can name; others are those of the app.
    static let messageFields = QuickBloxFilter.Fields(
        known: ["_id", "date_sent", "message", "read", "recipient_id", "sender_id"],
        reserved: ["chat_dialog_id", "mark_as_read"], sortable: ["date_sent"],
        unfiltered: ["attachments", "chat_dialog_id"], allowsOthers: true,
        newestFirst: "date_sent")

    // MARK: - Groups

    func group(
        _ name: String, membersMaximum: Int = 1
    ) throws(SourceRefusal) -> ShowGroup.Reply {
        do throws(SourceRefusal) {
            return try operations.show(
                ShowGroup(app: app, groupid: name, limit: membersMaximum))
        } catch {
            throw error.status == 404 ? Self.noDialog : error
        }
    }

    static let noDialog = SourceRefusal(404, "there is no such dialog")

    /// Whether the user is in a group.
    func isOccupant(of group: String) -> Bool { operations.isMember(user, of: group, app: app) }

    /// The conversations of the user that have kept messages.
    ///
    /// - Parameter hasMessages: whether the store is asked for their newest messages.
    func conversations(
        hasMessages: Bool
    ) throws(SourceRefusal) -> [ListConversations.Conversation] {
        var found: [ListConversations.Conversation] = []
        var after: UInt64?
        repeat {
            let page = try operations.list(
                ListConversations(
                    app: app, user: user, after: after,
                    limit: ListConversations.messagesMaximum,
                    hasMessages: hasMessages ? true : nil))
            found += page.conversations
            after = page.next
        } while after != nil && found.count < SourceLimits.dialogsMaximum
        return found
    }

    /// Why a user is not the other one of a dialog.
    func checkKnown(_ users: [String], field: String) throws(SourceRefusal) {
        for user in users where !operations.isKnown(user, app: app) {
            throw SourceRefusal(400, field: field, "names a user who is not known: \(user)")
        }
    }

    /// Ids of users: a list of texts or numbers, or a text that joins them with commas.
    static func users(_ value: SourceValue, field: String) throws(SourceRefusal) -> [String] {
        var users: [String] = []
        let elements: [SourceValue] = if case .array(let array) = value { array } else { [value] }
        for element in elements {
            guard let text = element.plainText else {
                throw SourceRefusal(
                    400, field: field, "must be ids, joined with commas or in a list")
            }
            for name in text.split(separator: ",").map(String.init) where !users.containsName(name)
            {
                guard users.count < SourceLimits.membersMaximum else {
                    throw SourceRefusal(
                        400, field: field, "has more than \(SourceLimits.membersMaximum) users")
                }
                users.append(name)
            }
        }
        return users
    }

    // MARK: - What a group's data says

    /// The data of a group as an object; nil if another program wrote something else there.
    static func data(of group: ShowGroup.Reply) -> [String: SourceValue]? {
        data(Array(group.meta.utf8))
    }

    fileprivate static func data(_ meta: [UInt8]) -> [String: SourceValue]? {
        if meta.isEmpty { return [:] }
        guard let value = try? SourceValue(meta), case .object(let data) = value else { return nil }
        return data
    }

    /// What the data of groups has that this interface has made: the applications of others
    /// interpret theirs by themselves.
    static let mark = SourceValue.text("quickblox")
}

/// Whether a group is a dialog that everybody may find. The ids of other open groups are known to
/// those whom somebody has told.
public func isPublicDialog(meta: [UInt8]) -> Bool {
    QuickBloxInterface.data(meta)?["interface"] == QuickBloxInterface.mark
}
