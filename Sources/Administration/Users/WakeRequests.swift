// Requests about wake targets: where a relay reaches users of whom no device is connected.

/// Sets a wake target of a user. One with the same device, kind and address is changed, and keeps
/// its id.
public struct SetWakeTarget: AdministrationRequest {
    public static let name = "wake.set"
    public var app: String
    public var user: String
    public var kind: WakeTargetKind
    /// 1 to 2,048 bytes of the form that the kind has.
    public var address: String
    /// The device that it wakes; nil for any device of the user.
    public var device: String?
    /// nil: production.
    public var environment: WakeTargetEnvironment?
    /// A language tag of BCP 47, at most 35 bytes.
    public var language: String?

    public init(
        app: String, user: String, kind: WakeTargetKind, address: String, device: String? = nil,
        environment: WakeTargetEnvironment? = nil, language: String? = nil
    ) {
        self.app = app
        self.user = user
        self.kind = kind
        self.address = address
        self.device = device
        self.environment = environment
        self.language = language
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var id: UInt64

        public init(id: UInt64) {
            self.id = id
        }
    }
}

/// How a relay reaches a wake target.
public enum WakeTargetKind: String, Codable, Hashable, Sendable, CaseIterable {
    case webhook, apns, fcm
    case smsWebhook = "sms-webhook"
    case mqtt, udp
}

/// Which environment of a push service knows an address.
public enum WakeTargetEnvironment: String, Codable, Hashable, Sendable, CaseIterable {
    case production, sandbox
}

/// Lists the wake targets of a user, in the order in which they were set first.
public struct ListWakeTargets: AdministrationRequest {
    public static let name = "wake.list"
    public var app: String
    public var user: String

    public init(app: String, user: String) {
        self.app = app
        self.user = user
    }

    public struct Target: Codable, Hashable, Sendable {
        public var id: UInt64
        /// nil: any device of the user.
        public var device: String?
        public var kind: WakeTargetKind
        public var address: String
        public var environment: WakeTargetEnvironment
        public var language: String?
        /// Its device has logged out and has not been back.
        public var isSilent: Bool

        public init(
            id: UInt64, device: String?, kind: WakeTargetKind, address: String,
            environment: WakeTargetEnvironment, language: String?, isSilent: Bool
        ) {
            self.id = id
            self.device = device
            self.kind = kind
            self.address = address
            self.environment = environment
            self.language = language
            self.isSilent = isSilent
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var targets: [Target]

        public init(targets: [Target]) {
            self.targets = targets
        }
    }
}

/// Removes a wake target of a user.
public struct RemoveWakeTarget: AdministrationRequest {
    public static let name = "wake.remove"
    public var app: String
    public var user: String
    public var id: UInt64

    public init(app: String, user: String, id: UInt64) {
        self.app = app
        self.user = user
        self.id = id
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// Whether the user had it.
        public var isRemoved: Bool

        public init(isRemoved: Bool) {
            self.isRemoved = isRemoved
        }
    }
}

/// Asks the relay to wake a user by way of a test.
public struct TestWake: AdministrationRequest {
    public static let name = "wake.test"
    public var app: String
    public var user: String
    /// One of the user's targets; nil for all of them.
    public var id: UInt64?

    public init(app: String, user: String, id: UInt64? = nil) {
        self.app = app
        self.user = user
        self.id = id
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// The number of targets that the relay was told.
        public var targetCount: Int

        public init(targetCount: Int) {
            self.targetCount = targetCount
        }
    }
}
