// Operations on the keys of apps: add, list, revoke.

import Administration
import BrokerCore
import BrokerTerms
import Credentials

extension AdministrationService {
    func add(_ request: AddAppKey) throws(AdministrationRefusal) -> AddAppKey.Reply {
        let name = request.name
        try Self.checkName(name, "key")
        guard let role = RegisteredKey.Role(request.role) else {
            throw AdministrationRefusal(
                .payloadFormatInvalid,
                "the role of a key is view or operate, not \(request.role.rawValue)")
        }
        let rights = try request.rights.map(Self.rights)
        let moment = clock.moment()
        let minted = AppKey.mint()
        let key = RegisteredKey(
            name: Array(name.utf8), digest: Digest(minted.key.digest), role: role, rights: rights,
            madeUnixSeconds: moment.unixSeconds,
            expiresUnixSeconds: Self.expiry(after: request.expirySeconds, at: moment))
        let addition = try growAndCommit { (state) throws(NoRoom) in
            try state.broker.addKey(key, app: Array(request.app.utf8))
        }
        switch addition {
        case .added: break
        case .unknownApp: throw unknownApp(request.app)
        case .exists:
            throw AdministrationRefusal(
                .quotaExceeded, "\(request.app) has a key \"\(name)\" already", cause: .exists)
        case .tooMany:
            throw AdministrationRefusal(
                .quotaExceeded,
                "\(request.app) has \(CoreLimits.appKeysMaximum) keys, the most an app can have")
        }
        log.write(
            .warning, .administration,
            fields: [
                "request": "app.key.add", "app": .text(request.app), "name": .text(name),
                "role": .text(request.role.rawValue),
            ])
        return AddAppKey.Reply(key: minted.text)
    }

    func list(_ request: ListAppKeys) throws(AdministrationRefusal) -> ListAppKeys.Reply {
        guard let keys = shared.look({ $0.keys(ofApp: Array(request.app.utf8)) }) else {
            throw unknownApp(request.app)
        }
        func known(_ seconds: UInt64) -> UInt64? { seconds == 0 ? nil : seconds }
        return ListAppKeys.Reply(
            keys: keys.map {
                ListAppKeys.Key(
                    name: String(decoding: $0.name, as: UTF8.self), role: OperatorRole($0.role),
                    rights: $0.rights.map(Self.texts), madeUnixSeconds: known($0.madeUnixSeconds),
                    expiresUnixSeconds: $0.expiresUnixSeconds == .max
                        ? nil : $0.expiresUnixSeconds,
                    lastUsedUnixSeconds: known($0.lastUsedUnixSeconds))
            })
    }

    func revoke(_ request: RevokeAppKey) throws(AdministrationRefusal) -> RevokeAppKey.Reply {
        let moment = clock.moment()
        let revocation = changeAndCommit { state in
            state.broker.revokeKey(
                Array(request.name.utf8), app: Array(request.app.utf8), at: moment,
                effects: &state.effects)
        }
        switch revocation {
        case .unknownApp: throw unknownApp(request.app)
        case .unknownKey:
            throw Self.unknownKey(request.name, request.app)
        case .revoked(let connectionCount):
            log.write(
                .warning, .administration,
                fields: [
                    "request": "app.key.revoke", "app": .text(request.app),
                    "name": .text(request.name), "connections": .number(connectionCount),
                ])
            return RevokeAppKey.Reply(connectionCount: connectionCount)
        }
    }

    static func unknownKey(_ key: String, _ app: String) -> AdministrationRefusal {
        AdministrationRefusal(
            .topicNameInvalid, "\(app) has no key \"\(key)\"; see: martlet app key list",
            cause: .unknown)
    }
}
