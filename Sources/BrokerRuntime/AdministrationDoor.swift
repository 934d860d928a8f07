// The operator's door: a Unix socket in the data directory on which `martlet` asks and is answered, one
// JSON object per line. It runs on a loop and thread of its own, so that an operator never waits for
// the fleet, nor the fleet for an operator.

import Administration
import BrokerCore
import Credentials
import NetTransport
import Primitives
import WireFormat

/// Carries out administration commands and answers when they are committed.
struct AdministrationDoor: LoopHandler, ~Copyable {
    private let shared: SharedBroker
    private let clock: BrokerClock
    private let log: LogWriter
    private let laneHandles: [LoopHandle]
    private let started: Moment
    private let version: String

    init(shared: SharedBroker, clock: BrokerClock, log: LogWriter, version: String) {
        self.shared = shared
        self.clock = clock
        self.log = log
        self.version = version
        laneHandles = shared.laneHandles
        started = clock.moment()
    }

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        // Who may open the socket is who the file system says; there is nothing to log in to.
        loop.clearDeadline(of: connection)
        loop.setPacketMaximum(AdministrationLine.requestByteCountMaximum, for: connection)
    }

    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        var start = Int(bytes.offset)
        let end = bytes.endOffset
        let arena = loop.arena
        while let feed = arena[start..<end].firstIndex(of: UInt8(ascii: "\n")) {
            let reply = answer(Array(arena[start..<feed]))
            _ = reply.withUnsafeBytes { loop.append($0, to: connection, .required) }
            start = feed + 1
        }
        return Consumption(consumed: start - Int(bytes.offset))
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {}

    mutating func closed(
        _ connection: ConnectionID, _ cause: NetTransport.CloseCause, in loop: inout EventLoop
    ) {}

    // MARK: - Commands

    private func answer(_ line: [UInt8]) -> [UInt8] {
        do throws(AdministrationRefusal) {
            switch try AdministrationCommand(line: line) {
            case .createApp(let request): return request.line(replying: try createApp(request))
            case .listApps(let request): return request.line(replying: listApps())
            case .addUser(let request): return request.line(replying: try addUser(request))
            case .mintTokens(let request): return request.line(replying: try mint(request))
            case .readStatistics(let request): return request.line(replying: statistics())
            }
        } catch {
            return error.line
        }
    }

    private func createApp(
        _ request: CreateApp
    ) throws(AdministrationRefusal) -> CreateApp.Reply {
        try checkIdentifier(request.app, "app")
        let minted = AppKey.mint()
        let name = Array(request.app.utf8)
        let isNew = changeAndCommit { state in
            state.broker.addApp(name, keyDigest: Digest(minted.key.digest))
        }
        guard isNew else {
            throw AdministrationRefusal(
                .quotaExceeded, "there is an app \"\(request.app)\" already")
        }
        log.write(.info, .administration, ["request": "app.create", "app": .text(request.app)])
        return CreateApp.Reply(key: minted.text)
    }

    private func listApps() -> ListApps.Reply {
        let apps = shared.enter { $0.broker.appSummaries() }
        return ListApps.Reply(
            apps: apps.map {
                ListApps.App(
                    app: String(decoding: $0.name, as: UTF8.self), userCount: $0.userCount,
                    tokenCount: $0.tokenCount)
            }.sorted { $0.app < $1.app })
    }

    private func addUser(_ request: AddUser) throws(AdministrationRefusal) -> AddUser.Reply {
        try checkIdentifier(request.app, "app")
        try checkIdentifier(request.user, "user")
        let isNew = changeAndCommit { state in
            state.broker.addUser(Array(request.user.utf8), app: Array(request.app.utf8))
        }
        guard let isNew else { throw Self.unknownApp(request.app) }
        return AddUser.Reply(isNew: isNew)
    }

    private func mint(
        _ request: MintTokens
    ) throws(AdministrationRefusal) -> MintTokens.Reply {
        for user in request.users { try checkIdentifier(user, "user") }
        if let device = request.device, !device.isEmpty { try checkIdentifier(device, "device") }
        let now = clock.moment().unixMilliseconds / 1000
        let expires = request.expirySeconds.map { now.addingReportingOverflow($0) }
        let minted = request.users.map { _ in OpaqueToken.mint() }
        let isKnown = changeAndCommit { state in
            for (user, token) in zip(request.users, minted) {
                let isAdded = state.broker.addToken(
                    BrokerCore.Token(
                        identifier: Array(token.token.id.description.utf8),
                        digest: Digest(token.token.digest), app: Array(request.app.utf8),
                        user: Array(user.utf8), device: request.device.map { Array($0.utf8) },
                        expiresUnixSeconds: expires.map { $0.overflow ? .max : $0.partialValue }
                            ?? .max,
                        batch: Array((request.batch ?? "").utf8)))
                if !isAdded { return false }
            }
            return true
        }
        guard isKnown else { throw Self.unknownApp(request.app) }
        log.write(
            .info, .administration,
            [
                "request": "token.mint", "app": .text(request.app),
                "count": .number(minted.count), "batch": .text(request.batch ?? ""),
            ])
        return MintTokens.Reply(
            tokens: zip(request.users, minted).map { user, token in
                MintTokens.Token(user: user, id: "\(token.token.id)", token: token.text)
            })
    }

    private func statistics() -> ReadStatistics.Reply {
        let (counters, gauges) = shared.enter { ($0.broker.counters, $0.broker.gauges()) }
        let uptime = clock.moment().instant.milliseconds(since: started.instant) / 1000
        return ReadStatistics.Reply(
            brokerVersion: version, uptimeSeconds: uptime,
            counters: StatisticsNames.list(
                counters, gauges, loops: laneHandles.map { $0.counters }))
    }

    // MARK: - Support

    /// Changes the core's state and returns when the change is on disk.
    private func changeAndCommit<Result>(
        _ body: (inout SharedBroker.State) -> Result
    ) -> Result {
        let (result, sequence) = shared.enter { state in
            (body(&state), state.broker.gatheringSequence)
        }
        shared.waitForCommit(of: sequence)
        return result
    }

    private func checkIdentifier(
        _ text: String, _ what: String
    ) throws(AdministrationRefusal) {
        var text = text
        let isValid = text.withUTF8 { TextRules.isIdentifier(UnsafeRawBufferPointer($0)) }
        guard isValid else {
            throw AdministrationRefusal(
                .clientIdentifierNotValid,
                "the \(what) \"\(text)\" must have 1 to 64 bytes without / + # and control characters"
            )
        }
    }

    private static func unknownApp(_ app: String) -> AdministrationRefusal {
        AdministrationRefusal(
            .notAuthorized, "there is no app \"\(app)\"; make one with: martlet app create \(app)")
    }
}

extension AdministrationRefusal {
    fileprivate init(_ reason: ReasonCode, _ message: String) {
        self.init(reason: reason.rawValue, message: message)
    }
}
