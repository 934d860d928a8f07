// Requests about the broker itself: its listeners.

/// Lists the listeners, with their connections and certificates.
public struct ListListeners: AdministrationRequest {
    public static let name = "listener.list"

    public init() {}

    public struct Listener: Codable, Hashable, Sendable {
        /// As the configuration writes host and port, with the port that the system chose:
        /// `*:8883`.
        public var address: String
        /// `tls`, `tcp`, `wss`, `ws`, `https` or `http`.
        public var scheme: String
        /// What a web listener serves, as in `serve=`; empty for another one.
        public var parts: [String]
        /// Connections that are open, with those that have not logged in.
        public var connectionCount: Int
        /// The subject of the certificate; nil without TLS, here and below.
        public var certificateSubject: String?
        public var certificateExpiresUnixSeconds: UInt64?
        /// Whole days until it expires; 0 also after that.
        public var certificateDays: UInt64?

        public init(
            address: String, scheme: String, parts: [String], connectionCount: Int,
            certificateSubject: String?, certificateExpiresUnixSeconds: UInt64?,
            certificateDays: UInt64?
        ) {
            self.address = address
            self.scheme = scheme
            self.parts = parts
            self.connectionCount = connectionCount
            self.certificateSubject = certificateSubject
            self.certificateExpiresUnixSeconds = certificateExpiresUnixSeconds
            self.certificateDays = certificateDays
        }
    }

    public struct Reply: Codable, Hashable, Sendable {
        /// In the order of the configuration.
        public var listeners: [Listener]

        public init(listeners: [Listener]) {
            self.listeners = listeners
        }
    }
}
