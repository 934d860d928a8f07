// The command line of the harness: defaults, contradictions, the help page.
import CommandLineOptions
import Testing

@testable import martlet_bench

@Suite struct PlanTests {
    private func plan(_ scenario: Scenario, _ words: String...) throws -> Plan {
        guard case .run(let options) = try OptionParser<BenchOption>.parse(words) else {
            throw UsageError("help was asked for")
        }
        return try Plan(scenario, options)
    }

    @Test func `pairs have as many publishers as receivers`() throws {
        let plan = try plan(.unicast, "-c", "7")
        #expect(plan.publisherCount == 7)
        #expect(plan.receiversPerMessage == 1)
        #expect(plan.topic(ofPair: 3) == "bench/3")
    }

    @Test func `a percent sign without i stays in a topic`() throws {
        #expect(try plan(.fanOut, "-t", "a%b%i%").topic(ofPair: 1) == "a%b1%")
    }

    @Test func `a window and a rate exclude each other`() {
        #expect(throws: UsageError.self) { try plan(.fanOut, "-F", "2", "--rate", "5") }
    }

    @Test func `the outbox of an MRT session bounds the window of numbered sends`() throws {
        #expect(throws: UsageError.self) { try plan(.fanOut, "-q", "1", "-F", "65") }
        #expect(try plan(.fanOut, "-V", "311", "-q", "1", "-F", "65").qos == 1)
    }

    @Test func `only MQTT goes over WebSocket`() throws {
        #expect(try plan(.fanOut, "-V", "5", "--websocket").mqtt?.isFramed == true)
        #expect(throws: UsageError.self) { try plan(.fanOut, "--websocket") }
        #expect(throws: UsageError.self) { try plan(.floor, "--websocket") }
    }

    @Test func `offline sessions are persistent and confirmed`() throws {
        let plan = try plan(.offline)
        #expect(plan.qos == 1)
        #expect(plan.expirySeconds > 0)
    }

    @Test func `a dialect goes by its name or by the number that other tools have for it`() throws {
        for (word, dialect) in [
            ("mrt", LoadDialect.mrt), ("mqtt311", .mqtt311), ("4", .mqtt311), ("mqtt5", .mqtt5),
            ("5", .mqtt5),
        ] {
            #expect(try plan(.fanOut, "-V", word).dialect == dialect)
        }
        #expect(throws: UsageError.self) { try plan(.fanOut, "-V", "3") }
    }

    @Test func `intervals are rates the other way round`() throws {
        let plan = try plan(.connect, "-i", "10")
        #expect(plan.connectsPerSecond == 100)
        guard case .rate(4) = try self.plan(.fanOut, "-I", "250").pace else {
            Issue.record("no rate")
            return
        }
        #expect(throws: UsageError.self) { try self.plan(.fanOut, "-I", "250", "--rate", "4") }
    }

    @Test func `a client of churn is its own receiver`() throws {
        let plan = try plan(.churn, "-c", "3")
        #expect(plan.clientCount == 3)
        #expect(plan.client(ofPublisher: 2) == 2)
        #expect(plan.receiversPerMessage == 1)
    }

    @Test func `one reader in a hundred stalls without delaying the others`() throws {
        let plan = try plan(.slow, "-c", "300")
        #expect(plan.stalledCount == 3)
        #expect(plan.receiversPerMessage == 297)
    }

    @Test func `sleeping devices have no closed loop`() throws {
        #expect(throws: UsageError.self) { try plan(.sleepy, "-F", "4") }
        #expect(try plan(.sleepy).expirySeconds > 0)
    }

    @Test(arguments: ["--seconds", "--warm-up", "--sleep"])
    func `no duration exceeds the range of the stamps`(option: String) throws {
        #expect(throws: UsageError.self) { try plan(.sleepy, option, "18446744073709551615") }
        #expect(throws: UsageError.self) { try plan(.sleepy, option, "86401") }
        _ = try plan(.sleepy, option, "1d")
    }

    @Test func `groups and broadcasts require mrt`() {
        #expect(throws: UsageError.self) { try plan(.group, "-V", "5") }
        #expect(throws: UsageError.self) { try plan(.broadcast, "-V", "4") }
    }

    @Test func `history requires numbered messages to users or groups, in mrt`() throws {
        #expect(try plan(.unicast, "-q", "1", "--history").isKept)
        #expect(try plan(.offline, "-c", "5", "--publishers", "5", "--history").isKept)
        #expect(throws: UsageError.self) { try plan(.unicast, "--history") }
        #expect(throws: UsageError.self) { try plan(.fanOut, "-q", "1", "--history") }
        #expect(throws: UsageError.self) {
            try plan(.unicast, "-q", "1", "-V", "5", "--history")
        }
    }

    @Test func `the name of emqtt_bench for connect is accepted`() throws {
        guard case .run(let plan) = try BenchProgram.plan(for: ["conn", "-c", "7"]) else {
            Issue.record("help")
            return
        }
        #expect(plan.scenario == .connect)
    }

    @Test func `an error for the subcommands of emqtt_bench names the scenario to use`() {
        for word in ["pub", "sub"] {
            #expect {
                try BenchProgram.plan(for: [word, "-c", "5"])
            } throws: { ($0 as? UsageError)?.message.contains("fanout") == true }
        }
    }

    @Test func `the help page names every option`() {
        #expect(
            OptionParser<BenchOption>.namesMissing(inHelp: BenchOption.helpPage) == [])
        #expect(
            OptionParser<CompareOption>.namesMissing(inHelp: CompareOption.helpPage) == [])
    }
}
