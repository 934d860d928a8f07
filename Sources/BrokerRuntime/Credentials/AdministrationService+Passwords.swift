// Operations on passwords: set, list, expire, revoke.

import Administration
import BrokerCore
import BrokerTerms
import Credentials
import SourceInterfaces
import WireFormat

extension AdministrationService {
    func set(_ request: SetPassword) throws(AdministrationRefusal) -> SetPassword.Reply {
        // It is hashed before the core is entered.
        try checkApp(request.app)
        var known: RegisteredPassword?
        if request.keepsTerms == true {
            known = shared.look {
                $0.password(Array(request.name.utf8), app: Array(request.app.utf8))
            }
        }
        var asked = request
        asked.user = request.user ?? known.map { Self.text($0.user) }
        var password = try registered(asked)
        if let known {
            if request.device == nil { password.device = known.device }
            if request.rights == nil { password.rights = known.rights }
            if request.expirySeconds == nil {
                guard known.expiresUnixSeconds > clock.moment().unixSeconds else {
                    throw AdministrationRefusal(
                        .payloadFormatInvalid,
                        "the password of \"\(request.name)\" has expired: set it with an expiry, "
                            + "or revoke it before")
                }
                password.expiresUnixSeconds = known.expiresUnixSeconds
            }
        }
        let count = try set([password], app: request.app)
        note("password.set", request.name, app: request.app, connectionCount: count)
        return SetPassword.Reply(connectionCount: count)
    }

    /// Makes a user with a password, both in one commit.
    ///
    /// - Returns: false if the name is taken: by a user, a password, an allow list of a group, or a
    ///   right.
    func register(_ request: SetPassword) throws(AdministrationRefusal) -> Bool {
        try checkApp(request.app)
        let password = try registered(request)
        let app = Array(request.app.utf8)
        // Most names that are taken have a user, and need no search.
        guard !shared.look({ $0.hasUser(password.user, app: app) }) else { return false }
        var search = NameSearch(user: password.user, app: app)
        shared.enterInSlices { $0.broker.advance(&search) }
        guard !search.isNamed else { return false }
        let moment = clock.moment()
        let outcome = try growAndCommit { (state) throws(NoRoom) in
            try state.broker.registerUser(
                with: password, app: app, at: moment, effects: &state.effects)
        }
        switch outcome {
        case .done: break
        case .taken: return false
        case .unknownApp: throw unknownApp(request.app)
        }
        note("user.register", request.name, app: request.app, connectionCount: 0)
        return true
    }

    func set(_ request: ImportPasswords) throws(AdministrationRefusal) -> ImportPasswords.Reply {
        let count = request.names.count
        guard (1...ImportPasswords.countMaximum).contains(count) else {
            throw AdministrationRefusal(
                .quotaExceeded,
                "\(count) passwords at a time; 1 to \(ImportPasswords.countMaximum) are allowed")
        }
        guard request.hashes.count == count, request.users.map({ $0.count == count }) ?? true,
            request.rights.map({ $0.count == count }) ?? true
        else {
            throw AdministrationRefusal(
                .payloadFormatInvalid, "there are \(count) names, and not as many of another list")
        }
        try checkApp(request.app)
        var passwords: [RegisteredPassword] = []
        var names: Set<[UInt8]> = []
        for (index, name) in request.names.enumerated() {
            guard names.insert(Array(name.utf8)).inserted else {
                throw AdministrationRefusal(
                    .payloadFormatInvalid, "the request has the user name \"\(name)\" twice")
            }
            let rights = request.rights.map { $0[index] } ?? ""
            passwords.append(
                try registered(
                    SetPassword(
                        app: request.app, name: name, hash: request.hashes[index],
                        user: request.users.map { $0[index] },
                        rights: rights.isEmpty
                            ? nil : rights.split(separator: "\n").map(String.init))))
        }
        let changed = passwords.compactMap { self.changed($0, app: request.app) }
        let connectionCount = changed.isEmpty ? 0 : try set(changed, app: request.app)
        log.write(
            .warning, .administration,
            fields: [
                "request": "password.import", "app": .text(request.app), "count": .number(count),
                "connections": .number(connectionCount),
            ])
        return ImportPasswords.Reply(connectionCount: connectionCount)
    }

    /// An imported password with the terms of an earlier one of its name that an import does not
    /// have; nil if it changes nothing.
    private func changed(_ password: RegisteredPassword, app: String) -> RegisteredPassword? {
        let known = shared.look { $0.password(password.name, app: Array(app.utf8)) }
        guard let known else { return password }
        var changed = password
        changed.device = known.device
        changed.expiresUnixSeconds = known.expiresUnixSeconds
        changed.rights = password.rights ?? known.rights
        let isSame =
            known.hash == password.hash && known.user == password.user
            && known.rights == changed.rights
        return isSame ? nil : changed
    }

    /// Returns the number of connections that were ended.
    private func set(
        _ passwords: [RegisteredPassword], app: String
    ) throws(AdministrationRefusal) -> Int {
        let moment = clock.moment()
        let replaced = passwords.compactMap { password in
            shared.look { $0.password(password.name, app: Array(app.utf8)) }?.user
        }
        let change = try growAndCommit { (state) throws(NoRoom) in
            try state.broker.setPasswords(
                passwords, app: Array(app.utf8), at: moment, effects: &state.effects)
        }
        guard case .set(let connectionCount) = change else { throw unknownApp(app) }
        for user in Set(replaced) { endInterfaceLogins(of: user, app: app) }
        return connectionCount
    }

    /// Revokes the tokens that logins by password have made through interfaces: they end with the
    /// password, as its connections do.
    private func endInterfaceLogins(of user: [UInt8], app: String) {
        let selection = TokenSelection(
            app: app, user: Self.text(user), batch: SourceInterface.rest.tokenBatch)
        // An app without such tokens refuses nothing that has to be told.
        _ = try? revoke(RevokeTokens(selection))
    }

    private func registered(
        _ password: SetPassword
    ) throws(AdministrationRefusal) -> RegisteredPassword {
        let name = Array(password.name.utf8)
        guard (1...RegisteredPassword.nameByteCountMaximum).contains(name.count),
            password.name != ".", password.name != "..",
            !name.contains(where: { $0 < 0x20 || $0 == 0x7F })
        else {
            throw AdministrationRefusal(
                .clientIdentifierNotValid,
                "the user name \"\(password.name)\" must have 1 to "
                    + "\(RegisteredPassword.nameByteCountMaximum) bytes, without control characters"
            )
        }
        let user = password.user ?? password.name
        try Self.checkIdentifier(user, "user")
        if let device = password.device,
            device.isEmpty || !TextRules.isDevice(Array(device.utf8).span.bytes)
        {
            throw AdministrationRefusal(
                .clientIdentifierNotValid, "the device \"\(device)\" is no client id of MQTT")
        }
        let hash: [UInt8]
        switch (password.password, password.hash) {
        case (let text?, nil): hash = try Self.hash(of: text)
        case (nil, let text?): hash = try Self.checked(hash: text)
        case (nil, nil), (_?, _?):
            throw AdministrationRefusal(
                .payloadFormatInvalid, "a password has either password or hash")
        }
        let moment = clock.moment()
        return RegisteredPassword(
            name: name, hash: hash, mark: SystemRandom.number(), user: Array(user.utf8),
            device: password.device.map { Array($0.utf8) },
            rights: try password.rights.map(Self.rights), madeUnixSeconds: moment.unixSeconds,
            expiresUnixSeconds: Self.expiry(after: password.expirySeconds, at: moment))
    }

    private static func hash(of text: String) throws(AdministrationRefusal) -> [UInt8] {
        let password = Array(text.utf8)
        guard (1...PasswordHash.passwordByteCountMaximum).contains(password.count) else {
            throw AdministrationRefusal(
                .payloadFormatInvalid,
                "a password must have 1 to \(PasswordHash.passwordByteCountMaximum) bytes")
        }
        guard !OpaqueToken.isToken(password.span.bytes),
            !JSONWebToken.hasForm(of: password.span.bytes)
        else {
            throw AdministrationRefusal(
                .payloadFormatInvalid,
                "a password must not have the form of a token, as which a login would read it: "
                    + "mt1_…, or eyJ… with two dots")
        }
        do throws(CredentialError) {
            return try PasswordHash(hashing: password).text
        } catch {
            throw AdministrationRefusal(.serverBusy, "the password cannot be hashed: \(error)")
        }
    }

    private static func checked(hash text: String) throws(AdministrationRefusal) -> [UInt8] {
        let bytes = Array(text.utf8)
        guard bytes.count <= RegisteredPassword.hashByteCountMaximum else {
            throw AdministrationRefusal(
                .payloadFormatInvalid,
                "a hash has at most \(RegisteredPassword.hashByteCountMaximum) bytes")
        }
        do throws(PasswordHashError) {
            _ = try PasswordHash(bytes)
        } catch {
            throw AdministrationRefusal(.payloadFormatInvalid, "\(error)")
        }
        return bytes
    }

    func list(_ request: ListPasswords) throws(AdministrationRefusal) -> ListPasswords.Reply {
        try checkApp(request.app)
        var search = PasswordSearch(
            app: Array(request.app.utf8), user: request.user.map { Array($0.utf8) },
            after: request.after.map { Array($0.utf8) },
            countMaximum: request.limit ?? ListPasswords.countMaximum)
        shared.enterInSlices { $0.broker.advance(&search) }
        let (found, mayHaveMore) = search.page
        var passwords: [ListPasswords.Password] = []
        var byteCount = 0
        for password in found.lazy.map(ListPasswords.Password.init) {
            byteCount += (password.rights ?? []).reduce(0) { $0 + $1.utf8.count }
            if !passwords.isEmpty, byteCount > Self.rightsBytesPerPage { break }
            passwords.append(password)
        }
        return ListPasswords.Reply(
            passwords: passwords,
            next: mayHaveMore || passwords.count < found.count ? passwords.last?.name : nil)
    }

    /// Bytes of rights in a page. In JSON a byte may become six, and a reply has 4 MiB.
    private static let rightsBytesPerPage = 256 << 10

    func expire(_ request: ExpirePassword) throws(AdministrationRefusal) -> ExpirePassword.Reply {
        let moment = clock.moment()
        let user = user(ofPassword: request.name, app: request.app)
        let expiry = Self.expiry(after: request.expirySeconds, at: moment)
        let end = changeAndCommit { state in
            state.broker.expirePassword(
                Array(request.name.utf8), app: Array(request.app.utf8), atUnixSeconds: expiry,
                at: moment, effects: &state.effects)
        }
        let count = try count(of: end, name: request.name, app: request.app)
        if let user { endInterfaceLogins(of: user, app: request.app) }
        note("password.expire", request.name, app: request.app, connectionCount: count)
        return ExpirePassword.Reply(connectionCount: count)
    }

    private func user(ofPassword name: String, app: String) -> [UInt8]? {
        shared.look { $0.password(Array(name.utf8), app: Array(app.utf8)) }?.user
    }

    func revoke(_ request: RevokePassword) throws(AdministrationRefusal) -> RevokePassword.Reply {
        let moment = clock.moment()
        let user = user(ofPassword: request.name, app: request.app)
        let end = changeAndCommit { state in
            state.broker.revokePassword(
                Array(request.name.utf8), app: Array(request.app.utf8), at: moment,
                effects: &state.effects)
        }
        let count = try count(of: end, name: request.name, app: request.app)
        if let user { endInterfaceLogins(of: user, app: request.app) }
        note("password.revoke", request.name, app: request.app, connectionCount: count)
        return RevokePassword.Reply(connectionCount: count)
    }

    private func count(
        of end: PasswordEnd, name: String, app: String
    ) throws(AdministrationRefusal) -> Int {
        switch end {
        case .done(let connectionCount): return connectionCount
        case .unknownApp: throw unknownApp(app)
        case .unknownName:
            throw AdministrationRefusal(
                .topicNameInvalid,
                "\(app) has no password of \"\(name)\"; see: martlet password list",
                cause: .unknown)
        }
    }

    private func note(_ request: String, _ name: String, app: String, connectionCount: Int) {
        log.write(
            .warning, .administration,
            fields: [
                "request": .text(request), "app": .text(app), "name": .text(name),
                "connections": .number(connectionCount),
            ])
    }
}

extension ListPasswords.Password {
    fileprivate init(_ password: RegisteredPassword) {
        func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
        self.init(
            name: text(password.name), user: text(password.user),
            device: password.device.map(text),
            kind: (try? PasswordHash(password.hash))?.kindName ?? "unknown",
            rights: password.rights.map(AdministrationService.texts),
            madeUnixSeconds: password.madeUnixSeconds,
            expiresUnixSeconds: password.expiresUnixSeconds == .max
                ? nil : password.expiresUnixSeconds,
            lastUsedUnixSeconds: password.lastUsedUnixSeconds == 0
                ? nil : password.lastUsedUnixSeconds)
    }
}
