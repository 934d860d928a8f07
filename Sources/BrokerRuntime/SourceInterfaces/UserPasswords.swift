// The passwords of an app as interfaces use them: a user registers with one and logs in with it,
// and the same password is good for MQTT.

import BrokerCore
import Credentials
import SourceInterfaces

/// The passwords whose user name is the user. One that has a device or rights of its own is none
/// for an interface, whose logins have all rights of the app.
struct UserPasswords: RegisteredPasswords {
    let shards: Shards
    let clock: BrokerClock

    func hash(of user: SourceUser) -> String? {
        password(of: user).map { String(decoding: $0.hash, as: UTF8.self) }
    }

    /// The password that opens logins of a user; nil if there is none now.
    func password(of user: SourceUser) -> RegisteredPassword? {
        let name = Array(user.user.utf8)
        let found = shards[user.app].look { $0.password(name, app: Array(user.app.utf8)) }
        guard let found, found.user == name, found.device == nil, found.rights == nil,
            clock.moment().unixSeconds < found.expiresUnixSeconds
        else { return nil }
        return found
    }
}

/// argon2id for new passwords, and all kinds that the broker verifies.
struct UserPasswordHasher: PasswordHasher {
    func isToken(_ password: String) -> Bool {
        let bytes = Array(password.utf8)
        return OpaqueToken.isToken(bytes.span.bytes) || JSONWebToken.hasForm(of: bytes.span.bytes)
    }

    func hash(_ password: String) -> String? {
        (try? PasswordHash(hashing: Array(password.utf8)))
            .map { String(decoding: $0.text, as: UTF8.self) }
    }

    func matches(_ password: String, _ hash: String?) -> Bool? {
        PasswordHash.verify(
            Array(password.utf8), against: hash.flatMap { try? PasswordHash(Array($0.utf8)) })
    }
}
