// The relay: it takes requests to wake users and their ends in the order of its inbox, reports what
// it did, and removes targets that it finds gone.

import ClientCore
import Primitives
import WireFormat

final class SimulatedRelay: ServiceClient {
    /// Its unanswered requests: reports, and removals of targets.
    private var requests: [UInt64: UInt64?] = [:]
    private var wakeCount: UInt64 = 0

    init(_ index: Int, context: SimulationContext, network: SimulatedNetwork) {
        super.init(index, .relay, context: context, network: network)
    }

    override var isAtRest: Bool { requests.isEmpty }

    override func forget() { requests = [:] }

    override func take(_ event: EventText) {
        guard let user = event.text("user") else { return }
        switch event.text("event") {
        case "WAKE_REQUEST":
            let targets = event.targets
            note("is to wake \(user) at \(targets), message \(event.message ?? -1)")
            oracle.wakeRequested(event, user: user, targets: targets)
            guard let first = targets.first else { return }
            wakeCount += 1
            if context.serviceRandom.happens(perTenThousand: 3_000) { report(user, first) }
            if context.serviceRandom.happens(perTenThousand: 100), !context.isRecovering {
                remove(first, of: user)
            }
        case "WAKE_WITHDRAWN":
            let target = event.number("target").map(UInt64.init)
            note("need not wake \(user)\(target.map { " at \($0)" } ?? "")")
            oracle.wakeWithdrawn(user: user, target: target)
        default: break
        }
    }

    private func report(_ user: String, _ target: UInt64) {
        let name = Array(user.utf8)
        let report = MRT.WakeReport(
            user: ByteRange(offset: 0, count: name.count), target: target, kind: 1, step: 1,
            time: context.moment.unixMilliseconds, number: wakeCount, count: 1, detail: .empty)
        var bytes = [UInt8](repeating: 0, count: report.byteCount)
        name.withUnsafeBytes { source in
            bytes.withUnsafeMutableBytes { bytes in
                var writer = PacketWriter(bytes.mutableBytes)
                report.write(to: &writer, from: source.bytes)
            }
        }
        let list = MRT.WakeReportList(entries: ByteRange(offset: 0, count: bytes.count))
        guard let identifier = request(.reportWakes, list, from: bytes) else { return }
        requests[identifier] = .some(nil)
    }

    private func remove(_ target: UInt64, of user: String) {
        let name = Array(user.utf8)
        let part = MRT.WakeTargetName(
            user: ByteRange(offset: 0, count: name.count), identifier: target)
        guard let identifier = request(.removeWakeTarget, part, from: name) else { return }
        oracle.removingTarget(target)
        requests[identifier] = target
    }

    override func take(_ response: MRT.Response) {
        guard let request = requests.removeValue(forKey: response.identifier) else { return }
        if let target = request {
            oracle.targetRemoved(target, response.reason)
        } else if response.reason.isFailure {
            oracle.fail(.wakesAreAsked, "a report is refused: \(response.reason.name)")
        }
    }
}
