// Requests about templates of wake-ups: what a relay sends to targets of a kind, for each app.

/// Sets the template of an app for targets of a kind. It counts from the next request to the relay
/// on, in place of the relay's own.
public struct SetWakeTemplate: AdministrationRequest {
    public static let name = "wake.template.set"
    public var app: String
    /// Not `udp`: a datagram has no content.
    public var kind: WakeTargetKind
    /// JSON5: an object whose texts may have variables such as `${count}`.
    public var template: String

    public init(app: String, kind: WakeTargetKind, template: String) {
        self.app = app
        self.kind = kind
        self.template = template
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// As it is kept: JSON without comments.
        public var template: String

        public init(template: String) {
            self.template = template
        }
    }
}

/// Lists the templates of an app.
public struct ListWakeTemplates: AdministrationRequest {
    public static let name = "wake.template.list"
    public var app: String

    public init(app: String) {
        self.app = app
    }

    public struct Template: Codable, Hashable, Sendable {
        public var kind: WakeTargetKind
        /// JSON.
        public var template: String

        public init(kind: WakeTargetKind, template: String) {
            self.kind = kind
            self.template = template
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        public var templates: [Template]

        public init(templates: [Template]) {
            self.templates = templates
        }
    }
}

/// Removes a template: the relay's own counts again.
public struct RemoveWakeTemplate: AdministrationRequest {
    public static let name = "wake.template.remove"
    public var app: String
    public var kind: WakeTargetKind

    public init(app: String, kind: WakeTargetKind) {
        self.app = app
        self.kind = kind
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// Whether there was one.
        public var isRemoved: Bool

        public init(isRemoved: Bool) {
            self.isRemoved = isRemoved
        }
    }
}

/// Shows what a target would get for a sample, without setting anything.
public struct TryWakeTemplate: AdministrationRequest {
    public static let name = "wake.template.try"
    public var app: String
    public var kind: WakeTargetKind
    /// JSON5; nil for the template of the app, or the relay's built-in one where it has none.
    public var template: String?

    public init(app: String, kind: WakeTargetKind, template: String? = nil) {
        self.app = app
        self.kind = kind
        self.template = template
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// JSON.
        public var content: String

        public init(content: String) {
            self.content = content
        }
    }
}
