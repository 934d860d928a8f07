// Deletes an app with everything that it has, or one user, in the order of `Deletion.Phase`. The
// caller commits after each piece.
//
// From `beginDeletion` on nobody finds an app by its name: it admits no login, and its sends are
// refused. A user is found until the last piece, which deletes it only if nothing has come
// meanwhile. A broker that stops between two pieces has an app or a user with less than before; the
// deletion begins again with what is left.

import BrokerTerms
import Primitives

extension Broker {
    // MARK: - What would be lost

    /// Counts the next slice of what a deletion would lose. Returns false when all is counted.
    public func advance(_ search: inout DeletionLossSearch) -> Bool {
        guard let app = app(named: search.scope.app) else { return false }
        if let name = search.scope.user {
            guard let user = user(named: name, app: app) else { return false }
            countQueues(of: user, in: &search.losses)
            search.losses.groups = groupTable.owned(by: user).count
            search.losses.conversations = conversationTable.conversations(ofUser: user).count
            return false
        }
        search.losses.tokens = registry.apps[app].tokens.count
        search.losses.groups = registry.apps[app].groups.count
        search.losses.conversations = conversationTable.sum(of: app).conversationCount
        return search.countsRetained
            ? countRetained(of: app, in: &search) : countQueues(of: app, in: &search)
    }

    private func countQueues(of app: Index<App>, in search: inout DeletionLossSearch) -> Bool {
        var next =
            search.place.map { registry.users[Index<User>(place: $0)].nextOfApp }
            ?? registry.apps[app].firstUser
        for _ in 0..<DeletionLossSearch.sliceCount {
            guard let user = next else {
                (search.place, search.countsRetained) = (nil, true)
                return true
            }
            search.place = user.place
            countQueues(of: user, in: &search.losses)
            search.losses.passwords += registry.passwordCount(of: user)
            next = registry.users[user].nextOfApp
        }
        return true
    }

    private func countQueues(of user: Index<User>, in losses: inout DeletionLosses) {
        forEachSession(of: user) { session in
            losses.queuedMessages += UInt64(sessions[session].inbox.count)
            if sessions[session].isConnected { losses.connectedSessions += 1 }
        }
        guard let offlineQueue = registry.users[user].offlineQueue else { return }
        losses.queuedMessages += UInt64(queues.offlineQueues[offlineQueue].count)
    }

    private func countRetained(of app: Index<App>, in search: inout DeletionLossSearch) -> Bool {
        for (lookCount, index) in retention.retained.places.after(search.place).enumerated() {
            guard lookCount < DeletionLossSearch.sliceCount else { return true }
            search.place = index.place
            if retention.retained.contains(index), retention.retained[index].app == app {
                search.losses.retainedMessages += 1
            }
        }
        return false
    }

    // MARK: - Pieces

    /// Whether the deletion of an app has begun, and is not complete.
    public func isBeingDeleted(app name: [UInt8]) -> Bool {
        registry.appBeingDeleted(named: name) != nil
    }

    /// Hides an app, so that the pieces of its deletion find nothing new. Returns false if there is
    /// no such app.
    public mutating func beginDeletion(ofApp name: [UInt8]) -> Bool {
        if registry.appBeingDeleted(named: name) != nil { return true }
        guard let app = app(named: name) else { return false }
        registry.beginDeletion(of: app)
        return true
    }

    /// Deletes the next piece, which the caller commits. Returns false when nothing is left. That
    /// of an app has begun.
    public mutating func delete(
        _ deletion: inout Deletion, at moment: Moment, effects: inout Effects
    ) -> Bool {
        guard let parts = parts(of: deletion.scope) else {
            deletion.isComplete = true
            return false
        }
        var step = Step(at: moment, effects: effects)
        deletion.units = deletion.unitsMaximum
        let (countsBefore, changesBefore) = (deletion.counts, commits.pendingBatch.changeCount)
        deletion.changeMaximum = changesBefore + SessionSearch.changesPerSlice
        while goesOn(deletion) {
            guard carryOut(&deletion, parts, in: &step) else { break }
            guard !deletion.mustRepeat else {
                deletion.goOn(with: deletion.phase)
                // What waits for a commit is there after this one.
                break
            }
            if let next = Deletion.Phase(rawValue: deletion.phase.rawValue + 1) {
                deletion.goOn(with: next)
                continue
            }
            guard end(parts, &deletion) else {
                deletion.goOn(with: .credentials)
                break
            }
            return false
        }
        deletion.hasOnlyLooked =
            deletion.units <= 0 && deletion.counts == countsBefore
            && commits.pendingBatch.changeCount == changesBefore
        if !deletion.hasOnlyLooked { commits.commitSoon() }
        return true
    }

    /// An app, and the user whose parts are deleted; nil for all users.
    struct DeletedParts {
        let app: Index<App>
        let user: Index<User>?
    }

    private func parts(of scope: DeletionScope) -> DeletedParts? {
        guard let name = scope.user else {
            return registry.appBeingDeleted(named: scope.app).map {
                DeletedParts(app: $0, user: nil)
            }
        }
        guard let app = app(named: scope.app), let user = user(named: name, app: app) else {
            return nil
        }
        return DeletedParts(app: app, user: user)
    }

    /// Whether the piece has room for more.
    func goesOn(_ deletion: Deletion) -> Bool {
        deletion.units > 0 && commits.pendingBatch.changeCount < deletion.changeMaximum
            && commits.pendingBatch.movedCount < limits.batchMovesMaximum
    }

    /// Carries out a part of the phase. Returns whether its end is reached.
    private mutating func carryOut(
        _ deletion: inout Deletion, _ parts: DeletedParts, in step: inout Step
    ) -> Bool {
        switch deletion.phase {
        case .credentials: deleteCredentials(of: parts, &deletion)
        case .passwords: deletePasswords(of: parts, &deletion)
        case .sessions: deleteSessions(of: parts, &deletion, in: &step)
        case .wills: deleteWills(of: parts, &deletion)
        case .groups: deleteGroups(of: parts, &deletion, in: &step)
        case .memberships: leaveGroups(of: parts, &deletion, in: &step)
        case .allowLists: leaveAllowLists(of: parts, &deletion, in: &step)
        case .retained: parts.user != nil || deleteRetained(of: parts.app, &deletion)
        case .conversations: deleteConversations(of: parts, &deletion)
        case .leftovers: parts.user != nil || deleteLeftovers(of: parts.app, &deletion)
        case .trackedSends: deleteTrackedSends(of: parts, &deletion)
        case .sendKeys: deleteSendKeys(of: parts, &deletion)
        case .users: parts.user != nil || deleteUsers(of: parts.app, &deletion)
        }
    }

    /// Whether no row names an app but its own.
    private func isBare(app: Index<App>) -> Bool {
        registry.apps[app].users.count == 0 && registry.apps[app].groups.count == 0
            && registry.apps[app].keys.isEmpty && registry.apps[app].tokens.last == nil
            && tracking.count(ofApp: app) == 0 && sendKeys.counts(ofApp: app).all == 0
            && conversationTable.sum(of: app).conversationCount == 0
    }

    /// Deletes the user, or the app that has no users any more. Returns false if something has come
    /// since its phase.
    private mutating func end(_ parts: DeletedParts, _ deletion: inout Deletion) -> Bool {
        if let user = parts.user {
            guard isBare(user) else { return false }
            delete(user: user, &deletion)
        } else {
            guard isBare(app: parts.app) else { return false }
            let name = registry.apps[parts.app].name
            forgetWakeTemplates(of: parts.app)
            registry.endDeletion(of: parts.app)
            commits.remove(.apps, key: name)
        }
        commits.commitSoon()
        deletion.isComplete = true
        return true
    }
}
