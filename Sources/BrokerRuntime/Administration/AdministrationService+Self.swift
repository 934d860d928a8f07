// Whose credential a request has.

import Administration
import BrokerCore
import BrokerTerms
import Primitives

extension AdministrationService {
    /// - Parameter credential: of the request; nil for a process that opened the admin socket,
    ///   which may do everything.
    func showSelf(
        _ credential: APICredential?
    ) throws(AdministrationRefusal) -> ShowSelf.Reply {
        switch credential {
        case nil: return reply(operator: "", .own, expiry: nil)
        case .operator(let known)?:
            return reply(operator: known.name, known.role, expiry: known.expiresUnixSeconds)
        case .presented(let presented, let holder)?:
            return try serving(Self.text(holder.app)).showHolder(holder, of: presented)
        }
    }

    private func showHolder(
        _ holder: CredentialHolder, of presented: PresentedCredential
    ) throws(AdministrationRefusal) -> ShowSelf.Reply {
        switch holder.kind {
        case .appKey(let name, _): return try reply(key: name, app: holder.app)
        case .user(let user, let device):
            // A user becomes known with the first use of a web token, as with the first login.
            if case .verified = presented {
                try makeKnown(user, app: holder.app)
            }
            return try reply(user, device: device, holder: holder)
        }
    }

    private func reply(
        operator name: String, _ role: OperatorRole, expiry: UInt64?
    ) -> ShowSelf.Reply {
        var reply = ShowSelf.Reply(.operator)
        reply.operator = name
        reply.role = role
        reply.expiresUnixSeconds = expiry
        return reply
    }

    private func reply(
        key name: [UInt8], app: [UInt8]
    ) throws(AdministrationRefusal) -> ShowSelf.Reply {
        let name = Self.text(name)
        let keys = try list(ListAppKeys(app: Self.text(app))).keys
        guard let key = keys.first(where: { $0.name == name }) else {
            // It was revoked since its request was looked at.
            throw AdministrationRefusal(.badUserNameOrPassword, "the key is not valid any more")
        }
        var reply = ShowSelf.Reply(.appKey)
        reply.app = Self.text(app)
        reply.keyName = key.name
        reply.role = key.role
        reply.rights = key.rights
        reply.expiresUnixSeconds = key.expiresUnixSeconds
        return reply
    }

    private func reply(
        _ user: [UInt8], device: [UInt8]?, holder: CredentialHolder
    ) throws(AdministrationRefusal) -> ShowSelf.Reply {
        let moment = clock.moment()
        let found = shared.look { broker in
            broker.ownUserDescription(
                app: holder.app, user: user, sessionCountMaximum: ShowSelf.sessionCountMaximum,
                at: moment)
        }
        guard let found else {
            throw Self.unknownUser(Self.text(user), Self.text(holder.app))
        }
        var reply = ShowSelf.Reply(.user)
        reply.app = Self.text(holder.app)
        reply.user = Self.text(user)
        reply.device = device.map { Self.text($0) }
        reply.rights = Self.texts(holder.rights)
        reply.sessions = found.sessions.map(ListSessions.Session.init)
        reply.sessionCount = found.sessionCount
        reply.queue = Queue(found.offlineQueue)
        return reply
    }
}
