// Operations on traces: start, list, read, stop.

import Administration
import BrokerTerms
import Primitives

extension AdministrationService {
    /// - Parameter name: the operator of the HTTP API; nil on the admin socket.
    func start(
        _ request: StartTrace, by name: String?
    ) throws(AdministrationRefusal) -> StartTrace.Reply {
        try Self.checkIdentifier(request.user, "user")
        let seconds = request.seconds ?? StartTrace.secondsDefault
        guard (1...StartTrace.secondsMaximum).contains(seconds) else {
            throw AdministrationRefusal(
                .malformedPacket,
                "a trace lasts 1 to \(StartTrace.secondsMaximum) seconds, not \(seconds)")
        }
        let isKnown = shared.enter { $0.broker.hasApp(Array(request.app.utf8)) }
        guard isKnown else { throw unknownApp(request.app) }
        let starter = name ?? Self.socketName
        let trace = traces.start(
            app: request.app, user: request.user, device: request.device,
            showsPayloads: request.showsPayloads ?? false, seconds: seconds, by: starter,
            at: loopClock.moment())
        guard let trace else {
            throw AdministrationRefusal(
                .quotaExceeded,
                "there are \(TraceLimits.countMaximum) traces already; see: martlet trace list")
        }
        wakeLoops()
        log.write(
            .warning, .administration,
            fields: [
                "request": "trace.start", "operator": .text(starter),
                "trace": .number(trace), "app": .text(request.app), "user": .text(request.user),
                "device": .text(request.device ?? ""), "seconds": .number(seconds),
                "payloads": .number(request.showsPayloads == true ? 1 : 0),
            ])
        return StartTrace.Reply(trace: "\(trace)")
    }

    /// Who started a trace on the admin socket, whose file's permissions decide who that may be.
    private static let socketName = "admin socket"

    func listTraces() -> ListTraces.Reply {
        ListTraces.Reply(traces: traces.list(at: loopClock.moment().instant))
    }

    func read(_ request: ReadTrace) throws(AdministrationRefusal) -> ReadTrace.Reply {
        let reply = UInt64(request.trace).flatMap {
            traces.read($0, after: request.after ?? 0, at: loopClock.moment().instant)
        }
        guard let reply else { throw Self.unknownTrace(request.trace) }
        return reply
    }

    func stop(_ request: StopTrace) throws(AdministrationRefusal) -> StopTrace.Reply {
        guard let trace = UInt64(request.trace), traces.stop(trace) else {
            throw Self.unknownTrace(request.trace)
        }
        wakeLoops()
        log.write(
            .info, .administration,
            fields: ["request": "trace.stop", "trace": .number(trace)])
        return StopTrace.Reply()
    }

    /// Ends the traces whose time is over, and returns when to call it again.
    func endTraces(at now: Instant) -> Instant? {
        let (hasEnded, next) = traces.endDue(at: now)
        if hasEnded { wakeLoops() }
        return next
    }

    /// Makes the loops take over the targets.
    private func wakeLoops() {
        for handle in shared.loopHandles { handle.wake() }
    }

    private static func unknownTrace(_ trace: String) -> AdministrationRefusal {
        AdministrationRefusal(
            .topicNameInvalid, "there is no trace \"\(trace)\"; see: martlet trace list",
            cause: .unknown)
    }
}
