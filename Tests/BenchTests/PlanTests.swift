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

    @Test func `offline sessions are persistent and confirmed`() throws {
        let plan = try plan(.offline)
        #expect(plan.qos == 1)
        #expect(plan.expirySeconds > 0)
    }

    @Test func `the help page names every option`() {
        #expect(
            OptionParser<BenchOption>.namesMissing(inHelp: BenchOption.helpPage) == [])
    }
}
