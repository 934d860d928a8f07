// Operations on users: list, show one with its devices, delete one, or an app with all of them.

import Administration
import BrokerCore
import Primitives

extension AdministrationService {
    func list(_ request: ListUsers) throws(AdministrationRefusal) -> ListUsers.Reply {
        let app = Array(request.app.utf8)
        guard shared.enter({ $0.broker.hasApp(app) }) else { throw unknownApp(request.app) }
        var search = UserSearch(
            app: app, after: request.after, countMaximum: request.limit ?? ListUsers.countMaximum)
        shared.enterInSlices { $0.broker.advance(&search) }
        return ListUsers.Reply(
            users: search.found.map {
                ListUsers.User(
                    user: Self.text($0.user), sessionCount: $0.sessionCount,
                    connectionCount: $0.connectionCount, tokenCount: $0.tokenCount,
                    lastSeenUnixMilliseconds: Self.time($0.lastSeenUnixMilliseconds))
            }, next: search.next)
    }

    func show(_ request: ShowUser) throws(AdministrationRefusal) -> ShowUser.Reply {
        let (app, user) = (Array(request.app.utf8), Array(request.user.utf8))
        let moment = clock.moment()
        let description = shared.enter {
            $0.broker.userDescription(app: app, user: user, at: moment)
        }
        guard let description else {
            guard shared.enter({ $0.broker.hasApp(app) }) else {
                throw unknownApp(request.app)
            }
            throw Self.unknownUser(request.user, request.app)
        }
        let places = shared.places(of: description.devices.compactMap(\.session.connection))
        return ShowUser.Reply(
            user: request.user, sessionCount: description.summary.sessionCount,
            connectionCount: description.summary.connectionCount,
            tokenCount: description.summary.tokenCount,
            groupCount: description.groupCount,
            lastSeenUnixMilliseconds: Self.time(description.summary.lastSeenUnixMilliseconds),
            offlineQueue: Queue(description.offlineQueue),
            devices: description.devices.map { device in
                let place = device.session.connection.flatMap { places[$0] }
                return ShowUser.Device(
                    device, address: place.map { "\($0.peer)" },
                    listener: place.map { listeners.name(ofTerms: $0.terms) })
            })
    }

    /// A time in Unix milliseconds, of which 0 stands for none.
    private static func time(_ unixMilliseconds: UInt64) -> UInt64? {
        unixMilliseconds == 0 ? nil : unixMilliseconds
    }
}

extension ShowUser.Device {
    fileprivate init(_ device: DeviceDescription, address: String?, listener: String?) {
        let session = device.session
        let isConnected = session.connection != nil
        self.init(
            device: String(decoding: session.device, as: UTF8.self),
            dialect: "\(session.dialect)", isPersistent: session.isPersistent,
            connectedUnixMilliseconds: isConnected ? session.connectedUnixMilliseconds : nil,
            awaySeconds: isConnected ? nil : session.awaySeconds,
            credential: device.credential.map(ShowUser.Credential.init),
            address: address, listener: listener, queue: Queue(session.queue),
            underWayCount: session.underWayCount)
    }
}

extension ShowUser.Credential {
    init(_ credential: CredentialDescription) {
        guard let kind = Kind(rawValue: credential.kindName) else {
            preconditionFailure("no kind of credential is \(credential.kindName)")
        }
        self.init(
            kind: kind,
            id: kind == .anonymous ? nil : String(decoding: credential.name, as: UTF8.self))
    }
}

extension AdministrationService {
    // MARK: - Deletion

    // Apps and users are deleted in pieces with a commit each, so that messages wait for one piece
    // at most.

    func delete(_ request: DeleteApp) throws(AdministrationRefusal) -> DeletionReply {
        let name = Array(request.app.utf8)
        let scope = DeletionScope(app: name)
        // The losses of one that has begun were accepted before.
        if !shared.enter({ $0.broker.isBeingDeleted(app: name) }) {
            guard shared.enter({ $0.broker.hasApp(name) }) else {
                throw unknownApp(request.app)
            }
            try check(scope, "the app \(request.app)", isForced: request.force ?? false)
            _ = shared.enter { $0.broker.beginDeletion(ofApp: name) }
        }
        removeFiles(ofApp: request.app)
        return delete(scope, request: "app.delete", app: request.app, user: nil)
    }

    func delete(_ request: DeleteUser) throws(AdministrationRefusal) -> DeletionReply {
        let (app, user) = (Array(request.app.utf8), Array(request.user.utf8))
        let scope = DeletionScope(app: app, user: user)
        guard shared.enter({ $0.broker.hasApp(app) }) else { throw unknownApp(request.app) }
        guard shared.enter({ $0.broker.hasUser(user, app: app) }) else {
            throw Self.unknownUser(request.user, request.app)
        }
        try check(scope, "the user \(request.user)", isForced: request.force ?? false)
        return delete(scope, request: "user.delete", app: request.app, user: request.user)
    }

    /// Before the first piece: a deletion that is interrupted begins again with what is left, and
    /// the files of an app that is no more would be left for ever.
    private func removeFiles(ofApp app: String) {
        guard let failure = interfaces.files?.removeFiles(ofApp: app) else { return }
        log.write(
            .warning, .administration,
            fields: [
                "request": "app.delete", "app": .text(app),
                "detail": .text("the files stay until their age: \(failure)"),
            ])
    }

    /// Refuses a deletion that loses something, unless it is forced.
    private func check(
        _ scope: DeletionScope, _ what: String, isForced: Bool
    ) throws(AdministrationRefusal) {
        if isForced { return }
        var search = DeletionLossSearch(of: scope)
        shared.enterInSlices { $0.broker.advance(&search) }
        let fileCount =
            scope.user == nil
            ? interfaces.files?.fileCount(
                ofApp: String(decoding: scope.app, as: UTF8.self)) ?? 0 : 0
        guard !search.losses.isEmpty || fileCount > 0 else { return }
        throw AdministrationRefusal(
            .implementationSpecificError,
            "\(what) has \(Self.text(search.losses, fileCount: fileCount)); nothing is deleted. "
                + "With force, all of it is deleted too", cause: .inUse)
    }

    private static func text(_ losses: DeletionLosses, fileCount: Int) -> String {
        let parts: [(UInt64, String, String)] = [
            (UInt64(losses.connectedSessions), "connected session", "connected sessions"),
            (losses.queuedMessages, "queued message", "queued messages"),
            (UInt64(losses.tokens), "token", "tokens"),
            (UInt64(losses.passwords), "password", "passwords"),
            (UInt64(losses.groups), "group", "groups"),
            (UInt64(losses.retainedMessages), "retained message", "retained messages"),
            (UInt64(losses.conversations), "conversation", "conversations"),
            (UInt64(fileCount), "stored file", "stored files"),
        ]
        return parts.filter { $0.0 > 0 }.map { "\($0.0) \($0.0 == 1 ? $0.1 : $0.2)" }
            .joined(separator: ", ")
    }

    private func delete(
        _ scope: DeletionScope, request name: String, app: String, user: String?
    ) -> DeletionReply {
        var deletion = Deletion(of: scope)
        var pieceCount = 0
        while pieceCount < DeletionReply.pieceCountMaximum {
            let hasMore = changeAndCommit { [moment = clock.moment()] state in
                state.broker.delete(&deletion, at: moment, effects: &state.effects)
            }
            // A request begins at the first place. One that counted pieces without a change might
            // never reach the places after those of other apps.
            if !deletion.hasOnlyLooked { pieceCount += 1 }
            if !hasMore { break }
        }
        let reply = DeletionReply(deletion.counts, hasMore: !deletion.isComplete)
        log.write(
            .warning, .administration,
            fields: [
                "request": .text(name), "app": .text(app), "user": .text(user ?? ""),
                "count": .number(reply.sum), "has_more": .text(reply.hasMore ? "yes" : "no"),
            ])
        return reply
    }
}

extension DeletionReply {
    fileprivate init(_ counts: DeletionCounts, hasMore: Bool) {
        self.init(
            userCount: counts.users, sessionCount: counts.sessions,
            credentialCount: counts.credentials, groupCount: counts.groups,
            retainedCount: counts.retainedMessages, conversationCount: counts.conversations,
            messageCount: counts.queuedMessages, hasMore: hasMore)
    }
}
