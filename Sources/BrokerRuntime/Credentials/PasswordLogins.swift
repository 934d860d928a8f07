// The logins by password of one event loop: what is being verified, and what was found. A refusal
// is kept until its time, so that it tells nothing by coming early.

import BrokerCore
import BrokerTerms
import Primitives

/// The logins of one event loop that wait for their passwords to be verified.
struct PasswordLogins: ~Copyable {
    private enum State {
        /// It begins at the end of the turn, when the loop tells the client's address.
        case new(PasswordVerifier.Login)
        case pending(began: Instant)
        case refused
        case known(PasswordVerifier.Outcome)
    }

    /// Nil if the broker verifies no passwords.
    private let verifier: PasswordVerifier?
    private var states: [ConnectionID: State] = [:]
    /// Connections whose logins begin at the end of this turn.
    private var new: [ConnectionID] = []
    /// Refusals that wait for their time.
    private var refusals: TimerWheel

    init(_ verifier: PasswordVerifier?, at now: Instant) {
        self.verifier = verifier
        refusals = TimerWheel(start: now)
    }

    /// When the next refusal is due; nil if none is.
    var nextDeadline: Instant? { refusals.nextDeadline }

    /// Whether another node of the cluster serves an app, whose passwords are not known here.
    func isElsewhere(_ app: [UInt8]) -> Bool { verifier?.isElsewhere(app) ?? false }

    /// What is known of a login. It is asked again when reading from the connection continues.
    ///
    /// - Parameter login: called if the login is new.
    mutating func verify(
        _ connection: ConnectionID, login: () -> PasswordVerifier.Login
    ) -> PasswordVerifier.Outcome? {
        guard let verifier else { return .refused }
        switch states[connection] {
        case .new?, .pending?: return nil
        case .refused?:
            states[connection] = nil
            return .refused
        case .known(let outcome)?:
            states[connection] = nil
            return outcome
        case nil:
            let login = login()
            if let identity = verifier.recognize(login) { return .valid(identity) }
            states[connection] = .new(login)
            new.append(connection)
            return nil
        }
    }

    /// Begins the logins of this turn, and calls `refused` with each connection for whose login
    /// there is no room.
    ///
    /// - Parameter address: the address of a connection's client.
    mutating func beginNew(
        at now: Instant, address: (ConnectionID) -> IPAddress?,
        _ refused: (ConnectionID) -> Void
    ) {
        guard let verifier, !new.isEmpty else { return }
        for connection in new {
            guard case .new(let login)? = states[connection] else { continue }
            // Clients of a Unix socket would be one client.
            let address = address(connection) ?? IPAddress(high: 0, low: 0)
            if verifier.begin(login, from: address) {
                states[connection] = .pending(began: now)
            } else {
                states[connection] = .known(.busy)
                refused(connection)
            }
        }
        new.removeAll(keepingCapacity: true)
    }

    mutating func closed(_ connection: ConnectionID) {
        if states.isEmpty { return }
        if states.removeValue(forKey: connection) != nil { verifier?.forget(connection) }
    }

    /// Takes what was found, and calls `body` with each connection whose login can continue.
    mutating func takeResults(
        loop: UInt8, at now: Instant, _ body: (ConnectionID) -> Void
    ) {
        guard let verifier, !states.isEmpty else { return }
        for (connection, outcome) in verifier.takeResults(loop: loop) {
            guard case .pending(let began)? = states[connection] else { continue }
            switch outcome {
            case .valid, .busy:
                states[connection] = .known(outcome)
                body(connection)
            case .refused:
                states[connection] = .refused
                _ = refusals.insert(
                    deadline: RefusalTime.due(began: began, verified: now),
                    payload: connection.rawValue)
            }
        }
    }

    /// Calls `body` with each connection whose refusal is due.
    mutating func takeDueRefusals(at now: Instant, _ body: (ConnectionID) -> Void) {
        while let payload = refusals.popDue(at: now) {
            // The loop ignores the id of a connection that has closed.
            body(ConnectionID(rawValue: payload))
        }
    }
}
