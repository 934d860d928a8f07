// Users who are added to a group all together or not at all: a limit of the core, such as that of
// a group's members, is met in the middle.

import Administration

extension SourceOperations {
    /// Adds users to a group: all of them, or none.
    ///
    /// - Returns: those who were no members.
    func join(
        _ users: [String], to group: String, app: String
    ) throws(SourceRefusal) -> [String] {
        var joined: [String] = []
        for user in users where !isMember(user, of: group, app: app) {
            do throws(SourceRefusal) {
                _ = try change(
                    ChangeMember(app: app, groupid: group, user: user, action: .join))
                joined.append(user)
            } catch {
                removeAgain(joined, from: group, app: app)
                throw error
            }
        }
        return joined
    }

    /// Removes users who were added by a request that is refused.
    func removeAgain(_ users: [String], from group: String, app: String) {
        for user in users {
            _ = try? change(ChangeMember(app: app, groupid: group, user: user, action: .kick))
        }
    }

    /// Ends a group without other members, which was made by a request that is refused.
    func end(_ group: String, of owner: String, app: String) {
        _ = try? change(ChangeMember(app: app, groupid: group, user: owner, action: .leave))
    }
}
