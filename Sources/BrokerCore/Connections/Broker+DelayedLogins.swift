// MQTT logins that wait before they take a session over, because it has been taken over too often:
// two clients with one name would replace each other without end. Meanwhile the existing connection
// remains. The broker keeps the whole login of a client that waits.

import BrokerTerms
import Primitives

/// A login that waits for its time to take a session over.
struct DelayedLogin {
    let connection: ConnectionID
    private(set) var request: ConnectRequest
    /// The identity that the edge has verified, if the claim has one.
    let identity: VerifiedIdentity?
    /// The bytes to which its ranges refer.
    private(set) var bytes: [UInt8] = []
    var token = TimerWheel.Token.none

    init(
        connection: ConnectionID, request: ConnectRequest,
        bytes source: UnsafeRawBufferPointer, identity: VerifiedIdentity?
    ) {
        self.connection = connection
        self.identity = identity
        self.request = request
        if let will = request.will {
            self.request.setWill(
                WillRequest(
                    delaySeconds: will.delaySeconds, message: bytes.take(will.message, of: source)))
        }
        self.request.device = bytes.take(request.device, of: source)
        switch request.claim {
        case .token(let identifier, let digest):
            self.request.claim = .token(
                identifier: bytes.take(identifier, of: source), digest: digest)
        case .appKey(let app, let digest, let user):
            self.request.claim = .appKey(
                app: bytes.take(app, of: source), digest: digest,
                user: bytes.take(user, of: source))
        case .anonymous(let user):
            self.request.claim = .anonymous(user: bytes.take(user, of: source))
        case .attached(let gateway, let user):
            self.request.claim = .attached(
                gateway: gateway, user: bytes.take(user, of: source))
        case .verified:
            break
        }
    }
}

extension Broker {
    /// The time at which a login may take a session over; nil if it may at once.
    mutating func takeoverTime(
        of session: Index<Session>, _ connection: ConnectionID, in step: inout Step
    ) throws(ConnectRefusal) -> Instant? {
        guard let connected = sessions[session].connected,
            let seconds = live.connectedSessions[connected].takeovers.secondsToWait(
                at: step.moment.instant, maximum: policy(of: session).takeoversPerMinute)
        else { return nil }
        note(
            .duplicateLogin, session: session, reason: .connectionRateExceeded, other: connection,
            in: &step)
        guard
            let time = live.connectedSessions[connected].reserveTakeoverTime(
                at: step.moment.instant)
        else {
            throw ConnectRefusal(reason: .connectionRateExceeded, retryAfterSeconds: seconds)
        }
        return time
    }

    /// Keeps a login until its time.
    mutating func delay(
        _ connection: ConnectionID, request: ConnectRequest, until time: Instant, access: Access,
        bytes: UnsafeRawBufferPointer
    ) {
        counters.connectsDelayed += 1
        var identity: VerifiedIdentity?
        if case .verified(let verified) = access.source { identity = verified }
        let index = live.delay(
            DelayedLogin(connection: connection, request: request, bytes: bytes, identity: identity)
        )
        live.note(timer: deadlines.insert(.login(index), at: time), of: index)
    }

    /// Ends the wait of a login whose connection has ended.
    mutating func forgetDelayedLogin(of connection: ConnectionID) {
        guard let index = delayedLogin(of: connection) else { return }
        deadlines.cancel(live.remove(index).token)
    }

    /// Handles a login that has waited long enough.
    mutating func finishDelayedLogin(_ index: Index<DelayedLogin>, in step: inout Step) {
        let login = live.remove(index)
        var identities = TurnIdentities()
        var request = login.request
        if let identity = login.identity { request.claim = .verified(identities.append(identity)) }
        login.bytes.withUnsafeBytes { bytes in
            var step = Step(bytes: bytes, within: step)
            connect(
                login.connection, request, identities: identities, hasWaited: true, in: &step)
        }
    }

    private func delayedLogin(of connection: ConnectionID) -> Index<DelayedLogin>? {
        guard live.delayedLogins.count > 0 else { return nil }
        for index in live.delayedLogins.places
        where live.delayedLogins.contains(index)
            && live.delayedLogins[index].connection == connection
        {
            return index
        }
        return nil
    }
}
