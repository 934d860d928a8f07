// The harness against its own floor: real sockets, no broker, every message accounted for.
import Foundation
import Testing

@testable import martlet_bench

@Suite struct FloorTests {
    @Test(arguments: [0, 1])
    func `the floor delivers every message once and in order`(qos: Int) throws {
        var plan = Plan(scenario: .floor)
        plan.dialect = .mqtt311
        plan.receiverCount = 10
        plan.qos = UInt8(qos)
        plan.seconds = 1
        plan.warmUpSeconds = 0.05
        plan.isQuiet = true
        let report = try BenchProgram.measureFloor(plan)
        #expect(report.isClean)
        #expect(report.expected > 0)
    }

    @Test func `the floor of a store writes all entries of the load to disk`() throws {
        let directory = FileManager.default.temporaryDirectory
            .appending(path: "store-floor-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        var plan = Plan(scenario: .offline)
        plan.receiverCount = 5
        plan.publisherCount = 5
        plan.topology = .pairs
        plan.limit = 30
        let report = try StoreFloor.measure(plan, directory: directory.path)
        #expect(Measure("enqueue rate")!.value(in: report)! > 0)
        #expect(report.intervals.map(\.count) == [150])
        let file = directory.appending(path: "data.mdb")
        let size = try FileManager.default.attributesOfItem(atPath: file.path)[.size] as? Int
        // A row of 148 bytes and an entry of 52 with their keys, at least.
        #expect(size ?? 0 > 150 * 200)
    }
}
