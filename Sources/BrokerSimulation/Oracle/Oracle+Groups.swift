// The members of groups, as far as clients can know them. Between the request for a change and its
// answer the state is unknown, so the model records changes, not members.

import BrokerTerms
import Primitives

/// A change of a group's members.
struct MembershipChange {
    let user: Int
    let isJoin: Bool
    /// The device of the user that asked; nil if another user did.
    var device: Int?
    let askedAt: Instant
    /// When it can no longer take effect, because it was answered or cannot reach the broker.
    var overAt = Instant.never
    /// Whether it was answered with success.
    var isDone = false
}

/// A group that a client knows.
struct GroupFact {
    let name: [UInt8]
    let owner: Int
    var changes: [MembershipChange]
}

extension Oracle {
    /// How long a request may be in flight after its client lost power.
    private static let strayMilliseconds: UInt64 = 60_000

    // MARK: Changes

    /// A client has created a group, or has requested again a group that it had created.
    func groupCreated(_ name: [UInt8], by client: Int, askedAt: Instant) {
        guard !groups.contains(where: { $0.name == name }) else { return }
        let owner = profile.clients[client].user
        groups.append(
            GroupFact(
                name: name, owner: owner,
                changes: [
                    MembershipChange(
                        user: owner, isJoin: true, device: profile.clients[client].device,
                        askedAt: askedAt, overAt: now, isDone: true)
                ]))
        history.note(.client(client), "group \(groups.count - 1) is there")
    }

    /// A change of a group is requested. Returns its index.
    func membershipChanging(
        _ user: Int, isJoin: Bool, in group: Int, device: Int? = nil
    ) -> Int {
        groups[group].changes.append(
            MembershipChange(user: user, isJoin: isJoin, device: device, askedAt: now))
        return groups[group].changes.count - 1
    }

    /// The client has forgotten a request, which may still be in flight.
    func membershipForgotten(_ change: Int, in group: Int) {
        groups[group].changes[change].overAt =
            now.advanced(byMilliseconds: Oracle.strayMilliseconds)
    }

    func membershipAnswered(_ change: Int, in group: Int, _ reason: ReasonCode, client: Int) {
        groups[group].changes[change].overAt = now
        groups[group].changes[change].isDone = !reason.isFailure
        let fact = groups[group].changes[change]
        history.note(
            .client(client),
            "user \(fact.user) \(fact.isJoin ? "joins" : "leaves") group \(group): \(reason.name)")
        let isPlausible =
            switch reason {
            case .success, .noSubscriptionExisted, .kickedOut: true
            // The store has no space, or there are too many groups.
            case .quotaExceeded: fact.isJoin
            // A group ends with its last member.
            case .topicNameInvalid, .notAuthorized: !hasCertainMember(group, from: fact.askedAt)
            default: false
            }
        if !isPlausible {
            fail(
                .confirmedIsDone, "group \(group) answers \(reason.name)", client: client)
        }
    }

    // MARK: Notices

    /// A device is told that its user is a member of a group.
    func told(of name: [UInt8], session: Int) {
        sessions[session].notices.insert(name)
    }

    /// Checks that the other devices of each new member were told.
    func checkNotices() {
        // A full queue or store may refuse them.
        guard fullTimes == 0, !isStoreFull, !profile.hasSmallQueues else { return }
        for group in groups {
            for join in group.changes where join.isJoin && join.isDone {
                for session in sessions.indices
                where mustKnow(group, by: join, session)
                    && !sessions[session].notices.contains(group.name)
                {
                    fail(
                        .membersAreTold,
                        "user \(join.user) joined at \(join.overAt.milliseconds) ms, and session "
                            + String(sessions[session].epoch, radix: 16) + " was not told",
                        client: profile.clients.firstIndex {
                            $0.device == sessions[session].device
                        })
                    return
                }
            }
        }
    }

    /// Whether a session existed before its user asked to join for the first time, lasts, and
    /// belongs to a device that did not ask itself.
    private func mustKnow(_ group: GroupFact, by join: MembershipChange, _ index: Int) -> Bool {
        let session = sessions[index]
        guard devices[session.device].user == join.user, session.isLasting, !isMQTT(index),
            session.lastSeen == .never,
            !session.doubts.contains(where: { $0.overlaps(join.askedAt...join.overAt) })
        else { return false }
        let joins = group.changes.filter {
            $0.user == join.user && $0.isJoin && $0.askedAt <= join.overAt
        }
        return joins.allSatisfy {
            $0.device != session.device && session.firstSeen <= $0.askedAt
        }
    }

    // MARK: Queries

    /// Whether a user is known to have been a member during the whole time.
    func isMember(_ user: Int, of group: Int, from start: Instant, through end: Instant) -> Bool {
        let changes = groups[group].changes.filter { $0.user == user }
        return changes.contains { join in
            join.isJoin && join.isDone && join.overAt <= start
                && !changes.contains {
                    !$0.isJoin && $0.askedAt <= end && $0.overAt > join.askedAt
                }
        }
    }

    /// Whether a user is known not to have been a member at some moment.
    func isStranger(_ user: Int, to group: Int, from start: Instant, through end: Instant) -> Bool {
        let changes = groups[group].changes.filter { $0.user == user }
        let joins = changes.filter { $0.isJoin && $0.askedAt <= end }
        return joins.isEmpty
            || changes.contains { leave in
                !leave.isJoin && leave.isDone && leave.overAt <= start
                    && !joins.contains { $0.overAt > leave.askedAt }
            }
    }

    /// Whether a user may have left a group or been kicked, which ends its subscriptions.
    func mayHaveLeft(_ user: Int, _ group: Int, since start: Instant, through end: Instant) -> Bool
    {
        groups[group].changes.contains {
            $0.user == user && !$0.isJoin && $0.askedAt <= end && $0.overAt >= start
        }
    }

    private func hasCertainMember(_ group: Int, from start: Instant) -> Bool {
        (0..<profile.userCount).contains { isMember($0, of: group, from: start, through: now) }
    }
}
