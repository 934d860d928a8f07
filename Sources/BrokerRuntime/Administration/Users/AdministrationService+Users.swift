// Operations on users: list, and show one with its devices.

import Administration
import BrokerCore
import Primitives

extension AdministrationService {
    func list(_ request: ListUsers) throws(AdministrationRefusal) -> ListUsers.Reply {
        let app = Array(request.app.utf8)
        guard shared.enter({ $0.broker.hasApp(app) }) else { throw Self.unknownApp(request.app) }
        var search = UserSearch(
            app: app, after: request.after, countMaximum: request.limit ?? ListUsers.countMaximum)
        shared.enterInSlices { $0.broker.advance(&search) }
        return ListUsers.Reply(
            users: search.found.map {
                ListUsers.User(
                    user: Self.text($0.user), sessionCount: $0.sessionCount,
                    connectionCount: $0.connectionCount, tokenCount: $0.tokenCount,
                    lastSeenUnixMilliseconds: Self.time($0.lastSeenUnixMilliseconds))
            }, next: search.next)
    }

    func show(_ request: ShowUser) throws(AdministrationRefusal) -> ShowUser.Reply {
        let (app, user) = (Array(request.app.utf8), Array(request.user.utf8))
        let moment = clock.moment()
        let description = shared.enter {
            $0.broker.userDescription(app: app, user: user, at: moment)
        }
        guard let description else {
            guard shared.enter({ $0.broker.hasApp(app) }) else {
                throw Self.unknownApp(request.app)
            }
            throw Self.unknownUser(request.user, request.app)
        }
        let places = shared.places(of: description.devices.compactMap(\.session.connection))
        return ShowUser.Reply(
            user: request.user, sessionCount: description.summary.sessionCount,
            connectionCount: description.summary.connectionCount,
            tokenCount: description.summary.tokenCount,
            groupCount: description.groupCount,
            lastSeenUnixMilliseconds: Self.time(description.summary.lastSeenUnixMilliseconds),
            offlineQueue: Queue(description.offlineQueue),
            devices: description.devices.map { device in
                let place = device.session.connection.flatMap { places[$0] }
                return ShowUser.Device(
                    device, address: place.map { "\($0.peer)" },
                    listener: place.map { listeners.name(ofTerms: $0.terms) })
            })
    }

    /// A time in Unix milliseconds, of which 0 stands for none.
    private static func time(_ unixMilliseconds: UInt64) -> UInt64? {
        unixMilliseconds == 0 ? nil : unixMilliseconds
    }
}

extension ShowUser.Device {
    fileprivate init(_ device: DeviceDescription, address: String?, listener: String?) {
        let session = device.session
        let isConnected = session.connection != nil
        self.init(
            device: String(decoding: session.device, as: UTF8.self),
            dialect: "\(session.dialect)", isPersistent: session.isPersistent,
            connectedUnixMilliseconds: isConnected ? session.connectedUnixMilliseconds : nil,
            awaySeconds: isConnected ? nil : session.awaySeconds,
            credential: device.credential.map(ShowUser.Credential.init),
            address: address, listener: listener, queue: Queue(session.queue),
            underWayCount: session.underWayCount)
    }
}

extension ShowUser.Credential {
    init(_ credential: CredentialDescription) {
        guard let kind = Kind(rawValue: credential.kindName) else {
            preconditionFailure("no kind of credential is \(credential.kindName)")
        }
        self.init(
            kind: kind,
            id: kind == .anonymous ? nil : String(decoding: credential.name, as: UTF8.self))
    }
}
