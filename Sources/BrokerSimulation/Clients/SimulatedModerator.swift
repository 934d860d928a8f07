// The moderator: it accepts, refuses or rewrites what others send, cannot decide, says nothing,
// says it late or twice, and loses its open verdicts when it loses power.

import ClientCore
import Primitives
import WireFormat

/// What a moderator says about a message.
enum SimulatedVerdict: Hashable {
    case accepted
    case refused
    case rewritten
    case later
}

final class SimulatedModerator: ServiceClient {
    /// Verdicts that it has not given yet.
    private var open: [OpenVerdict] = []
    /// Its publications without a result.
    private var given: Set<UInt64> = []
    /// For a planted bug: questions without a verdict.
    private var unanswered: [UInt64] = []

    private struct OpenVerdict {
        let at: Instant
        let question: UInt64
        let message: Int?
        let verdict: SimulatedVerdict
    }

    init(_ index: Int, context: SimulationContext, network: SimulatedNetwork) {
        super.init(index, .moderator, context: context, network: network)
    }

    override var isAtRest: Bool { open.isEmpty && given.isEmpty }

    override func forget() {
        open = []
        given = []
        unanswered = []
    }

    override func take(_ event: EventText) {
        guard event.text("event") == "MESSAGE_QUESTION", let number = event.number("number"),
            let policy = context.profile.moderation
        else { return }
        let question = UInt64(number)
        note("is asked about message \(event.message ?? -1), \(question)")
        oracle.asked(question, about: event.message)
        unanswered.append(question)
        if context.isRecovering { return give(question, about: event.message, .accepted) }
        let verdict = drawVerdict(about: event.message)
        guard let verdict else { return }
        if context.serviceRandom.happens(perTenThousand: 6_000) {
            give(question, about: event.message, verdict)
        } else {
            // A fifth of these is too late, unless the sender's queue waits for longer.
            let delay = context.serviceRandom.milliseconds(in: 1...policy.milliseconds * 5 / 4)
            let at = context.now.advanced(byMilliseconds: delay)
            wait(
                OpenVerdict(at: at, question: question, message: event.message, verdict: verdict))
        }
        guard context.serviceRandom.happens(perTenThousand: 500) else { return }
        // A second verdict, which does not count.
        let second = drawVerdict(about: event.message) ?? .accepted
        let delay = context.serviceRandom.milliseconds(
            in: policy.milliseconds * 5 / 4...policy.milliseconds * 3)
        let at = context.now.advanced(byMilliseconds: delay)
        wait(OpenVerdict(at: at, question: question, message: event.message, verdict: second))
    }

    /// Nil if it says nothing.
    private func drawVerdict(about message: Int?) -> SimulatedVerdict? {
        // It knows no text of it.
        guard message != nil else { return .accepted }
        switch context.serviceRandom.below(20) {
        case 0..<12: return .accepted
        case 12..<15: return .refused
        case 15..<18: return .rewritten
        case 18: return .later
        default: return nil
        }
    }

    private func wait(_ verdict: OpenVerdict) {
        open.append(verdict)
        context.eventQueue.enter(.serviceDue(service: index), at: verdict.at)
    }

    override func due() {
        let ready = open.filter { $0.at <= context.now }
        guard !ready.isEmpty else { return }
        open.removeAll { $0.at <= context.now }
        for verdict in ready { give(verdict.question, about: verdict.message, verdict.verdict) }
        runOn()
    }

    private func give(_ question: UInt64, about message: Int?, _ verdict: SimulatedVerdict) {
        let name = message ?? 0
        unanswered.removeAll { $0 == question }
        // Planted bugs: the broker sees another question, or another verdict.
        let told = context.has(.crossedVerdicts) ? unanswered.last ?? question : question
        let isKept = context.has(.keptOriginal) && verdict == .rewritten
        let published = publish(isKept ? .accepted : verdict, about: name, on: "$verdict/\(told)")
        guard let number = published else { return }
        note("says \(verdict) about message \(name), \(question)")
        given.insert(number)
        oracle.decided(question, verdict)
    }

    private func publish(
        _ verdict: SimulatedVerdict, about message: Int, on topic: String
    ) -> UInt64? {
        let code = Oracle.verdictCode(message)
        return switch verdict {
        case .accepted: publish([], on: "\(topic)/accept")
        case .later: publish([], on: "\(topic)/later")
        case .refused: publish(Array("no".utf8), on: "\(topic)/refuse/\(-code)")
        case .rewritten:
            publish(MessageText.makeRewritten(message), on: "\(topic)/rewrite/\(code)")
        }
    }

    override func take(_ result: MRT.SendResult) {
        given.remove(result.number)
        switch result.reason {
        case .sent, .noMatchingSubscribers, .quotaExceeded: break
        default:
            oracle.fail(.verdictsAreKept, "a verdict is refused: \(result.reason.name)")
        }
    }
}
