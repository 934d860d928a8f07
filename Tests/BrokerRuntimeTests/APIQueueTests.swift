// The queue between the loops and the thread that executes requests of the HTTP API.

import NetTransport
import Testing

@testable import BrokerRuntime

@Suite struct `The queue of requests` {
    /// Found in a broker that had answered some ten thousand requests: each wake-up called through
    /// two functions more than the one before.
    @Test func `wakes its executor as cheaply after a million requests`() throws {
        let queue = APIQueue()
        queue.setExecutor(try LoopHandle())
        for _ in 0..<1_000_000 { queue.wakeExecutor() }
        #expect(queue.answeredCount == 0)
    }
}
