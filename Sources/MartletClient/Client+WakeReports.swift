// Reports of a relay about the wake-ups that it was asked for. Relays of this package use it.

import WireFormat

/// One thing that happened to a wake-up at a relay.
package struct WakeReport: Hashable, Sendable {
    /// Whose target it is.
    package var user: String
    /// The id of the target.
    package var target: UInt64
    package var kind: WakeTarget.Kind
    /// What happened, as in docs/PROTOCOL.md.
    package var step: UInt8
    /// Unix milliseconds.
    package var time: UInt64
    /// The relay's number of the wake-up.
    package var number: UInt64
    /// Messages that waited for the user.
    package var count: UInt64
    /// A status, a reason or a cause; more than ``detailByteCountMaximum`` bytes are cut.
    package var detail: String

    /// Bytes of ``detail``.
    package static let detailByteCountMaximum = WireLimits.wakeDetailByteCountMaximum
    /// Reports in one request.
    package static let countMaximum = WireLimits.wakeReportMaximum

    package init(
        user: String, target: UInt64, kind: WakeTarget.Kind, step: UInt8, time: UInt64,
        number: UInt64, count: UInt64, detail: String
    ) {
        self.user = user
        self.target = target
        self.kind = kind
        self.step = step
        self.time = time
        self.number = number
        self.count = count
        self.detail = detail
    }
}

extension Client {
    /// Reports what happened to wake-ups, oldest first. Requires the right `wake:` to each user.
    ///
    /// - Parameter reports: 1 to ``WakeReport/countMaximum``.
    package func report(_ reports: [WakeReport]) async throws(MartletError) {
        precondition(
            (1...WakeReport.countMaximum).contains(reports.count),
            "\(reports.count) reports in one request")
        var entries: [UInt8] = []
        for report in reports {
            var texts = ByteBuilder()
            let part = MRT.WakeReport(
                user: try texts.append(identifier: report.user), target: report.target,
                kind: report.kind.rawValue, step: report.step, time: report.time,
                number: report.number, count: report.count,
                detail: texts.append(Self.cut(report.detail)))
            entries += ClientRequest(.reportWakes, part: part, source: texts.bytes).parameters
        }
        _ = try await request(ClientRequest(operation: .reportWakes, parameters: entries))
    }

    /// The beginning of a text that fits, up to the end of a character.
    private static func cut(_ text: String) -> String {
        var text = text
        while text.utf8.count > WakeReport.detailByteCountMaximum { text.removeLast() }
        return text
    }
}
