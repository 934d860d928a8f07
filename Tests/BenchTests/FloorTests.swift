// The harness against its own floor: real sockets, no broker, every message accounted for.
import Testing

@testable import martlet_bench

@Suite struct FloorTests {
    @Test(arguments: [0, 1])
    func `all that is sent over the floor is delivered once and in order`(qos: Int) throws {
        var plan = Plan(scenario: .floor)
        plan.dialect = .mqtt311
        plan.receiverCount = 10
        plan.qos = UInt8(qos)
        plan.seconds = 0.1
        plan.warmUpSeconds = 0.05
        plan.isQuiet = true
        let report = try BenchProgram.measureFloor(plan)
        #expect(report.isClean)
        #expect(report.expected > 0)
    }
}
