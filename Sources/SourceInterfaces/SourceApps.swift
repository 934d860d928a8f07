// Which interfaces are open, for which apps.

/// The apps with interfaces.
public struct SourceApps: Hashable, Sendable {
    private let interfaces: [String: Set<SourceInterface>]

    /// - Parameter interfaces: by app; an app without interfaces need not be there.
    public init(_ interfaces: [String: Set<SourceInterface>]) {
        self.interfaces = interfaces.filter { !$0.value.isEmpty }
    }

    /// Whether there is no interface.
    public var isEmpty: Bool { interfaces.isEmpty }

    /// Whether an app has an interface.
    public func has(_ interface: SourceInterface, app: String) -> Bool {
        interfaces[app]?.contains(interface) ?? false
    }

    /// Whether any app has an interface.
    public func has(_ interface: SourceInterface) -> Bool {
        interfaces.values.contains { $0.contains(interface) }
    }

    /// The user whom a login names: `USER`, or `APP/USER` where several apps have the interface. No
    /// id contains a slash.
    func user(named name: String, interface: SourceInterface) throws(SourceRefusal) -> SourceUser {
        let parts = name.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        if parts.count == 2 {
            guard has(interface, app: String(parts[0])) else {
                throw PasswordCheck.wrong
            }
            return SourceUser(app: String(parts[0]), user: String(parts[1]))
        }
        let apps = interfaces.filter { $0.value.contains(interface) }
        guard let app = apps.first?.key, apps.count == 1 else {
            throw SourceRefusal(
                400, field: "username", "must be APP/USER, because several apps have this interface"
            )
        }
        return SourceUser(app: app, user: name)
    }
}
