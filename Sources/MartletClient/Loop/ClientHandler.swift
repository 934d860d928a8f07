// The handler of the background thread's loop: it dispatches commands, connection events and
// deadlines to their clients, and lets each client continue afterwards.

import BrokerTerms
import NetTransport
import Primitives

/// The clients of the event loop and their connections.
struct ClientHandler: LoopHandler, ~Copyable {
    private let loop: ClientLoop
    private var sessions: [UInt64: ClientSession] = [:]
    private var owners: [ConnectionID: ClientSession] = [:]
    private var wheel = TimerWheel()
    private var resolution: NameResolution

    init(_ loop: ClientLoop) {
        self.loop = loop
        resolution = NameResolution(loop)
    }

    // MARK: - Calls of the loop

    mutating func opened(
        _ connection: ConnectionID, _ origin: ConnectionOrigin, in loop: inout EventLoop
    ) {
        guard let session = owners[connection] else { return }
        session.opened(in: &loop)
        settle(session, &loop)
    }

    mutating func received(
        _ bytes: ByteRange, from connection: ConnectionID, in loop: inout EventLoop
    ) -> Consumption {
        if let session = owners[connection] {
            session.received(bytes.bytes(in: loop.arena), in: &loop)
            settle(session, &loop)
        }
        return Consumption(consumed: Int(bytes.count))
    }

    mutating func outgoingDrained(_ connection: ConnectionID, in loop: inout EventLoop) {
        guard let session = owners[connection] else { return }
        session.service(in: &loop)
        settle(session, &loop)
    }

    mutating func deadlineReached(
        _ deadline: ConnectionDeadline, _ connection: ConnectionID, in loop: inout EventLoop
    ) {
        preconditionFailure("a client sets no deadlines: \(deadline) of \(connection)")
    }

    mutating func closed(
        _ connection: ConnectionID, _ cause: TransportCloseCause, in loop: inout EventLoop
    ) {
        guard let session = owners.removeValue(forKey: connection) else { return }
        let detail = loop.closeDetail(of: connection)
        session.closed(
            cause.explanation(
                detail: detail, over: session.server.transport,
                isOpened: session.isOpen, isAnswered: session.isAnswered), in: &loop)
        settle(session, &loop)
    }

    // A client has no listeners, and disconnects before it stops the loop.
    mutating func turnedAway(
        _ peer: SocketAddress, _ cause: RefusalCause, in loop: inout EventLoop
    ) {}
    mutating func stopping(in loop: inout EventLoop) {}

    mutating func woken(in loop: inout EventLoop) {
        for command in self.loop.takeCommands() { carryOut(command, &loop) }
    }

    mutating func turnEnded(in loop: inout EventLoop) {
        while let identifier = wheel.popDue(at: loop.now) {
            guard let session = sessions[identifier] else { continue }
            session.timer = .none
            session.timePassed(in: &loop)
            settle(session, &loop)
        }
        loop.nextWake = wheel.nextDeadline ?? .never
    }

    // MARK: - Commands

    private mutating func carryOut(_ command: ClientCommand, _ loop: inout EventLoop) {
        let identifier: UInt64
        switch command {
        case .open(let blueprint):
            sessions[blueprint.identifier] = ClientSession(blueprint)
            return
        case .resolved(let server, let result):
            for identifier in resolution.takeWaiting(server) {
                guard let session = sessions[identifier] else { continue }
                session.resolved(server, result, in: &loop)
                settle(session, &loop)
            }
            return
        case .connect(let client, _, _), .send(let client, _), .request(let client, _),
            .cancel(let client, _), .acknowledge(let client, _), .leave(let client, _, _):
            identifier = client
        }
        guard let session = sessions[identifier] else {
            command.fail(.closed)
            return
        }
        switch command {
        case .connect(_, let ticket, let completion):
            session.connect(ticket, completion, in: &loop)
        case .send(_, let pending): session.take(.send(pending), in: &loop)
        case .request(_, let pending): session.take(.request(pending), in: &loop)
        case .cancel(_, let ticket): session.cancel(ticket)
        case .acknowledge(_, let record): session.acknowledge(record, in: &loop)
        case .leave(_, let endsSession, let completion):
            session.leave(endsSession, completion, in: &loop)
        case .open, .resolved: preconditionFailure("command for \(identifier) was handled before")
        }
        settle(session, &loop)
    }

    // MARK: - After each call

    /// Updates the handler's view of a client: its connection, its deadline, its end.
    private mutating func settle(_ session: ClientSession, _ loop: inout EventLoop) {
        if session.wantsResolution {
            session.wantsResolution = false
            resolution.resolve(session.server, for: session.identifier)
        }
        if let connection = session.connection { owners[connection] = session }
        if let former = session.formerConnection {
            owners[former] = nil
            session.formerConnection = nil
        }
        if session.isOver {
            wheel.cancel(session.timer)
            sessions[session.identifier] = nil
            return
        }
        let deadline = session.nextDeadline
        guard deadline != session.timerDeadline || session.timer == .none else { return }
        wheel.cancel(session.timer)
        session.timerDeadline = deadline
        session.timer =
            deadline == .never
            ? .none : wheel.insert(deadline: deadline, payload: session.identifier)
        loop.nextWake = min(loop.nextWake, wheel.nextDeadline ?? .never)
    }
}
