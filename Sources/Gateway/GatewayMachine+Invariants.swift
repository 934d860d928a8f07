// The invariants of a gateway's machine between any two calls, for any input.

import Primitives

extension GatewayMachine {
    /// Traps if an invariant is violated. For tests and fuzzing: it examines every line.
    package func checkInvariants() {
        var channelCount = 0
        var byteCount = 0
        for (index, line) in lines.enumerated() {
            let owned = line.formers.map(\.channel) + (line.channel.map { [$0] } ?? [])
            for channel in owned {
                precondition(
                    channels[channel] == index, "line \(index): channel \(channel) is another's")
            }
            channelCount += owned.count
            byteCount += line.link.outgoingByteCount
            precondition(
                line.formers.count <= GatewayLimits.formerChannelsMaximum + 1,
                "line \(index): \(line.formers.count) channels without a device")
            precondition(
                line.formers.count { $0.state == .ghost } <= 1,
                "line \(index): more than one half-open connection")
            precondition(
                line.channel == nil || line.link.phase == .open,
                "line \(index): a channel without a connection")
            precondition(
                line.link.phase == .closed || line.connection == .open,
                "line \(index): a connection without a line")
            precondition(
                line.backlogNoted == line.link.outgoingByteCount,
                "line \(index): \(line.backlogNoted) bytes noted, "
                    + "\(line.link.outgoingByteCount) there")
        }
        precondition(
            channelCount == channels.count,
            "lines have \(channelCount) of \(channels.count) channels")
        precondition(
            channels.count <= GatewayLimits.channelsMaximum, "\(channels.count) channels")
        precondition(
            byteCount == backlogByteCount,
            "backlogs have \(byteCount) bytes, their sum says \(backlogByteCount)")
    }

    /// The state of a line, for tests.
    package struct LineSummary: Equatable {
        package var isOpen: Bool
        package var isConnected: Bool
        package var isPaused: Bool
        package var channel: UInt32?
        package var formerCount: Int
        package var incomingByteCount: Int
        package var outgoingByteCount: Int
    }

    /// Whether bytes or effects wait to be taken.
    package var hasOutput: Bool { !outgoing.isEmpty || !speaking.isEmpty || !effects.isEmpty }

    package func summary(of index: Int) -> LineSummary {
        let line = lines[index]
        return LineSummary(
            isOpen: line.connection == .open, isConnected: line.link.phase == .open,
            isPaused: line.isPaused, channel: line.channel, formerCount: line.formers.count,
            incomingByteCount: line.link.incomingByteCount,
            outgoingByteCount: line.link.outgoingByteCount)
    }
}
