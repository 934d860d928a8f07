// Entries of the log that the broker is to get, the oldest first. The record has them in the log of
// the relay, and how many of the newest ones the broker has not taken. One request is under way at
// a time.

import ClientProgram
import MartletClient
import Primitives
import Relay
import WakeTemplates

/// The broker's answer to a report.
package enum ReportOutcome: Hashable, Sendable {
    case taken
    /// It has not answered; the same entries follow later.
    case failed
    /// It does not take these entries: a right is missing, or the broker is of an older version.
    case refused(String)
}

struct WakeReports {
    private var waiting = Queue<LogEntry>()
    /// What is being reported, or is to be reported again.
    private var batch: [LogEntry] = []
    private var isUnderWay = false
    /// Whether the last report was not taken.
    private var hasFailed = false
    private var pause = Instant(milliseconds: 0)
    /// Whether the last report was refused.
    private(set) var isRefused = false

    /// Entries that the broker has not taken: the newest ones of the log.
    var count: Int { waiting.count + batch.count }

    /// Whether a relay that stops waits for the broker: it answers, as far as is known.
    var isWorthWaiting: Bool { count > 0 && !hasFailed }

    /// Takes an entry. Returns false if the oldest one made room for it.
    mutating func add(_ entry: LogEntry) -> Bool {
        waiting.append(entry)
        guard waiting.count > PushLimits.reportsMaximum else { return true }
        _ = waiting.popFirst()
        return false
    }

    /// The next report; nil if none may begin.
    mutating func next(now: Instant) -> [WakeReport]? {
        guard !isUnderWay, now >= pause else { return nil }
        while batch.count < WakeReport.countMaximum, let entry = waiting.popFirst() {
            batch.append(entry)
        }
        guard !batch.isEmpty else { return nil }
        isUnderWay = true
        return batch.map(\.report)
    }

    /// The broker has answered the report.
    ///
    /// - Returns: how many entries it does not get.
    mutating func finish(_ outcome: ReportOutcome, now: Instant) -> Int {
        isUnderWay = false
        isRefused = false
        hasFailed = outcome != .taken
        switch outcome {
        case .taken: batch = []
        case .failed: pause = now.advanced(byMilliseconds: PushLimits.reportMilliseconds)
        case .refused:
            isRefused = true
            pause = now.advanced(byMilliseconds: PushLimits.removalMilliseconds)
            defer { batch = [] }
            return batch.count
        }
        return 0
    }

    /// When a report may begin; never if there is nothing to report or one is under way.
    var deadline: Instant {
        isUnderWay || batch.isEmpty && waiting.isEmpty ? .never : pause
    }
}

extension WakeDispatcher {
    /// What to report to the broker; nil for nothing. ``finish(report:now:)`` follows.
    package mutating func nextReport(now: Instant) -> [WakeReport]? { reports.next(now: now) }

    /// The broker has answered.
    package mutating func finish(report outcome: ReportOutcome, now: Moment) {
        let wasRefused = reports.isRefused
        totals.unreported += UInt64(reports.finish(outcome, now: now.instant))
        if outcome != .failed {
            progress.add(.unreported(UInt64(reports.count)))
            progress.needSync(now.instant, within: PushLimits.resultMilliseconds)
        }
        if case .refused(let reason) = outcome, !wasRefused {
            log("report_refused", "reason=\(quoted(reason.utf8))")
        }
    }
}

extension LogEntry {
    fileprivate var report: WakeReport {
        let kind: WakeTarget.Kind =
            switch self.kind {
            case .webhook: .webhook
            case .apns: .apns
            case .fcm: .fcm
            case .sms: .smsWebhook
            case .mqtt: .mqtt
            case .udp: .udp
            }
        return WakeReport(
            user: key.user, target: key.id, kind: kind, step: step.rawValue, time: time,
            number: sequence, count: count, detail: detail)
    }
}
