// `martlet trace`: the packets of one user, decoded, as they pass.

import Administration
import CommandLineOptions
import Glibc
import Threads

enum TraceOption: String, AppRules {
    case data, server, ca, token, app, user, device, payloads, seconds, json

    var shape: OptionShape { self == .json || self == .payloads ? .flag : .value }
}

/// `martlet trace`
enum TraceCommand {
    /// How often the command asks: as often as a person notices.
    private static let intervalMicroseconds: UInt32 = 500_000

    /// After this many packets there may be more, and the command asks again at once.
    private static let longPageCount = 64

    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<TraceOption>.options(arguments)
        let seconds = try options.seconds(.seconds)
        let app = try options.app()
        let user = try options.required(.user)
        let broker = try options.administration()
        let stopSignal = CommandStop.noteSignals()
        let trace = try broker.send(
            StartTrace(
                app: app, user: user, device: options[.device],
                showsPayloads: options.has(.payloads) ? true : nil, seconds: seconds)
        ).trace
        if !options.has(.json) {
            StandardStream.error.print(
                "martlet: trace \(trace) of \(printable(user)) for "
                    + "\(seconds ?? StartTrace.secondsDefault) s; other "
                    + "operators see it in: martlet trace list")
        }
        do {
            try follow(trace, broker, isJSON: options.has(.json), until: stopSignal)
        } catch {
            // Nobody reads it any more.
            _ = try? broker.send(StopTrace(trace: trace))
            throw error
        }
    }

    /// Prints packets until the trace ends.
    private static func follow(
        _ trace: String, _ broker: borrowing AdministrationConnection, isJSON: Bool,
        until signal: Locked<StopSignal?>
    ) throws {
        var next: UInt64 = 0
        var missedConnectionCount: UInt64 = 0
        while true {
            let page = try broker.send(ReadTrace(trace: trace, after: next))
            for packet in page.packets {
                if !isJSON, packet.number > next + 1 { printMissed(packet.number - next - 1) }
                next = packet.number
                guard StandardStream.output.print(isJSON ? jsonLine(packet) : packet.line) else {
                    throw CommandFailure.output
                }
            }
            if !isJSON, page.next > next { printMissed(page.next - next) }
            next = page.next
            if page.missedConnectionCount > missedConnectionCount {
                missedConnectionCount = page.missedConnectionCount
                StandardStream.error.print(
                    "martlet: \(counted(missedConnectionCount, "connection")) of the user not "
                        + "shown: choose one with --device")
            }
            if let signal = signal.withLock({ $0 }) {
                throw CommandFailure("ended by \(signal.name)", .stopped(by: signal.number))
            }
            if let end = page.end {
                _ = try broker.send(StopTrace(trace: trace))
                if end != "time" { throw CommandFailure("the trace has ended: \(end)", .failure) }
                return
            }
            if page.packets.count < longPageCount { usleep(intervalMicroseconds) }
        }
    }

    private static func printMissed(_ count: UInt64) {
        StandardStream.output.print("  … \(counted(count, "packet")) not shown: too many passed")
    }
}

/// `martlet trace list`
enum TraceListCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<TraceOption>.options(arguments, accepting: [.json])
        let broker = try options.administration()
        let traces = try broker.send(ListTraces()).traces
        if options.has(.json) {
            for trace in traces { StandardStream.output.print(jsonLine(trace)) }
            return
        }
        var table = TextTable(
            "TRACE", "APP", "USER", "DEVICE", "PAYLOADS", "STARTED BY", "LEFT", "PACKETS")
        for trace in traces {
            table.add([
                trace.trace, trace.app, trace.user, trace.device ?? "all",
                trace.showsPayloads ? "shown" : "hidden", trace.startedBy,
                trace.secondsLeft == 0 ? "ended" : "\(trace.secondsLeft) s",
                "\(trace.packetCount)",
            ])
        }
        _ = table.printPage()
    }
}

/// `martlet trace stop`
enum TraceStopCommand {
    static func run(_ arguments: ArraySlice<String>) throws {
        let options = try OptionParser<TraceOption>.options(
            arguments, positionalMaximum: 1, accepting: [.json])
        guard let trace = options.positionals.first else {
            throw UsageError("missing TRACE: martlet trace stop TRACE; see: martlet trace list")
        }
        _ = try options.administration().send(StopTrace(trace: trace))
        if !options.has(.json) { StandardStream.output.print("trace \(trace) ended") }
    }
}

extension TracedPacket {
    /// The packet on one line for people.
    fileprivate var line: String {
        var words = [
            timeText(unixMilliseconds: unixMilliseconds), connection, direction.arrow, packet,
        ]
        if byteCount > 0 { words.append("\(byteCount) B") }
        func add(_ name: String, _ value: String?) {
            if let value { words.append("\(name)=\(value.isEmpty ? "\"\"" : printable(value))") }
        }
        add("address", address)
        add("dialect", dialect)
        add("user", user)
        add("device", device)
        add("topic", topic)
        add("to", receiver)
        add("filters", filters?.joined(separator: " "))
        add("grade", grade.map(String.init))
        add("id", id.map(String.init))
        add("size", payloadByteCount.map(String.init))
        add("reason", reason)
        add("codes", codes?.joined(separator: ", "))
        if let detail { words.append("(\(printable(detail)))") }
        if let payload { words.append("\"\(printable(payload))\"") }
        add("hex", hex)
        return words.joined(separator: " ")
    }
}

extension TracedPacket.Direction {
    fileprivate var arrow: String {
        switch self {
        case .in: ">"
        case .out: "<"
        case .event: "*"
        }
    }
}

/// The time of day, UTC, with milliseconds.
private func timeText(unixMilliseconds: UInt64) -> String {
    var seconds = time_t(unixMilliseconds / 1_000)
    var date = tm()
    gmtime_r(&seconds, &date)
    func padded(_ number: some BinaryInteger, _ width: Int) -> String {
        let digits = "\(number)"
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
    return "\(padded(date.tm_hour, 2)):\(padded(date.tm_min, 2)):\(padded(date.tm_sec, 2))"
        + ".\(padded(unixMilliseconds % 1_000, 3))"
}
