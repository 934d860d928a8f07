// Who is in a chat, and who may send to it, as the core knows.

import BrokerCore
import SourceInterfaces

/// Answers for the user of a credential, on any thread.
struct CoreChatAccess: ChatAccess {
    let shards: Shards
    /// Nil for a request that needs no token.
    let credential: APICredential?

    func isMember(_ user: String, of group: String, app: String) -> Bool {
        shards[app].look {
            $0.isMember(Array(user.utf8), ofGroup: Array(group.utf8), app: Array(app.utf8))
        }
    }

    func hasGroup(_ group: String, app: String) -> Bool {
        shards[app].look { $0.groupDescription(app: Array(app.utf8), Array(group.utf8)) } != nil
    }

    func maySend(to user: String) -> Bool {
        guard let sender else { return false }
        return shards[sender.app].look { $0.maySend(to: Array(user.utf8), as: sender) }
    }

    func takesMembership(of user: String) -> Bool {
        guard let sender else { return false }
        return shards[sender.app].look {
            $0.takesMembership(of: Array(user.utf8), by: sender.user, app: sender.app)
        }
    }

    /// The user of the request.
    private var sender: SendingUser? {
        guard case .presented(_, let holder)? = credential,
            case .user(let name, let device) = holder.kind
        else { return nil }
        return SendingUser(
            app: holder.app, user: name, device: device ?? [], rights: holder.rights)
    }
}

extension CoreChatAccess {
    /// With the rights that a credential has now; nil if it is not valid any more.
    init?(renewing credential: APICredential?, shards: Shards, unixSeconds now: UInt64) {
        guard case .presented(let presented, let earlier)? = credential,
            let holder = shards.holder(of: presented, unixSeconds: now),
            holder.app == earlier.app, holder.kind == earlier.kind
        else { return nil }
        self.init(shards: shards, credential: .presented(presented, holder))
    }
}
