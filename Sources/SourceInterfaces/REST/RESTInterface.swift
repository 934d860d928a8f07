// The interface of a small REST server: registration and login with a password, and conversations
// with a label. A conversation is a group.

import Administration

struct RESTInterface {
    let operations: any SourceOperations

    /// Finishes a login or a registration whose password was hashed.
    func finish(_ check: PasswordCheck) throws(SourceRefusal) -> SourceAnswer {
        switch check.outcome {
        case .refused(let refusal): throw refusal
        case .wrong: throw PasswordCheck.wrong
        case .correct(let user, let hash):
            // It may have been changed or revoked while it was hashed.
            guard let seconds = operations.secondsOfPassword(of: user, hash: hash) else {
                throw PasswordCheck.wrong
            }
            let token = try SourceSessions(operations: operations).make(
                for: user, interface: .rest, seconds: min(seconds, SourceLimits.sessionSeconds))
            return SourceAnswer(200, .object(["jwt": .text(token)]))
        case .hash(let hash, let user):
            // Nobody takes over a user who is known by another way.
            let request = SetPassword(app: user.app, name: user.user, hash: hash)
            guard try operations.register(request) else {
                throw SourceRefusal(409, field: "username", "is taken")
            }
            return SourceAnswer(200, .object(["success": .boolean(true)]))
        }
    }

    func create(_ request: SourceRequest) throws(SourceRefusal) -> SourceAnswer {
        let holder = try request.holder()
        let label = try SourceBody(json: request).text("label")
        guard operations.mayCreateGroups else {
            throw SourceRefusal(403, "no right group:create")
        }
        let group = try operations.create(
            CreateGroup(app: holder.app, owner: holder.user, title: label))
        return SourceAnswer(
            200, .object(["label": .text(label), "token": .text(group.groupid)]))
    }

    func list(_ request: SourceRequest) throws(SourceRefusal) -> SourceAnswer {
        let holder = try request.holder()
        let groups = operations.groups(of: holder.user, app: holder.app)
        let conversations = groups.map {
            SourceValue.object(["token": .text($0.groupid), "label": .text($0.title)])
        }
        return SourceAnswer(200, .object(["conversations": .array(conversations)]))
    }
}
