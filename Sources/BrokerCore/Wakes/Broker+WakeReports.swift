// Keeps what relays report of wake-ups, and shows it to operators and back ends: "why did it not
// wake?"

import BrokerTerms
import Primitives

extension Broker {
    /// Takes a report of a relay. It needs the right to the wake targets of every user in it, and
    /// is refused as a whole where one is missing. Entries of unknown users are left out: they were
    /// deleted meanwhile.
    mutating func wakesReported(
        by connection: ConnectionID, identifier requestIdentifier: UInt64, _ entries: ByteRange,
        in step: inout Step
    ) {
        guard let session = session(of: connection) else { return }
        let app = registry.users[sessions[session].user].app
        var run = WakeReportRun(entries)
        while let (range, report) = run.next(in: step.bytes.bytes) {
            let name = range.bytes(in: step.bytes)
            guard allows(.wake(user: name), session) else {
                return refuse(
                    connection, request: requestIdentifier, .notAuthorized, cause: .wakeRight,
                    about: Array(name), in: &step)
            }
            guard report != nil else {
                return refuse(
                    connection, request: requestIdentifier, .implementationSpecificError,
                    cause: .wakeStep, in: &step)
            }
        }
        run = WakeReportRun(entries)
        while let (range, report) = run.next(in: step.bytes.bytes) {
            workload.charge(1)
            guard let report, let user = user(named: range.bytes(in: step.bytes), app: app)
            else { continue }
            counters.wakeReports += 1
            counters.wakeReportsDropped += UInt64(wakeReports.add(report, of: user, app: app))
        }
        step.effects[connection.loop].respond(
            to: connection, request: requestIdentifier, reason: .success)
    }

    /// What relays reported of the wake-ups of a user, oldest first; nil if there is no such user.
    /// And the number of the latest entry of all users; 0 if there is none.
    ///
    /// - Parameters:
    ///   - number: only entries with a higher number; nil for the latest ones.
    ///   - limit: how many at most.
    public func wakeReports(
        app appName: [UInt8], user userName: [UInt8], after number: UInt64?, limit: Int
    ) -> (reports: [WakeReport], last: UInt64)? {
        guard let app = app(named: appName), let user = user(named: userName, app: app) else {
            return nil
        }
        return (
            wakeReports.reports(of: user, after: number, limit: limit), wakeReports.lastNumber
        )
    }
}
