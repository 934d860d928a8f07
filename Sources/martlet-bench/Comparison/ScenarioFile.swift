// A file of scenarios to compare brokers with. Every error names its line. It starts and measures
// nothing.

import CommandLineOptions
import JSON5

struct ScenarioFile {
    /// One load and its compared value.
    struct Entry {
        var name: String
        /// A command line that begins with the scenario.
        var load: [String]
        var measure: Measure
        var goal: Goal
        /// Nil for all subjects of the file.
        var subjects: [String]?
        /// Whether each measurement starts a new process.
        var isFresh: Bool
    }

    /// The goal of Martlet; nil for none.
    struct Goal {
        /// At most this many times the floor.
        var floor: Double?
        /// At least this many times better than the best other broker.
        var best: Double?
    }

    /// A broker that is not built in.
    struct Broker {
        var name: String
        var command: String
        var configuration: String
        var dialect: LoadDialect
        var hasTLS: Bool
    }

    /// The name of the file, without its ending.
    var name: String
    var rounds = 3
    var seconds = 4
    var subjects: [String] = []
    var scenarios: [Entry] = []
    var brokers: [Broker] = []
}

/// A number of a report.
struct Measure: Equatable {
    enum Kind: String, CaseIterable {
        /// Broker CPU seconds per million operations.
        case cpu
        /// Operations per second.
        case rate
        case p50
        case p99
        /// Bytes per idle connection.
        case idle
        /// Bytes to the disk per operation.
        case written
        /// Bytes of memory per operation that are still allocated at the end.
        case memory
    }

    var kind: Kind
    /// The phase that it is taken from; nil for the first.
    var interval: String?

    /// Nil if the text is no measure.
    init?(_ text: String) {
        let words = text.split(separator: " ").map(String.init)
        guard let last = words.last, let kind = Kind(rawValue: last), words.count <= 2 else {
            return nil
        }
        self.kind = kind
        interval = words.count == 2 ? words[0] : nil
    }

    var isBetterWhenHigher: Bool { kind == .rate }

    var unit: String {
        switch kind {
        case .cpu: "CPU s/M"
        case .rate: "/s"
        case .p50: "p50 ms"
        case .p99: "p99 ms"
        case .idle, .written, .memory: "bytes"
        }
    }

    /// Nil if the report does not have it.
    func value(in report: Report) -> Double? {
        let interval = report.intervals.first { $0.name == self.interval ?? $0.name }
        switch kind {
        case .cpu: return interval?.brokerSecondsPerMillion
        case .rate: return interval?.perSecond
        case .p50: return Double(report.latencies.quantile(0.5)) / 1e6
        case .p99: return Double(report.latencies.quantile(0.99)) / 1e6
        case .idle: return report.idleBytesPerConnection.map(Double.init)
        case .written: return interval?.writtenPerOperation
        case .memory: return interval?.heldPerOperation
        }
    }
}

extension ScenarioFile {
    init(path: String) throws(UsageError) {
        let bytes: [UInt8]
        do throws(BenchFailure) {
            bytes = try HarnessFile.read(path)
        } catch {
            throw UsageError(error.message)
        }
        let fileName = path.split(separator: "/").last.map(String.init) ?? path
        name = fileName.hasSuffix(".json5") ? String(fileName.dropLast(6)) : fileName
        let reader = NodeReader(path: path, text: bytes)
        do throws(JSON5SyntaxError) {
            try apply(try JSON5Parser.parse(bytes), reader)
        } catch {
            throw reader.fault(error.message, at: error.offset)
        }
    }

    private mutating func apply(
        _ root: JSON5Node, _ reader: NodeReader
    ) throws(JSON5SyntaxError) {
        for member in try reader.members(root) {
            switch member.key {
            case "rounds": rounds = try reader.integer(member.node)
            case "seconds": seconds = try reader.integer(member.node)
            case "subjects": subjects = try reader.texts(member.node)
            case "scenarios":
                for node in try reader.elements(member.node) {
                    scenarios.append(try ScenarioFile.entry(node, reader))
                }
            case "brokers":
                for node in try reader.elements(member.node) {
                    brokers.append(try ScenarioFile.broker(node, reader))
                }
            default:
                throw reader.unknown(
                    member, ["rounds", "seconds", "subjects", "scenarios", "brokers"])
            }
        }
    }

    private static func entry(
        _ node: JSON5Node, _ reader: NodeReader
    ) throws(JSON5SyntaxError) -> Entry {
        var entry = Entry(
            name: "", load: [], measure: Measure("cpu")!, goal: Goal(), subjects: nil,
            isFresh: false)
        for member in try reader.members(node) {
            switch member.key {
            case "name": entry.name = try reader.text(member.node)
            case "load":
                entry.load = try reader.text(member.node).split(separator: " ").map(String.init)
                // Options that the comparison sets itself are not allowed here.
                do throws(UsageError) {
                    _ = try BenchProgram.plan(for: entry.load[...])
                } catch {
                    throw JSON5SyntaxError(offset: member.node.offset, message: error.message)
                }
            case "measure":
                guard let measure = Measure(try reader.text(member.node)) else {
                    throw JSON5SyntaxError(
                        offset: member.node.offset,
                        message: "must be cpu, rate, p50, p99, idle, written or memory, "
                            + "after an interval or alone")
                }
                entry.measure = measure
            case "goal": entry.goal = try goal(member.node, reader)
            case "subjects": entry.subjects = try reader.texts(member.node)
            case "fresh": entry.isFresh = try reader.boolean(member.node)
            default:
                throw reader.unknown(
                    member, ["name", "load", "measure", "goal", "subjects", "fresh"])
            }
        }
        guard !entry.name.isEmpty, !entry.load.isEmpty else {
            throw JSON5SyntaxError(
                offset: node.offset, message: "a scenario needs a name and a load")
        }
        return entry
    }

    private static func goal(
        _ node: JSON5Node, _ reader: NodeReader
    ) throws(JSON5SyntaxError) -> Goal {
        var goal = Goal()
        for member in try reader.members(node) {
            switch member.key {
            case "floor": goal.floor = try reader.decimal(member.node)
            case "best": goal.best = try reader.decimal(member.node)
            default: throw reader.unknown(member, ["floor", "best"])
            }
        }
        return goal
    }

    private static func broker(
        _ node: JSON5Node, _ reader: NodeReader
    ) throws(JSON5SyntaxError) -> Broker {
        var broker = Broker(
            name: "", command: "", configuration: "", dialect: .mqtt311, hasTLS: false)
        for member in try reader.members(node) {
            switch member.key {
            case "name": broker.name = try reader.text(member.node)
            case "command": broker.command = try reader.text(member.node)
            case "configuration": broker.configuration = try reader.text(member.node)
            case "tls": broker.hasTLS = try reader.boolean(member.node)
            case "dialect":
                guard let dialect = LoadDialect(name: try reader.text(member.node)) else {
                    throw JSON5SyntaxError(
                        offset: member.node.offset, message: "must be mrt, mqtt311 or mqtt5")
                }
                broker.dialect = dialect
            default:
                throw reader.unknown(
                    member, ["name", "command", "configuration", "dialect", "tls"])
            }
        }
        guard !broker.name.isEmpty, !broker.command.isEmpty else {
            throw JSON5SyntaxError(
                offset: node.offset, message: "a broker needs a name and a command")
        }
        return broker
    }
}

/// Values of a JSON5 document, and errors with their place.
struct NodeReader {
    let path: String
    let text: [UInt8]

    func fault(_ message: String, at offset: Int) -> UsageError {
        let place = TextPosition(offset: offset, in: text)
        return UsageError("\(path):\(place.line):\(place.column): \(message)")
    }

    func unknown(_ member: JSON5Node.Member, _ known: [String]) -> JSON5SyntaxError {
        let nearest = Spelling.nearest(to: member.key, among: known)
        return JSON5SyntaxError(
            offset: member.keyOffset,
            message: "unknown key \(member.key)"
                + (nearest.map { "; did you mean \($0)?" } ?? ""))
    }

    func members(_ node: JSON5Node) throws(JSON5SyntaxError) -> [JSON5Node.Member] {
        guard case .object(let members) = node.value else { throw wrong(node, "an object") }
        return members
    }

    func elements(_ node: JSON5Node) throws(JSON5SyntaxError) -> [JSON5Node] {
        guard case .array(let elements) = node.value else { throw wrong(node, "a list") }
        return elements
    }

    func text(_ node: JSON5Node) throws(JSON5SyntaxError) -> String {
        guard case .string(let text) = node.value else { throw wrong(node, "a text") }
        return text
    }

    func texts(_ node: JSON5Node) throws(JSON5SyntaxError) -> [String] {
        var texts: [String] = []
        for element in try elements(node) { texts.append(try text(element)) }
        return texts
    }

    func boolean(_ node: JSON5Node) throws(JSON5SyntaxError) -> Bool {
        guard case .boolean(let value) = node.value else { throw wrong(node, "true or false") }
        return value
    }

    func integer(_ node: JSON5Node) throws(JSON5SyntaxError) -> Int {
        guard case .number(let text) = node.value, let number = Int(text), number > 0 else {
            throw wrong(node, "a whole number above 0")
        }
        return number
    }

    func decimal(_ node: JSON5Node) throws(JSON5SyntaxError) -> Double {
        guard case .number(let text) = node.value, let number = Double(text), number > 0 else {
            throw wrong(node, "a number above 0")
        }
        return number
    }

    private func wrong(_ node: JSON5Node, _ wanted: String) -> JSON5SyntaxError {
        JSON5SyntaxError(
            offset: node.offset, message: "must be \(wanted), not \(node.kindName)")
    }
}
