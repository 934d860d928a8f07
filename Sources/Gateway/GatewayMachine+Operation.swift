// What an operator asks of a running gateway: other lines, and its counters.

import Primitives

extension GatewayMachine {
    /// Lines without those that were removed.
    var lineCount: Int { lines.count { !$0.isRemoved } }

    /// Writes the counters into the log.
    package mutating func logTotals() {
        totals.lines = UInt64(lineCount)
        totals.openLines = UInt64(lines.count { $0.connection == .open })
        totals.devices = UInt64(lines.count { $0.isDeviceConnected })
        totals.waitingBytes = UInt64(backlogByteCount)
        write(.totals, totals.line)
    }

    /// The lines could not be read: the present ones stay.
    package mutating func keepLines(because fault: String) {
        let text = String(fault.map { $0 == "\"" ? "'" : $0.isNewline ? " " : $0 })
        write(.reloadFailed, "detail=\"\(text)\"")
    }

    /// Changes to other lines. Lines that stay are not touched, so their devices notice nothing.
    /// The device of a line that is removed, or has another place, counts as lost.
    package mutating func setLines(_ wanted: [LineSettings], now: Instant) {
        var changed = settings
        changed.lines = wanted
        if let fault = changed.fault { return keepLines(because: fault) }
        let kept = Set(lines.lazy.filter { !$0.isRemoved }.map(\.settings))
        let added = wanted.filter { !kept.contains($0) }
        let vacancies = lines.count { $0.isVacant }
        guard lines.count - vacancies + added.count <= GatewayLimits.linesWithRemovedMaximum else {
            return keepLines(
                because: "the devices of removed lines are still being disconnected: try again")
        }
        var removedCount = 0
        let wantedSet = Set(wanted)
        for index in lines.indices
        where !lines[index].isRemoved && !wantedSet.contains(lines[index].settings) {
            remove(index)
            removedCount += 1
        }
        var places = lines.indices.filter { lines[$0].isVacant }[...]
        for settings in added {
            if let place = places.popFirst() {
                lines[place] = Line(settings)
            } else {
                lines.append(Line(settings))
            }
        }
        write(
            .reloaded, "lines=\(lineCount) added=\(added.count) removed=\(removedCount)")
    }

    /// The device is told, and the broker that it is lost.
    private mutating func remove(_ index: Int) {
        if lines[index].link.phase == .open { closeLink(index) }
        let last = takeOutgoing(of: index, atMost: .max)
        effects.append(.close(index, last: last))
        backlogByteCount -= lines[index].backlogNoted
        lines[index].backlogNoted = 0
        lines[index].link.reset()
        detach(index)
        lines[index].connection = .closed
        lines[index].isPaused = false
        lines[index].isRemoved = true
    }
}
