// What the hook is asked, and what its answers and its silence mean.

import Primitives
import Relay

extension WakeDispatcher {
    /// The first phase of an attempt; nil if the hook cannot be asked, and its silence means that
    /// nothing is sent.
    mutating func begin(_ wake: Wake, to destination: String, now: Moment) -> Attempt? {
        if let hook = settings.hook, !targets[wake.key]!.isAsked {
            if hookCircuit.mayBegin(now: now.instant) {
                hookCircuit.begin()
                totals.hookAsked += 1
                return Attempt(
                    wake: wake, phase: .hook, destination: destination, begun: now.instant)
            }
            targets[wake.key]!.isAsked = true
            totals.hookSilent += 1
            guard hook.isTemplateOnSilence else {
                // Nobody was asked about it: people may want it.
                cancel(wake, to: destination)
                targets[wake.key]!.isInFlight = false
                addDeadLetter(wake, .hook, reason: "not-asked", now: now)
                settle(wake, now: now)
                return nil
            }
        }
        return sendAttempt(wake, to: destination, now: now)
    }

    /// Ends a wake-up that the hook does not want.
    private mutating func suppress(
        _ wake: Wake, to destination: String, reason: String, now: Moment
    ) {
        cancel(wake, to: destination)
        targets[wake.key]!.isInFlight = false
        totals.suppressed += 1
        note(wake, .dropped, detail: "hook \(reason)", now: now)
        settle(wake, now: now)
    }

    /// The hook has answered.
    ///
    /// - Returns: the attempt with the content; nil if nothing is sent.
    package mutating func finish(
        hook attempt: Attempt, with answer: HookAnswer, now: Moment
    ) -> Attempt? {
        let wake = attempt.wake
        noteHook(answer, now: now)
        guard targets[wake.key]?.pending?.sequence == wake.sequence else {
            // The wake-up was withdrawn or replaced meanwhile.
            cancel(wake, to: attempt.destination)
            resume(wake.key, now: now)
            return nil
        }
        targets[wake.key]!.isAsked = true
        switch answer {
        case .content(let node): targets[wake.key]!.answer = node
        case .template: break
        case .silent(let reason, _):
            guard settings.hook?.isTemplateOnSilence == true else {
                suppress(wake, to: attempt.destination, reason: reason, now: now)
                return nil
            }
        case .drop:
            suppress(wake, to: attempt.destination, reason: "no", now: now)
            return nil
        }
        return sendAttempt(wake, to: attempt.destination, now: now)
    }

    /// What an answer means for the hook as a whole.
    private mutating func noteHook(_ answer: HookAnswer, now: Moment) {
        var isWell = true
        if case .silent(_, let isAnswer) = answer {
            totals.hookSilent += 1
            isWell = isAnswer
        }
        guard !isWell else {
            if hookCircuit.succeeded() { log("hook_recovered", "") }
            return
        }
        let random = jitter.next()
        let schedule = settings.relay.schedule
        let isOpened = hookCircuit.failed(advised: 0, now: now.instant) { openings in
            min(
                schedule.milliseconds(afterFailures: openings, random: random),
                PushLimits.hookPauseMilliseconds)
        }
        if isOpened { log("hook_failing", "verdict=\(settings.hook?.verdict ?? "")") }
    }
}
