// The login of Diuit: a nonce, a JWT that the account server of the app signs over it, and a
// session in exchange, which is a token of the broker.

import Administration

/// A JWT whose signature and times are right.
public struct SourceLogin: Hashable, Sendable {
    public let user: SourceUser
    /// The only device that the JWT is for; nil for any.
    public let device: String?
    /// Seconds until its end.
    public let seconds: UInt64
    /// `cty` of its header.
    public let contentType: String?
    public let nonce: String?
    /// Nil for those of the app.
    public let rights: [String]?

    public init(
        user: SourceUser, device: String?, seconds: UInt64, contentType: String?, nonce: String?,
        rights: [String]?
    ) {
        self.user = user
        self.device = device
        self.seconds = seconds
        self.contentType = contentType
        self.nonce = nonce
        self.rights = rights
    }
}

/// The login of Diuit's clients.
public struct DiuitLogin {
    let operations: any SourceOperations

    /// What `cty` says in the only version that there is. Such a JWT is for one login with its
    /// nonce, and no credential elsewhere.
    public static let contentType = "diuit-auth;v=1"
    /// Push services by the platform that a login names; Google's has only one environment.
    static let platforms: [String: (kind: WakeTargetKind, environment: WakeTargetEnvironment)] = [
        "gcm": (.fcm, .production), "ios_sandbox": (.apns, .sandbox),
        "ios_production": (.apns, .production),
    ]

    func nonce() -> SourceAnswer {
        SourceAnswer(200, .object(["nonce": .text(operations.makeNonce())]))
    }

    func exchange(_ request: SourceRequest) throws(SourceRefusal) -> SourceAnswer {
        let body = try SourceBody(json: request)
        let text = try body.text("authToken")
        let device = try body.text("deviceId")
        var target = try wakeTarget(body, device: device)
        let login = try operations.verify(Array(text.utf8))
        guard operations.isOpen(.diuit, app: login.user.app),
            request.application == nil || request.application == login.user.app
        else { throw SourceRefusal(403, field: "authToken", "is of another app") }
        guard login.contentType == Self.contentType else {
            throw SourceRefusal(403, field: "authToken", "has not the cty \(Self.contentType)")
        }
        guard login.device?.isSameName(as: device) ?? true else {
            throw SourceRefusal(403, field: "deviceId", "is not the one of the JWT")
        }
        guard let nonce = login.nonce else {
            throw SourceRefusal(403, field: "authToken", "has no nonce")
        }
        // At last: what is refused for another reason leaves the nonce as it was.
        try operations.use(nonce: nonce)
        _ = try operations.addUser(AddUser(app: login.user.app, user: login.user.user))
        target?.app = login.user.app
        target?.user = login.user.user
        if let target { operations.setIfPossible(target) }
        let session = try SourceSessions(operations: operations).make(
            for: login.user, interface: .diuit, device: device,
            seconds: min(max(1, login.seconds), SourceLimits.sessionSeconds),
            rights: login.rights)
        return SourceAnswer(
            200,
            .object([
                "session": .text(session), "userId": .text(login.user.user),
                "deviceId": .text(device),
            ]))
    }

    /// The wake target that a login names; nil without a platform or a token.
    private func wakeTarget(
        _ body: SourceBody, device: String
    ) throws(SourceRefusal) -> SetWakeTarget? {
        guard let platform = try body.plain("platform") else { return nil }
        guard let service = Self.platforms[platform] else {
            throw SourceRefusal(
                400, field: "platform",
                "must be one of \(Self.platforms.keys.sorted().joined(separator: ", "))")
        }
        guard let token = try body.plain("pushToken") else { return nil }
        let target = SetWakeTarget(
            app: "", user: "", kind: service.kind, address: token, device: device,
            environment: service.environment)
        guard operations.isValid(target) else {
            throw SourceRefusal(400, field: "pushToken", "is no token of \(platform)")
        }
        return target
    }
}
