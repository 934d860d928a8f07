// The harness, from its arguments to its exit code: plan, target, load, report.

import CommandLineOptions
import Glibc
import NetTransport
import Primitives

/// The reason why a run could not begin.
struct BenchFailure: Error {
    let message: String
    init(_ message: String) {
        self.message = message
    }
}

enum BenchProgram {
    static func run(_ arguments: ArraySlice<String>) -> ExitCode {
        switch arguments.first {
        case nil:
            StandardStream.output.print(BenchOption.helpPage)
            return .usage
        // After a scenario, -h is the host, as in emqtt_bench.
        case "--help", "-h":
            StandardStream.output.print(BenchOption.helpPage)
            return .success
        case "--version":
            StandardStream.output.print("martlet-bench \(ProgramVersion.text)")
            return .success
        default: break
        }
        Interruption.receiveSignals()
        // As in the broker: the floor must show the lowest cost of TLS.
        TLSMemory.install()
        do throws(UsageError) {
            if arguments.first == "compare" { return try CompareCommand.run(arguments.dropFirst()) }
            switch try plan(for: arguments) {
            case .help:
                StandardStream.output.print(BenchOption.helpPage)
                return .success
            case .run(let plan): return write(plan)
            }
        } catch {
            StandardStream.error.print("martlet-bench: \(error.message)\nSee martlet-bench --help")
            return .usage
        }
    }

    enum Wish {
        case help
        case run(Plan)
    }

    /// The plan of a command line that begins with a scenario.
    static func plan(for arguments: ArraySlice<String>) throws(UsageError) -> Wish {
        var arguments = arguments
        let scenario: Scenario
        if let known = arguments.first.flatMap(Scenario.named) {
            scenario = known
            arguments.removeFirst()
        } else if let word = arguments.first, ["pub", "sub"].contains(word) {
            throw UsageError(
                "\(word) is one half of a load; here one program is both: fanout, unicast or fanin")
        } else {
            scenario = try Scenario.takeSubcommand(from: &arguments)
        }
        switch try OptionParser<BenchOption>.parse(arguments) {
        case .help: return .help
        case .run(let options): return .run(try Plan(scenario, options))
        }
    }

    private static func write(_ plan: Plan) -> ExitCode {
        do {
            let report = try measure(plan)
            report.write()
            if let file = plan.htmlFile { try HarnessFile.write(report.html, to: file) }
            if let code = Interruption.exitCode { return code }
            if report.failure != nil, report.tally.connected == 0 { return .notConnected }
            return report.isClean ? .success : .failure
        } catch let error as UsageError {
            StandardStream.error.print("martlet-bench: \(error.message)")
            return .usage
        } catch {
            StandardStream.error.print("martlet-bench: \((error as? BenchFailure)?.message ?? "")")
            return .notConnected
        }
    }

    /// Runs a plan from its limits to its report.
    static func measure(_ plan: Plan) throws -> Report {
        try OwnLimits.prepare(
            for: LoadDriver.slotCount(for: plan),
            descriptorsPerClient: plan.scenario == .floor ? 2 : 1,
            sourceAddresses: plan.sourceAddresses.count)
        return plan.scenario == .floor
            ? try measureFloor(plan) : try load(plan, target: target(of: plan))
    }

    /// Runs the fan-out against the floor, on a thread of this process.
    static func measureFloor(_ plan: Plan) throws(BenchFailure) -> Report {
        let server = FloorBox(
            try FloorServer(
                certificateFile: plan.tls?.certificateFile, keyFile: plan.tls?.keyFile))
        var own = plan
        own.host = "127.0.0.1"
        own.port = server.value.port
        // The server behind this port is in this process.
        own.tls?.isInsecure = true
        let thread = StoppableThread(name: "floor") { server.value.run($0) }
        defer { thread.stop() }
        var target = try target(of: own)
        target.cost = .thread(thread.clock)
        return try load(own, target: target)
    }

    private static func target(of plan: Plan) throws(BenchFailure) -> LoadTarget {
        do throws(TransportError) {
            let address = try Resolver.resolve(host: plan.host, port: plan.port)[0]
            var sources: [SocketAddress] = []
            for text in plan.sourceAddresses {
                guard let source = SocketAddress(numericHost: text, port: 0) else {
                    throw .address(text, detail: "is not a numeric address")
                }
                sources.append(source)
            }
            var tls: ClientTLSContext?
            if let wanted = plan.tls {
                let trust: ClientTLSContext.Trust =
                    wanted.isInsecure
                    ? .anyServerWithoutVerification
                    : wanted.authorityFile.map { .authorityFile($0) } ?? .system
                tls = try ClientTLSContext(trust: trust)
            }
            return LoadTarget(
                address: address, serverName: plan.host, sources: sources, tls: tls,
                cost: plan.brokerProcess.map { .process($0) })
        } catch {
            throw BenchFailure("\(error)")
        }
    }

    private static func load(_ plan: Plan, target: LoadTarget) throws(BenchFailure) -> Report {
        if target.cost != nil, target.cost?.read() == nil {
            throw BenchFailure("there is no process \(plan.brokerProcess ?? 0) to be measured")
        }
        do throws(TransportError) {
            var configuration = EventLoop.Configuration()
            configuration.connectionsMaximum = LoadDriver.slotCount(for: plan)
            // Another broker may send any packet; the largest payload of this load must fit.
            configuration.packetMaximum = plan.payloadByteCount + 65_536
            // A frame contains all packets of one flush.
            if plan.isWebSocket { configuration.packetMaximum += 4 << 20 }
            configuration.firstPacketMaximum = configuration.packetMaximum
            let handle = try LoopHandle()
            var loop = try EventLoop(configuration, handle: handle)
            var driver = LoadDriver(plan, target)
            let pacer = plan.isPaced ? Pacer.start(handle) : nil
            defer { pacer?.stop() }
            while driver.stage != .finished { _ = loop.turn(&driver, waitMaximum: 10) }
            driver.progress.clear()
            return Report(driver, loop.counters)
        } catch {
            throw BenchFailure("\(error)")
        }
    }
}

/// Moves the server to its thread, which alone uses it.
private final class FloorBox: @unchecked Sendable {
    var value: FloorServer
    init(_ value: consuming FloorServer) {
        self.value = value
    }
}

/// Wakes the loop often enough for an open loop: epoll itself waits in whole milliseconds.
private enum Pacer {
    static let periodNanoseconds = 100_000

    static func start(_ handle: LoopHandle) -> StoppableThread {
        StoppableThread(name: "pacer") { stopFlag in
            var period = timespec(tv_sec: 0, tv_nsec: periodNanoseconds)
            while !stopFlag.isCancelled {
                clock_nanosleep(CLOCK_MONOTONIC, 0, &period, nil)
                handle.wake()
            }
        }
    }
}

extension Plan {
    fileprivate var isPaced: Bool {
        if case .rate = pace { return publisherCount > 0 }
        return false
    }
}
