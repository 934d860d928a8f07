// When the health page says that the broker is not well.

import Configuration
import Primitives
import Testing
import WireFormat

@testable import BrokerRuntime

@Suite("The health of a broker")
struct HealthMonitorTests {
    private static let listeners = WebListeners(
        terms: [nil, WebListeners.Terms(mqtt: 1, mrt: 2, parts: .health)], BrokerSettings())

    private static func at(_ seconds: UInt64) -> Instant { Instant(milliseconds: seconds * 1_000) }

    @Test func `is bad when a loop has not turned for ten seconds, until it turns`() {
        let health = BrokerHealth()
        var monitor = HealthMonitor(health, of: Self.listeners)
        health.set(.starting, false)
        func look(_ seconds: UInt64, turns: [UInt64]) -> BrokerHealth.Finding {
            monitor.note(
                turns: turns,
                stores: [HealthMonitor.Store(committed: 0, isIdle: true, isFull: false)],
                at: Self.at(seconds))
            return health.current
        }
        #expect(look(100, turns: [5, 5]) == [])
        #expect(look(109, turns: [9, 5]) == [])
        #expect(look(110, turns: [10, 5]) == .loopStuck)
        #expect(look(111, turns: [11, 6]) == [])
    }

    @Test func `is bad when a batch has waited for ten seconds, until one is committed`() {
        let health = BrokerHealth()
        var monitor = HealthMonitor(health, of: Self.listeners)
        health.set(.starting, false)
        var turns: UInt64 = 0
        func look(_ seconds: UInt64, committed: UInt64, isIdle: Bool) -> BrokerHealth.Finding {
            turns += 1
            monitor.note(
                turns: [turns],
                stores: [
                    HealthMonitor.Store(committed: committed, isIdle: isIdle, isFull: false)
                ], at: Self.at(seconds))
            return health.current
        }
        #expect(look(100, committed: 3, isIdle: true) == [])
        // An hour without work is no wait.
        #expect(look(3_700, committed: 3, isIdle: true) == [])
        #expect(look(3_701, committed: 3, isIdle: false) == [])
        #expect(look(3_709, committed: 3, isIdle: false) == [])
        #expect(look(3_710, committed: 3, isIdle: false) == .commitStuck)
        #expect(look(3_711, committed: 4, isIdle: false) == [])
    }

    @Test func `is told with its reasons and nothing else`() {
        func text(_ findings: BrokerHealth.Finding) -> String {
            String(decoding: HTTPResponse.health(findings).content, as: UTF8.self)
        }
        #expect(text([]) == "{\"status\":\"ok\",\"reasons\":[]}\n")
        #expect(
            text([.draining, .storeFull])
                == "{\"status\":\"unavailable\",\"reasons\":[\"draining\",\"store-full\"]}\n")
    }
}
