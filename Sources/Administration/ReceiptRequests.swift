// Requests about what receivers did with messages.

/// Tells the sender of a message that a user's application has applied it, or why not.
public struct ReportApplied: AdministrationRequest {
    public static let name = "message.applied"
    public var app: String
    /// The receiver.
    public var user: String
    /// The device that the receipt names; nil for none.
    public var device: String?
    /// The reference in the delivery, 16 hexadecimal digits.
    public var reference: String
    /// 0 or nil: done; from 128 on a failure.
    public var code: UInt8?
    /// For the sender, at most 128 bytes.
    public var text: String?

    public init(
        app: String, user: String, device: String? = nil, reference: String, code: UInt8? = nil,
        text: String? = nil
    ) {
        self.app = app
        self.user = user
        self.device = device
        self.reference = reference
        self.code = code
        self.text = text
    }

    public struct Reply: Codable, Hashable, Sendable {
        public init() {}
    }
}
