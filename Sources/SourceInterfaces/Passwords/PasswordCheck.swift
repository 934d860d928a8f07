// The part of a login or a registration that takes long: it runs on a thread of its own, and asks
// for nothing but the registered hashes.

/// The hashes of registered users.
public protocol RegisteredPasswords: Sendable {
    /// Nil for a user without a password.
    func hash(of user: SourceUser) -> String?
}

/// Makes hashes of passwords, and compares passwords with them. Nil where a password cannot be
/// hashed now, for lack of memory.
public protocol PasswordHasher: Sendable {
    /// Whether MQTT would read a password as a token, so that it could not log in there.
    func isToken(_ password: String) -> Bool
    func hash(_ password: String) -> String?
    /// - Parameter hash: nil for a user without a password, which takes as long and matches
    ///   nothing.
    func matches(_ password: String, _ hash: String?) -> Bool?
}

/// What came of hashing the password of a request.
public struct PasswordCheck: Sendable {
    enum Outcome: Sendable {
        /// With the hash that it was compared with.
        case correct(SourceUser, hash: String)
        /// For a registration.
        case hash(String, SourceUser)
        /// A guess.
        case wrong(SourceUser)
        case refused(SourceRefusal)
    }

    let outcome: Outcome

    /// Hashes the password of a login or a registration.
    public init(
        _ request: SourceRequest, apps: SourceApps, passwords: any RegisteredPasswords,
        hasher: any PasswordHasher
    ) {
        do throws(SourceRefusal) {
            outcome = try Self.outcome(request, apps, passwords: passwords, hasher: hasher)
        } catch {
            outcome = .refused(error)
        }
    }

    private static func outcome(
        _ request: SourceRequest, _ apps: SourceApps, passwords: any RegisteredPasswords,
        hasher: any PasswordHasher
    ) throws(SourceRefusal) -> Outcome {
        let body = try SourceBody(json: request)
        let name = try body.text("username")
        let password = try body.text("password")
        guard password.utf8.count <= SourceLimits.passwordByteCountMaximum else {
            throw SourceRefusal(
                400, field: "password",
                "has more than \(SourceLimits.passwordByteCountMaximum) bytes")
        }
        let user = try apps.user(named: name, interface: request.route.interface)
        guard request.route == .passwordLogin else {
            guard !hasher.isToken(password) else {
                throw SourceRefusal(400, field: "password", "has the form of a token")
            }
            guard let hash = hasher.hash(password) else { throw noMemory }
            return .hash(hash, user)
        }
        let hash = passwords.hash(of: user)
        guard let isCorrect = hasher.matches(password, hash) else { throw noMemory }
        guard let hash, isCorrect else { return .wrong(user) }
        return .correct(user, hash: hash)
    }

    private static let noMemory = SourceRefusal(503, "the password cannot be hashed now")

    static let wrong = SourceRefusal(403, "wrong username or password")

    /// Whose password was wrong, which counts as a guess; nil if it was right, or not compared.
    public var wrongUser: SourceUser? {
        if case .wrong(let user) = outcome { user } else { nil }
    }

    /// Whether the password of a login was wrong.
    public var isWrong: Bool { wrongUser != nil }
}
