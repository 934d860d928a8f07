// The logins by password of one event loop: what is being verified, and what was found. A refusal
// is kept until its time, so that it tells nothing by coming early.

import BrokerCore
import BrokerTerms
import Primitives

/// The logins of one event loop that wait for their passwords to be verified.
struct PasswordLogins: ~Copyable {
    private enum State {
        case pending(began: Instant)
        case refused
        case known(PasswordVerifier.Outcome)
    }

    /// Nil if the broker verifies no passwords.
    private let verifier: PasswordVerifier?
    private var states: [ConnectionID: State] = [:]
    /// Refusals that wait for their time.
    private var refusals: TimerWheel

    init(_ verifier: PasswordVerifier?, at now: Instant) {
        self.verifier = verifier
        refusals = TimerWheel(start: now)
    }

    /// When the next refusal is due; nil if none is.
    var nextDeadline: Instant? { refusals.nextDeadline }

    /// What is known of a login. It is asked again when reading from the connection continues.
    ///
    /// - Parameter login: called if the login is new.
    mutating func verify(
        _ connection: ConnectionID, at now: Instant, login: () -> PasswordVerifier.Login
    ) -> PasswordVerifier.Outcome? {
        guard let verifier else { return .refused }
        switch states[connection] {
        case .pending?: return nil
        case .refused?:
            states[connection] = nil
            return .refused
        case .known(let outcome)?:
            states[connection] = nil
            return outcome
        case nil:
            switch verifier.begin(login()) {
            case .known(let outcome): return outcome
            case .pending:
                states[connection] = .pending(began: now)
                return nil
            }
        }
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
                let due = began.advanced(
                    byMilliseconds: PasswordVerifier.refusalMilliseconds)
                _ = refusals.insert(deadline: max(due, now), payload: connection.rawValue)
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
